"""What a method must offer is checked by its type: nothing is looked for by name."""

from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
import pytest

import ergodic as eg
from ergodic.charts import DenseChart, DiagonalChart, LowRankChart
from ergodic.charts.members import MembersChart
from ergodic.initial import DiagonalGaussian
from ergodic.initial.mixture import KernelMixture
from ergodic.kernels import HMC
from ergodic.kernels.affine import AffineHMC
from ergodic.methods import METHODS
from ergodic.protocols import (
    Annealable,
    AnyTarget,
    Bidirectional,
    Chained,
    Chart,
    Correlated,
    Familial,
    FixedShapes,
    Hamiltonian,
    Independent,
    Initial,
    Kernel,
    Method,
)

CAPABILITIES = {
    "GEI": {Independent, Chained, Annealable, Familial},
    "HEI": {FixedShapes, Independent, Chained, Hamiltonian},
    "MeanField": {FixedShapes, Independent},
    "HVI": {FixedShapes, Independent},
    "HVAE": {FixedShapes, Independent},
    "Pathfinder": {FixedShapes, Independent},
    "HAIS": {FixedShapes, Independent, Bidirectional},
    "GHMC": {FixedShapes, Correlated},
    "SGHMC": {FixedShapes, Correlated},
    "Rejection": {FixedShapes},
    **{name: {FixedShapes, Correlated} for name in ("NUTS", "ChEES", "MEADS", "LAPS")},
}
ALL = (FixedShapes, Independent, Chained, Hamiltonian, Annealable, Correlated, Bidirectional, Familial)


@pytest.mark.parametrize("name", CAPABILITIES)
def test_a_method_has_the_capabilities_it_inherits(name):
    method = METHODS[name]()
    assert isinstance(method, Method) and hash(method) == hash(METHODS[name]())
    assert {capability for capability in ALL if isinstance(method, capability)} == CAPABILITIES[name]


def test_every_method_is_in_the_table():
    assert set(CAPABILITIES) == set(METHODS) - {"LongChain"}


def test_a_method_that_lacks_something_cannot_be_made():
    @dataclass(frozen=True)
    class Half(Chained):
        name: ClassVar[str] = "Half"
        title: ClassVar[str] = "half a method"

        def depth(self, params):
            return 1

    with pytest.raises(TypeError, match=r"abstract.*fit.*go_on.*start.*template.*transitions"):
        Half()


def test_what_merely_looks_like_a_method_is_refused():
    class Duck:
        def fit(self, target, key, *, progress=None):
            return "quack"

    for method in (Duck(), eg.HEI, "HEI"):
        with pytest.raises(eg.ConfigError, match=r"such as eg\.HEI"):
            eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method)


def test_charts_starts_kernels_and_targets_keep_their_protocols():
    square = jnp.eye(2)
    charts = (DiagonalChart(jnp.ones(2)), LowRankChart(jnp.ones(2), square[:, :1], jnp.ones(1)))
    dense = DenseChart(square, square, jnp.zeros(()))
    assert all(isinstance(chart, Chart) for chart in (*charts, dense, MembersChart(dense)))
    initial = DiagonalGaussian(jnp.zeros(2), jnp.zeros(2))
    assert isinstance(initial, Initial) and isinstance(KernelMixture(square, dense), Initial)
    assert isinstance(HMC(), Kernel) and isinstance(AffineHMC(), Kernel)
    assert isinstance(eg.targets.get("gaussian"), AnyTarget)
    assert not isinstance(initial, Chart) and not isinstance(dense, Kernel)


def test_each_capability_decides_what_a_certificate_and_a_stream_may_do():
    """A method without a chain cannot start elsewhere: its certificate says so instead of looking for `go_on`."""
    sampler = eg.fit(eg.targets.get("gaussian"), jax.random.key(0), eg.MeanField(iterations=2), progress=False)
    exact = DiagonalGaussian(jnp.zeros(2), jnp.zeros(2))  # what failed would end the certificate before
    plain = replace(sampler, target=eg.Target(lambda x: -0.5 * x @ x, like=jnp.zeros(2)), params=exact)
    found = {finding.name: finding.verdict for finding in plain.certify(jax.random.key(1), draws=1000).findings}
    assert found["start dependence"] == "inconclusive" and "the chain again" not in found
