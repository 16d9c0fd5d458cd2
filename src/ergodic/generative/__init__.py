"""Deep generative models p(y, x) = p(y | x) N(x; 0, I), trained with a chain, or another encoder, as inference.

This room needs Equinox, which the extra ``networks`` installs. `latent_posteriors` and `image_samplers` hand a trained
model to the rest of the library: as a `Family` of posteriors, and as a `Sampler` per image.
"""

from ..runtime.extras import require

require("equinox", "networks", "a generative model")

from .ergodic_encoder import ErgodicEncoder  # noqa: E402 (a missing Equinox is named first)
from .hvae_encoder import HVAEEncoder  # noqa: E402
from .hvi_encoder import HVIEncoder  # noqa: E402
from .posteriors import image_samplers, latent_posteriors  # noqa: E402
from .vae_encoder import VAEEncoder  # noqa: E402

__all__ = ["ErgodicEncoder", "HVAEEncoder", "HVIEncoder", "VAEEncoder", "image_samplers", "latent_posteriors"]
