"""The page of a run: what it says, what it refuses, and how it behaves in a real browser."""

import base64
import json
import math
import re
import shutil
import struct
import zlib

import pytest

from ergodic.runtime.errors import StorageError
from ergodic_studies.report.page import write_page

HOSTILE = "<script>alert(1)</script>"
BREAKOUT = "</script><script>alert(2)</script><!--"
FRAMES = 5


def png(width, height):
    """A white picture."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = zlib.compress(b"".join(b"\0" + b"\xff" * width for _ in range(height)))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def target(title, centre, nx=21, ny=17):
    """A round Gaussian on an oblong grid, with one log-density that is not finite."""
    xs, ys = ([low + (high - low) * k / (n - 1) for k in range(n)] for low, high, n in ((-3, 3, nx), (-2, 2, ny)))
    grid = [-0.5 * ((x - centre) ** 2 + y**2) for x in xs for y in ys]
    grid[0] = -math.inf
    box, shape = [[-3, 3], [-2, 2]], [nx, ny]
    return {"title": title, "box": box, "shape": shape, "logdensity": grid, "expected_logdensity": -1.0}


def path(name, method, speed, frames=FRAMES):
    """Forty particles that move in from a circle as t grows."""
    radius = [2.5 * math.exp(-speed * t) for t in range(frames)]
    angles = [0.157 * k for k in range(40)]
    return {
        "target": name,
        "method": method,
        "steps": list(range(frames)),
        "x": [[r * math.cos(a) for a in angles] for r in radius],
        "y": [[r * math.sin(a) for a in angles] for r in radius],
        "expected_logdensity": [-0.5 * r * r - speed for r in radius],
        "acceptance": [None] + [0.9 - 0.1 * t - speed / 10 for t in range(1, frames)],
        "distance": [r + speed / 10 for r in radius],
        "noise_floor": 0.05,
    }


@pytest.fixture
def document():
    return {
        "experiment": f"mine {HOSTILE}",
        "command": f"ergodic demo --name '{BREAKOUT}'",
        "config": {"steps": 10, "nested": {"label": HOSTILE, "pair": [1, 2]}},
        "versions": {"ergodic": "0.1.0", "commit": HOSTILE},
        "results": [
            {"target": HOSTILE, "estimate": 3.4398929, "draws": 1_325_580, "rate": -0.25, "ok": True},
            {"target": "ring \ud800", "estimate": None, "draws": 7, "rate": math.inf, "ok": False},
        ],
    }


@pytest.fixture
def run(tmp_path, document):
    """A run directory, as an experiment would leave it, with text that wants to be markup everywhere."""
    first, second = f"a {BREAKOUT}", "b"
    views = {
        "targets": {first: target(f"first {BREAKOUT}", 1.0), second: target("second", -1.0, 15, 15)},
        "paths": [
            path(first, f"fast {HOSTILE}", 0.8),
            path(first, "slow", 0.2, frames=8),
            path(second, f"fast {HOSTILE}", 0.8),
            path(second, "slow", 0.2),
        ],
    }
    write(tmp_path, document, views)
    (tmp_path / "one.png").write_bytes(png(30, 10))
    return tmp_path


def write(directory, document, views=None):
    (directory / "results.json").write_text(json.dumps(document))
    if views is not None:
        (directory / "views.json").write_text(json.dumps(views))


def html_of(run):
    return write_page(run).read_text()


# What it says ------------------------------------------------------------------------------------------------------


def test_the_page_is_one_file_and_fetches_nothing(run):
    html = html_of(run)
    assert (run / "report.html").is_file() and write_page(run, run / "sub" / "p.html") == run / "sub" / "p.html"
    assert "http://" not in html and "https://" not in html and "@import" not in html
    for reference in re.findall(r"""\b(?:src|href)\s*=\s*["']([^"']*)""", html):
        assert reference.startswith("data:")
    assert base64.b64encode((run / "one.png").read_bytes()).decode() in html


def test_text_of_the_run_stays_text(run):
    html = html_of(run)
    assert "<script>alert" not in html and "&lt;script&gt;alert(1)" in html
    assert html.count("</script>") == 2 and html.count("<!--") == 0
    assert "'unsafe-inline'" not in html
    embedded = re.search(r'<script type="application/json" id="views">(.*?)</script>', html, re.S).group(1)
    views = json.loads(embedded, parse_constant=pytest.fail)
    assert "<" not in embedded and BREAKOUT in next(iter(views["targets"]))
    assert views["targets"]["b"]["logdensity"][0] is None
    assert list(views["targets"])[1] == "b"


def test_flat_results_become_a_table(run):
    html = html_of(run)
    row = re.search(r"<tbody>(.*?)</tbody>", html, re.S).group(1)
    assert '<td class="number" title="3.4398929">3.440</td>' in row
    assert ">1,325,580<" in row and ">−0.250<" in row and ">∞<" in row and ">–<" in row and "<td>yes</td>" in row
    assert html.count("<details>") == 2 and "nested.pair" in html


def test_listed_tables_figures_and_claims_are_shown(tmp_path, document):
    document["tables"] = [
        {"title": "T1", "note": "a note", "columns": ["name", "W1"], "rows": [["x", "1.2 ± 0.1"], ["y", None]]},
        {"title": "empty", "columns": ["name"], "rows": []},
    ]
    document["figures"] = [
        {"file": "p.png", "title": "A figure", "caption": "and its caption"},
        {"file": "absent.png"},
        {"file": "../outside.png"},
    ]
    document["results"] = {
        "claims": [{"claim": "c1", "holds": True, "evidence": "e1"}, {"claim": "c2", "holds": False}]
    }
    run = tmp_path / "run"
    run.mkdir()
    write(run, document)
    for file in (run / "p.png", run / "unlisted.png", tmp_path / "outside.png"):
        file.write_bytes(png(8, 8))
    html = html_of(run)
    assert "a note" in html and '<td class="number">1.2 ± 0.1</td>' in html
    assert "A figure" in html and "and its caption" in html and "unlisted" not in html
    assert html.count('src="data:image/png') == 1 and html.count("is not a picture in this run") == 2
    assert "1 of 2 hold" in html and "Does not hold" in html and "e1" in html
    assert "All results" in html and 'id="stage"' not in html


@pytest.mark.parametrize("results", [None, [], {"a": {"b": [1]}}, [{"a": [1]}], "words", 3.5, {"claims": "none"}])
def test_any_results_make_a_page(tmp_path, results):
    write(tmp_path, {"results": results})
    html = html_of(tmp_path)
    assert "<table>" not in html and tmp_path.name in html
    assert ("All results" in html) == bool(results)


# What it refuses ---------------------------------------------------------------------------------------------------


def refusal(run, out=None):
    with pytest.raises(StorageError) as caught:
        write_page(run, out)
    assert "\n" not in str(caught.value) and not (run / "report.html").exists()
    return str(caught.value)


def test_a_run_that_is_not_there_or_not_readable_is_named(tmp_path):
    assert "no such run directory" in refusal(tmp_path / "absent")
    assert "has no results.json" in refusal(tmp_path)
    results = tmp_path / "results.json"
    for content, message in ((b"{", "damaged or truncated"), (b"\xff\xfe", "damaged"), (b"[1]", "holds a list")):
        results.write_bytes(content)
        assert message in refusal(tmp_path) and str(results) in refusal(tmp_path)
    results.unlink()
    results.mkdir()
    assert "cannot be read" in refusal(tmp_path)


def test_a_page_that_cannot_be_written_is_named(run):
    assert "cannot be written" in refusal(run, run / "one.png" / "page.html")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tables", [{"columns": ["a", "b"], "rows": [[1]]}], "tables are not"),
        ("tables", [{"columns": ["a", "b"], "rows": [[1, 2], [1]]}], "tables are not"),
        ("tables", 3, "tables are not"),
        ("figures", [{"title": "no file"}], "figures are not"),
    ],
)
def test_results_of_another_shape_are_refused(tmp_path, document, key, value, message):
    write(tmp_path, document | {key: value})
    assert message in refusal(tmp_path)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda views: views.pop("targets"), "has no 'targets'"),
        (lambda views: views["targets"]["b"]["logdensity"].pop(), "has not 15 x 15"),
        (lambda views: views["targets"]["b"].update(box=[[1, 1], [0, 1]]), "is empty"),
        (lambda views: views["paths"][0].update(target="c"), "not there"),
        (lambda views: views["paths"][0]["acceptance"].pop(), "acceptance"),
        (lambda views: views["paths"][0]["x"][2].pop(), "more x than y"),
        (lambda views: views["paths"][0].update(x=3), "not what the interactive view needs"),
    ],
)
def test_views_of_another_shape_are_refused(run, document, spoil, message):
    views = json.loads((run / "views.json").read_text())
    spoil(views)
    write(run, document, views)
    assert message in refusal(run) and "views.json" in refusal(run)


