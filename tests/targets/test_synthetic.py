import jax
import numpy as np
import pytest

import ergodic as eg
from ergodic.targets.quadrature import gauss_legendre
from ergodic.targets.synthetic import PAPER_SIX, SYNTHETIC
from statistics_ergodic import z_of_mean

N = 100_000
# -E_π[log π*] as computed for the project's reference notes, by an independent quadrature.
KNOWN = {"laplace": 3.3863, "dual-moon": 0.7825, "ring": 4.7027, "gaussian": 1.0}


def test_the_registry():
    assert set(PAPER_SIX) <= set(SYNTHETIC) <= set(eg.targets.names())
    assert [SYNTHETIC[name].letter for name in PAPER_SIX] == list("abcdef")
    assert eg.targets.get("ring") is eg.targets.get("ring")
    with pytest.raises(eg.ModelError, match="did you mean 'dual-moon'"):
        eg.targets.get("dual_moon")


@pytest.mark.parametrize(("name", "value"), KNOWN.items())
def test_quadrature_agrees_with_the_notes(name, value):
    assert -eg.targets.get(name).require_truth().expected_logdensity == pytest.approx(value, abs=6e-5)


def test_quadrature_agrees_with_closed_forms():
    laplace, gaussian, wave1, ring = (
        eg.targets.get(n).require_truth() for n in ("laplace", "gaussian", "wave1", "ring")
    )
    assert laplace.expected_logdensity == pytest.approx(-2 - 2 * np.log(2), abs=1e-6)
    assert laplace.log_z == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(laplace.covariance, 2 * np.eye(2), atol=1e-5)
    assert gaussian.log_z == pytest.approx(np.log(2 * np.pi) + 0.5 * np.log(0.95), abs=1e-6)
    np.testing.assert_allclose(gaussian.covariance, [[2, 1.5], [1.5, 1.6]], atol=1e-5)
    assert gaussian.entropy == pytest.approx(np.log(2 * np.pi * np.e) + 0.5 * np.log(0.95), abs=1e-6)
    assert wave1.log_z == pytest.approx(np.log(2 * np.pi * 0.4 * 2.0), abs=1e-6)
    assert wave1.expected_logdensity == pytest.approx(-1, abs=1e-6)
    assert ring.log_z == pytest.approx(0, abs=1e-6)
    np.testing.assert_allclose(ring.covariance, 13.5 * np.eye(2), atol=1e-4)


def test_gauss_legendre_integrates_polynomials_exactly():
    x, w = gauss_legendre(-1.0, 2.0, panels=3, order=4)
    assert w @ x**7 == pytest.approx((2**8 - 1) / 8)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_exact_draws_have_the_moments_of_the_quadrature(name):
    """E[log π*], means and second moments of 100,000 draws, |z| < 5: probability of failure 4e-6 a target."""
    target = eg.targets.get(name)
    truth = target.require_truth()
    x = target.draw_exact(jax.random.key(1), N)
    assert x.shape == (N, 2)
    value, _ = target.density.batched(x)
    assert abs(z_of_mean(value, truth.expected_logdensity)) < 5
    assert np.abs(z_of_mean(x, truth.mean)).max() < 5
    centred = x.astype(np.float64) - truth.mean
    for i, j in ((0, 0), (0, 1), (1, 1)):
        assert abs(z_of_mean(centred[:, i] * centred[:, j], truth.covariance[i, j])) < 5
