import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ergodic as eg


def normal(x):
    return -0.5 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(x))


LIKES = {
    "array": jnp.zeros(3),
    "scalar": jnp.zeros(()),
    "python scalar": 0.0,
    "matrix": np.zeros((2, 3), np.float32),
    "dict": {"a": jnp.zeros(2), "b": 0.0, "c": jnp.zeros((2, 2))},
    "tuple": (jnp.zeros(1), {"deep": jnp.zeros((1, 2))}),
}


@pytest.mark.parametrize("like", LIKES.values(), ids=LIKES.keys())
def test_any_pytree_is_flattened_and_comes_back(like):
    target = eg.Target(normal, like=like)
    flat = np.arange(2 * target.dim, dtype=np.float32).reshape(2, -1)
    tree = target.layout.unravel(flat)
    assert jax.tree.structure(tree) == jax.tree.structure(like)
    for leaf, example in zip(jax.tree.leaves(tree), jax.tree.leaves(like), strict=True):
        assert leaf.shape == (2, *np.shape(example))
    np.testing.assert_array_equal(target.layout.ravel(jax.tree.map(lambda leaf: leaf[1], tree)), flat[1])
    assert len(target.names) == target.dim == len(set(target.names))
    value, gradient = target.density.batched(jnp.asarray(flat))
    np.testing.assert_allclose(value, -0.5 * (flat**2).sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(gradient, -flat, rtol=1e-6)


def test_names_follow_the_paths():
    target = eg.Target(normal, like={"b": 0.0, "w": jnp.zeros((1, 2))})
    assert target.names == ("b", "w[0,0]", "w[0,1]")
    assert eg.Target(normal, like=jnp.zeros(2)).names == ("x[0]", "x[1]")


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=1, max_size=4))
def test_layouts_of_any_shapes_round_trip(shapes):
    like = [jnp.zeros(tuple(shape)) for shape in shapes]
    if sum(leaf.size for leaf in like) == 0:
        with pytest.raises(eg.TargetError, match="no values"):
            eg.Target(normal, like=like)
        return
    layout = eg.Target(lambda x: jnp.float32(0) + normal(x), like=like).layout
    flat = jnp.arange(layout.dim, dtype=jnp.float32)
    np.testing.assert_array_equal(layout.ravel(layout.unravel(flat)), flat)


def test_dtype_is_kept_even_with_x64(x64):
    for dtype in (jnp.float32, jnp.float64):
        target = eg.Target(normal, like={"a": jnp.zeros(2, dtype), "b": jnp.zeros((), dtype)})
        assert target.dtype == dtype
        draws = eg.HEI(iterations=2, steps=2).fit(target, jax.random.key(0)).sample(jax.random.key(1), 10)
        assert draws.position["a"].dtype == draws.logdensity.dtype == dtype


def test_a_half_precision_target_keeps_its_dtype():
    target = eg.Target(normal, like=jnp.zeros(2, jnp.bfloat16))
    assert target.density.batched(jnp.zeros((3, 2), jnp.bfloat16))[1].dtype == jnp.bfloat16


