"""Deep generative models p(y, x) = p(y | x) N(x; 0, I), trained with a chain, or another encoder, as inference."""

from .ergodic import Ergodic
from .hvae import HVAE
from .hvi import HVI
from .vae import VAE

__all__ = ["HVAE", "HVI", "VAE", "Ergodic"]
