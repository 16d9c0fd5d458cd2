"""What a chart says of itself, on layers that are written by hand."""

import numpy as np
import pytest

from ergodic.charts.coordinates import Coordinates
from ergodic.charts.driven import ALONG, FEATURES, blank
from ergodic.charts.telling import ToldChart, runs

NAMES = ("tau", "theta[0]", "theta[1]")


def layer(*, scale=0.0, bend=0.0, slope=0.0):
    """A layer in which tau drives the scale of both others by e^(scale v), and the mean of the second by v or by v²."""
    made = blank(3, 1, False, np.dtype(np.float64))
    drivers, curves = np.zeros((3, 1)), [np.zeros((FEATURES, 3)) for _ in range(2)]
    drivers[0], curves[1][0, 1:] = 1, scale
    curves[0][-1, 1], curves[0][0, 1] = bend, slope
    return made._replace(kind=np.asarray(float(ALONG)), drivers=drivers, mean=curves[0], scale=curves[1])


def said(one):
    u = np.random.default_rng(0).normal(size=(500, 3))
    told = ToldChart(Coordinates((one,)), NAMES, Coordinates((one,)).forward(u)[0], lambda x: -x)
    return told.summary().splitlines()[0]


def test_a_neck_a_bend_and_a_line_are_told():
    assert said(layer(scale=0.5)) == f"tau drives the scale of theta[0..1], by up to {np.exp(2):.1f}"
    assert said(layer(slope=1.0)) == "tau drives the mean of theta[0]"
    assert said(layer(bend=0.5)) == "tau drives the mean of theta[0]"  # alike at both ends
    assert said(layer()) == "tau drives very little"


def test_the_chance_of_a_wide_end_is_no_mean():
    """The mean moves by 0.1 conditional spreads, which are e^6 wide at one end."""
    assert said(layer(scale=3.0, slope=0.05)) == f"tau drives the scale of theta[0..1], by up to {np.exp(12):.1f}"


def test_without_draws_it_still_says_what_drives_what():
    told = ToldChart(Coordinates((layer(scale=0.5),)), NAMES, np.zeros((0, 3)), lambda x: -x)
    assert told.summary() == f"tau drives the scale of theta[0..1], by up to {np.exp(2):.1f}"
    assert "no chart" in told._replace(coordinates=Coordinates()).summary()


@pytest.mark.parametrize(
    ("names", "short"),
    [(["a[0]", "a[1]", "b"], ["a[0..1]", "b"]), (["a[0]", "a[2]"], ["a[0]", "a[2]"]), ([], [])],
)
def test_neighbours_are_one_name(names, short):
    assert runs(names) == short