BAD = {
    "vector": (lambda x: -0.5 * x**2, jnp.zeros(2), r"shape \(2,\).*jnp.sum"),
    "integer": (lambda x: jnp.int32(3), jnp.zeros(2), "returned int32"),
    "python integer": (lambda x: 3, jnp.zeros(2), "returned int32"),
    "none": (lambda x: None, jnp.zeros(2), "NoneType"),
    "tuple": (lambda x: (normal(x), 1.0), jnp.zeros(2), "tuple"),
    "other dtype": (lambda x: normal(x).astype(jnp.bfloat16), jnp.zeros(2), "changes dtype.*float32.*bfloat16"),
    "mismatch": (lambda x: normal(x) + x @ jnp.ones(3), jnp.zeros(2), "like"),
    "missing key": (lambda x: normal(x["mu"]), {"a": jnp.zeros(2)}, "KeyError"),
    "python branch": (lambda x: normal(x) if x[0] > 0 else 0.0, jnp.zeros(2), "written in JAX"),
    "integer like": (normal, jnp.zeros(2, jnp.int32), "int32.*floating"),
    "integer scalar like": (normal, {"a": 1}, "'a'.*int32"),
    "string like": (normal, {"a": "x"}, "'a' is a str"),
    "empty like": (normal, {}, "no array"),
    "no values": (normal, jnp.zeros((0, 2)), "no values"),
    "mixed dtypes": (normal, {"a": jnp.zeros(2), "b": jnp.zeros(2, jnp.bfloat16)}, "mixes dtypes.*b: bfloat16"),
    "complex": (normal, jnp.zeros(2, jnp.complex64), "complex64"),
    "two leaves of one name": (normal, {"a": {"b": 0.0}, "a.b": 0.0}, r"both called 'a\.b'"),
    "not a function": (3.0, jnp.zeros(2), "must be a function"),
}


@pytest.mark.parametrize(("logdensity", "like", "message"), BAD.values(), ids=BAD.keys())
def test_bad_targets_are_refused_with_the_cause(logdensity, like, message):
    with pytest.raises(eg.TargetError, match=message):
        eg.Target(logdensity, like=like)


def test_wrong_number_of_names():
    with pytest.raises(eg.TargetError, match="1 names for 2"):
        eg.Target(normal, like=jnp.zeros(2), names=["a"])


def test_a_target_without_truth_says_so():
    target = eg.Target(normal, like=jnp.zeros(2), name="mine")
    with pytest.raises(eg.TargetError, match="'mine'"):
        target.require_truth()
    known = eg.Truth(0.0, 0.0, np.zeros(2), np.eye(2))
    with pytest.raises(eg.TargetError, match="no way to draw"):
        eg.Target(normal, like=jnp.zeros(2), truth=known).draw_exact(jax.random.key(0), 3)


def test_a_broken_constrain_is_refused_at_once():
    with pytest.raises(eg.TargetError, match="constrain raised KeyError"):
        eg.Target(normal, like={"a": 0.0}, constrain=lambda p: p["b"])
    with pytest.raises(eg.TargetError, match="constrain must be a function"):
        eg.Target(normal, like={"a": 0.0}, constrain=3)
    with pytest.raises(eg.ConfigError, match="prior_entropy"):
        eg.Target(normal, like={"a": 0.0}, prior_entropy=float("nan"))


def test_constrain_maps_the_draws():
    target = eg.Target(
        lambda p: normal(p), like={"log_s": 0.0}, constrain=lambda p: {"s": jnp.exp(p["log_s"]), "both": jnp.zeros(2)}
    )
    draws = eg.HEI(iterations=2, steps=2).fit(target, jax.random.key(0)).sample(jax.random.key(1), 50)
    np.testing.assert_allclose(draws.position["s"], np.exp(draws.unconstrained[:, 0]), rtol=1e-5)
    assert draws.position["both"].shape == (50, 2)


def test_one_numpy_vector_can_be_cut_into_scalars():
    layout = eg.Target(normal, like={"a": jnp.zeros(2), "b": 0.0}).layout
    position = layout.unravel(np.arange(3.0))
    assert position["b"].shape == () and position["b"] == 2.0


def test_double_precision_that_is_lost_is_said():
    with pytest.warns(eg.TargetWarning, match=r"'x' is float64, but JAX is in single.*jax_enable_x64"):
        target = eg.Target(lambda x: -jnp.sum(x**2), like=np.zeros(2))
    assert target.dtype == np.float32
    eg.Target(lambda x: -jnp.sum(x**2), like=np.zeros(2, np.float32))
    eg.Target(lambda x: -(x**2), like=0.0)
    with jax.enable_x64(True):
        assert eg.Target(lambda x: -jnp.sum(x**2), like=np.zeros(2)).dtype == np.float64
