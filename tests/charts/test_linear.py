"""Every form of chart against the matrix that it stands for, in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from ergodic.charts import DenseChart, DiagonalChart, LowRankChart, chart_at

DIM, RANK = 5, 2
FORMS = ("diagonal", "low rank", "dense")


def made(form, seed=0):
    """A chart and its matrix A."""
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.normal(size=DIM))
    if form == "diagonal":
        return DiagonalChart(jnp.asarray(scale)), np.diag(scale)
    if form == "low rank":
        vectors = np.linalg.qr(rng.normal(size=(DIM, RANK)))[0]
        stretch = np.exp(rng.normal(size=RANK))
        matrix = scale[:, None] * (np.eye(DIM) + vectors @ np.diag(stretch - 1) @ vectors.T)
        return LowRankChart(*(jnp.asarray(part) for part in (scale, vectors, stretch))), matrix
    matrix = rng.normal(size=(DIM, DIM)) * scale[:, None]
    parts = matrix, np.linalg.inv(matrix), np.linalg.slogdet(matrix)[1]
    return DenseChart(*(jnp.asarray(part) for part in parts)), matrix


def rows(seed, n=7):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(n, DIM)))


@pytest.mark.parametrize("form", FORMS)
def test_it_does_what_its_matrix_does(x64, form):
    chart, matrix = made(form)
    v = rows(1)
    np.testing.assert_allclose(chart.push(v), v @ matrix.T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(chart.pull(v), v @ matrix, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(chart.whiten(v), np.linalg.solve(matrix, v.T).T, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(chart.log_volume(), np.linalg.slogdet(matrix)[1], rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_pull_is_the_adjoint_of_push_and_whiten_its_inverse(x64, form):
    chart, _ = made(form)
    z, force = rows(1), rows(2)
    np.testing.assert_allclose(
        jnp.sum(chart.push(z) * force, axis=1), jnp.sum(z * chart.pull(force), axis=1), rtol=1e-11
    )
    np.testing.assert_allclose(chart.whiten(chart.push(z)), z, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_multiplied(x64, form):
    chart, _ = made(form)
    more, z = chart.times(2.5), rows(1)
    np.testing.assert_allclose(more.push(z), 2.5 * chart.push(z), rtol=1e-12)
    np.testing.assert_allclose(more.pull(z), 2.5 * chart.pull(z), rtol=1e-12)
    np.testing.assert_allclose(more.whiten(z), chart.whiten(z) / 2.5, rtol=1e-12)
    np.testing.assert_allclose(more.log_volume(), chart.log_volume() + DIM * np.log(2.5), rtol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_one_of_several_is_taken_inside_a_program(x64, form):
    several = [made(form, seed)[0] for seed in range(3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *several)
    z = rows(1)
    push = jax.jit(lambda which: chart_at(stacked, which).push(z))
    for which, chart in enumerate(several):
        np.testing.assert_allclose(push(jnp.int32(which)), chart.push(z), rtol=1e-12)
