"""A neck on the page: what is shown of a chart, and the page of a fitted sampler."""

import html

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import ergodic as eg
from ergodic.charts.coordinates import Coordinates, plain
from ergodic.charts.drivers import composed, learned
from ergodic.charts.fisher import Pairs
from ergodic.charts.telling import ToldChart
from ergodic.cli import app
from ergodic_studies.report.fitted import write_fitted_page
from ergodic_studies.report.necks import combination, driven, neck_figure, neck_of


def told_of(x, force, names):
    """A chart learned from pairs, with the draws that it is shown on."""
    like = plain(2, len(x), x.shape[1], np.dtype(np.float32))
    found = learned([Pairs(x, force(x))], np.random.default_rng(1), like)
    return ToldChart(composed(found, like)[0], names, x, force)


def funnel(n=1_000, others=4):
    """Draws of a funnel whose last coordinate is the log-variance of the others, N(0, 2²), and its force."""
    rng = np.random.default_rng(0)
    v = 2 * rng.normal(size=(n, 1))

    def force(x):
        v, rest = x[:, -1:], x[:, :-1]
        return np.concatenate(
            [-rest * np.exp(-v), -v / 4 + 0.5 * np.sum(rest**2 * np.exp(-v) - 1, 1, keepdims=True)], 1
        )

    return np.concatenate([np.exp(v / 2) * rng.normal(size=(n, others)), v], axis=1), force


def test_a_funnel_is_a_neck_in_x_and_a_ball_in_u():
    """The spread differs by e^2.5 or so between the ends of x, and by chance alone in u, where 1.5 is far beyond."""
    x, force = funnel()
    neck = neck_of(told_of(x, force, ("a", "b", "c", "d", "log_tau")))
    assert neck.names[0] == neck.inside[0] == "log_tau" and neck.inside[1].endswith(" in the chart")
    before, after = (driven(side[:, 0], side[:, 1:])[0] for side in (neck.x, neck.u))
    assert before > 2.5 and after < 1.5
    np.testing.assert_array_equal(neck.x[:, 0], neck.u[:, 0])


def test_a_shared_shift_is_taken_out():
    """Effects are a wide common shift plus τ z: no effect alone is much of a neck, but a difference of two is one."""
    rng = np.random.default_rng(3)
    n, groups, wide = 1_000, 4, 30.0
    t = 1.5 * rng.normal(size=(n, 1))
    mu = wide * rng.normal(size=(n, 1))
    x = np.concatenate([mu, mu + np.exp(t) * rng.normal(size=(n, groups)), t], axis=1)

    def force(x):
        mu, a, t = x[:, :1], x[:, 1:-1], x[:, -1:]
        z = (a - mu) * np.exp(-t)
        by_a = -z * np.exp(-t)
        return np.concatenate(
            [-mu / wide**2 - by_a.sum(1, keepdims=True), by_a, -t / 2.25 + (z**2 - 1).sum(1, keepdims=True)], 1
        )

    neck = neck_of(told_of(x, force, ("mu", *(f"a[{i}]" for i in range(groups)), "log_tau")))
    assert neck.names[0] == "log_tau" and (" − " in neck.names[1] or " + " in neck.names[1])
    before, after = (driven(side[:, 0], side[:, 1:])[0] for side in (neck.x, neck.u))
    assert before > 2.5 and after < 1.5


def test_nothing_is_shown_without_a_chart_or_draws():
    x, force = funnel()
    assert neck_of(ToldChart(Coordinates(), ("a",), x, force)) is None
    chart = told_of(x, force, ("a", "b", "c", "d", "v"))
    assert neck_of(chart._replace(positions=x[:0])) is None


def test_directions_have_short_names():
    names, spread = ("theta[0]", "theta[1]", "mu"), np.ones(3)
    assert combination(np.array([1.0, 0.0, -1.0]), spread, names) == "theta[0] − mu"
    assert combination(np.array([-0.5, 0.3, 1.0]), spread, names) == "mu − 0.5 theta[0] …"
    assert combination(np.array([1.0, 0.0, 0.05]), spread, names) == "theta[0]"


def test_a_bend_is_driven_by_its_mean():
    v = np.random.default_rng(4).normal(size=600)
    e = np.roll(v, 1)
    straight, bent, wide = driven(v, np.stack([e, v**2 + 0.1 * e, np.exp(v) * e], axis=1))
    assert straight < 1 < min(bent, wide)


@pytest.fixture(scope="module")
def fitted():
    sampler = eg.fit(eg.targets.get("funnel"), jax.random.key(0))
    sampler.source = {"builtin": "funnel"}
    return sampler


def test_the_page_of_a_sampler_shows_its_neck(fitted, tmp_path):
    text = write_fitted_page(fitted, "mine", "ergodic report mine.ergodic", tmp_path / "mine.html").read_text()
    assert "data:image/png;base64," in text and "http" not in text.replace("http-equiv", "")
    words = html.unescape(text.split('<pre class="words" tabindex="0">')[1].split("</pre>")[0])
    assert words == fitted.chart.summary() and words.startswith("x1 drives the scale of x2") and "before" in words
    assert fitted.certificate.findings[0].name in html.unescape(text)
    figure = neck_figure(neck_of(fitted.chart))
    assert [axis.get_xlabel() for axis in figure.axes] == ["x1", "x1"]
    assert figure.axes[1].get_ylabel() == figure.axes[0].get_ylabel() + " in the chart"


def test_the_command_takes_a_file_of_fit(fitted, tmp_path):
    fitted.save(tmp_path / "funnel.ergodic")
    done = CliRunner().invoke(app, ["report", str(tmp_path / "funnel.ergodic")])
    assert done.exit_code == 0, done.output
    assert "What was fitted" in (tmp_path / "funnel.html").read_text()


def test_without_a_chart_the_page_says_so(tmp_path):
    sampler = eg.fit(eg.targets.get("gaussian"), jax.random.key(0), method=eg.GEI(chart=False, certify=False))
    text = write_fitted_page(sampler, "plain", "ergodic report plain.ergodic", tmp_path / "plain.html").read_text()
    assert "data:image/png" not in text and "no chart: coordinates are the target" in html.unescape(text)