# In a browser ------------------------------------------------------------------------------------------------------

needs_chromium = pytest.mark.skipif(
    shutil.which("chromium") is None, reason="no Chromium on this machine: the page cannot be tried in a browser"
)
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--no-first-run",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def visit(run, browser):
    """Open the page with a given screen; afterwards nothing may have been complained of, fetched or run."""
    contexts, complaints = [], []

    def visit(width=1280, height=900, scheme="light", motion="reduce"):
        context = browser.new_context(
            bypass_csp=True,  # Playwright evaluates text to wait for things; the page itself forbids that
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            reduced_motion=motion,
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: message.type == "error" and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(write_page(run).as_uri())
        return page

    yield visit
    for context in contexts:
        context.close()
    assert complaints == []


def picture(page):
    return page.evaluate("document.getElementById('stage').toDataURL()")


def readouts(page):
    return [page.inner_text(f"#{name}") for name in ("now", "energy", "distance", "acceptance")]


@needs_chromium
def test_arrow_keys_on_the_slider_move_the_ensemble(visit):
    page = visit()
    assert readouts(page) == ["0", "−3.925", "2.580", "–"]
    assert page.inner_text("#energy-aside") == "exact −1.000, error −2.925"
    before = picture(page)
    page.focus("#t")
    page.keyboard.press("ArrowRight")
    assert readouts(page) == ["1", "−1.431", "1.203", "0.720"]
    assert "noise floor 0.050" in page.inner_text("#distance-aside")
    assert page.get_attribute("#t", "aria-valuetext") == "t = 1 of 4"
    assert "t = 1" in page.get_attribute("#stage", "aria-label")
    assert picture(page) != before
    page.keyboard.press("ArrowLeft")
    assert picture(page) == before
    page.keyboard.press("End")
    assert page.inner_text("#now") == str(FRAMES - 1)
    assert page.locator("#energy-chart circle").count() == page.locator("#energy-chart .truth").count() == 1


@needs_chromium
def test_contours_and_particles_are_where_the_data_are(visit):
    """The first target lies right of the middle, so its shades do; the particles start on a circle around (0, 0)."""
    page = visit()
    left, right = page.evaluate(
        """() => { const c = document.getElementById('stage'), pen = c.getContext('2d');
        const inner = (u) => [...pen.getImageData(c.width * u, c.height * 0.49, 1, 1).data].slice(0, 3);
        return [inner(0.2), inner(0.66)]; }"""
    )
    assert left == [255, 255, 255] and right != left


@needs_chromium
def test_menus_change_target_and_method(visit):
    page = visit()
    first = picture(page)
    page.select_option("#target", "b")
    second = picture(page)
    assert second != first and page.locator("#method option").count() == 2
    assert "fast" in page.locator("#method option:checked").inner_text()
    page.focus("#t")
    page.keyboard.press("ArrowRight")
    fast = picture(page), readouts(page)
    page.select_option("#method", label="slow")
    assert picture(page) != fast[0] and readouts(page)[0] == "1" and readouts(page)[1:] != fast[1][1:]
    page.select_option("#target", index=0)
    assert page.locator("#method option:checked").inner_text() == "slow" and page.inner_text("#last") == "7"
    assert BREAKOUT in page.locator("#target option").first.inner_text()


@needs_chromium
@pytest.mark.parametrize("motion", ["reduce", "no-preference"])
def test_play_runs_to_the_end_and_can_be_paused(visit, motion):
    page = visit(motion=motion)
    button = page.get_by_role("button", name="Play")
    button.press("Enter")
    page.wait_for_function("document.getElementById('now').textContent === '1'")
    page.get_by_role("button", name="Pause").press("Enter")
    assert page.inner_text("#now") == "1"
    button.click()
    page.wait_for_function(f"document.getElementById('now').textContent === '{FRAMES - 1}'")
    button.wait_for()
    assert page.get_attribute(".readout", "aria-live") == "polite"


@needs_chromium
def test_every_control_is_labelled_and_shows_its_focus(visit):
    page = visit()
    for label in ("Target", "Method"):
        assert page.get_by_label(label, exact=True).count() == 1
    assert (
        page.get_by_role("slider", name="Transitions done, t").count()
        == page.get_by_role("button", name="Play").count()
        == 1
    )
    reached = []
    for _ in range(4):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.id"))
    assert reached == ["target", "method", "play", "t"]
    page.focus("#play")
    page.keyboard.press("Shift+Tab")
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


@needs_chromium
def test_a_phone_scrolls_down_only(visit):
    page = visit(375, 812)
    page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    box = page.locator("#stage").bounding_box()
    assert box["x"] >= 0 and box["x"] + box["width"] <= 375 and box["height"] > 250


@needs_chromium
def test_dark_follows_the_system_even_while_open(visit):
    page = visit(scheme="light")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background), picture(page)
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.wait_for_function(f"{background} !== '{light[0]}'")
    page.wait_for_function(
        "before => document.getElementById('stage').toDataURL() !== before", arg=light[1], timeout=5000
    )
