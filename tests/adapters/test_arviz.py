import jax
import jax.numpy as jnp
import numpy as np

import ergodic as eg


def test_inference_data_has_what_arviz_needs(tmp_path):
    target = eg.Target(
        lambda p: -0.5 * jnp.sum(p["theta"] ** 2) - 0.5 * p["mu"] ** 2, like={"mu": 0.0, "theta": jnp.zeros(3)}
    )
    draws = eg.HEI(iterations=5, steps=3).fit(target, jax.random.key(0)).sample(jax.random.key(1), 400)
    data = draws.to_arviz()
    assert dict(data.posterior.sizes)["chain"] == 1 and dict(data.posterior.sizes)["draw"] == 400
    np.testing.assert_array_equal(data.posterior["theta"].values[0], draws.position["theta"])
    np.testing.assert_array_equal(data.sample_stats["lp"].values[0], draws.logdensity)
    assert {"lp", "acceptance_rate", "diverging", "energy_error"} <= set(data.sample_stats.data_vars)
    assert data.posterior.attrs["independent_draws"] == 1
    assert data.posterior.attrs["method"] == "HEI"
    assert data.posterior.attrs["inference_library"] == "ergodic"

    import arviz

    summary = arviz.summary(data, kind="stats")
    assert list(summary.index) == ["mu", "theta[0]", "theta[1]", "theta[2]"]


def test_a_plain_array_position_is_called_x(gaussian_sampler):
    data = gaussian_sampler.sample(jax.random.key(0), 10).to_arviz()
    assert data.posterior["x"].shape == (1, 10, 2)
    assert list(data.posterior["x"].coords["x_dim"].values) == ["x1", "x2"]
