"""What a notebook shows of the nouns: well-formed HTML with the numbers in it, and figures."""

from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ergodic as eg
from ergodic.runtime import html


class Checked(HTMLParser):
    """Every element that is opened is closed, in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.words, self.tags = [], "", []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def sampler():
    """A funnel under a name that HTML would take for a tag, whose chart has a driver."""
    target = eg.Target(
        lambda p: -0.5 * (p["v"] / 3) ** 2 - 0.5 * jnp.sum((p["x"] * jnp.exp(-p["v"] / 2)) ** 2) - 2 * p["v"],
        like={"v": 0.0, "x": jnp.zeros(4)},
        name="<funnel>",
    )
    return eg.fit(target, jax.random.key(0), eg.GEI(particles=128), progress=False)


def test_every_noun_is_shown(sampler):
    target = Checked(sampler.target._repr_html_())
    assert "Target '<funnel>', dim 5" in target.words and "(4,)" in target.words
    shown = Checked(sampler._repr_html_())
    assert sampler.certificate.verdict in shown.words and "v drive others" in shown.words
    assert "svg" in shown.tags and f"{sampler.cost.gradients:,}" in shown.words
    certificate = Checked(sampler.certificate._repr_html_())
    for finding in sampler.certificate.findings:
        assert (finding.words in certificate.words) == (finding.verdict != "noted")
    draws = sampler.sample(jax.random.key(1), 500)
    assert "500 independent draws" in Checked(draws._repr_html_()).words
    table = Checked(draws.summary(rows=2)._repr_html_())
    assert "3 more coordinates" in table.words and f"{draws['v'].mean():.4g}" in table.words


def test_a_sampler_without_draws_or_certificate_is_shown_too(gaussian_sampler):
    shown = Checked(gaussian_sampler._repr_html_())
    assert "not certified" in shown.words and "svg" not in shown.tags


def test_sparklines_show_where_a_line_goes():
    line = html.sparkline([-1e9, 0.0, 1.0, np.nan, 2.0], "rising")
    Checked(line)
    heights = [float(point.split(",")[1]) for point in line.partition("points='")[2].partition("'")[0].split()]
    assert len(heights) == 4 and heights[-1] == min(heights) and line.endswith(" 2")
    assert html.sparkline([1.0], "one") == "" and html.sparkline([], "none") == ""
    Checked(html.sparkline([1.0, 1.0], "flat"))


def test_draws_and_samplers_are_plotted(sampler, gaussian_sampler):
    figure = sampler.plot()
    titles = [axis.get_title() for axis in figure.axes if axis.get_title()]
    assert any(title.startswith("v drives x[") for title in titles)
    mean = sampler.draws["v"].astype(np.float64).mean()
    assert any(title.startswith(f"v: {mean:.3g} ±") for title in titles)
    figure.canvas.draw()
    some = sampler.draws.plot(["v"])
    shown = [axis for axis in some.axes if axis.get_title()]
    assert len(shown) == 3 and len(shown[0].lines[0].get_ydata()) == len(sampler.draws.trace["expected_logdensity"])
    with pytest.raises(eg.ConfigError, match=r"sampler.certify\(key\) first"):
        gaussian_sampler.plot()
