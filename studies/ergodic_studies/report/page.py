"""A run's directory as one HTML file that needs nothing else: no network, no script or font from anywhere.

    results.json   what ran and what came out (see `harness/results.py`); ``tables``, ``figures`` and ``claims`` if any
    views.json     optional: particles of 2-D targets at every t, for the interactive view
    *.png          figures, embedded

Text from the run is data: Jinja escapes it, JSON is embedded with ``<`` as ``\\u003c``, and a content security policy
lets the browser run this page's own script (by its hash) and no other.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import mimetypes
import re
import struct
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from ergodic.runtime.errors import StorageError
from ergodic.runtime.files import write_atomically


class Shown(NamedTuple):
    """What a table shows, and the number in full where that was shortened."""

    text: str
    full: str = ""


class TableView(NamedTuple):
    """A table ready to print; ``numeric`` says which columns are set flush right."""

    title: str
    note: str
    columns: list[str]
    numeric: list[bool]
    rows: list[tuple[Shown, ...]]


class FigureView(NamedTuple):
    """A figure with its picture as a data URI; empty when the file is not there."""

    file: str
    title: str
    caption: str
    source: str
    wide: bool
    """More than twice as wide as high: too small to read on a phone unless it scrolls."""
    words: str = ""
    """Lines that stand beside the picture, as they are."""


def write_page(run: Path, out: Path | None = None) -> Path:
    """Write the page of a run, by default as ``report.html`` in its own directory; returns where it is."""
    from jinja2 import Environment, StrictUndefined

    document = _read_results(run)
    views = _read_views(run / "views.json")
    results = document.get("results")
    tables = _tables(document, run / "results.json")
    untabled = results and (not tables or "tables" in document)
    versions = _facts(document.get("versions"))
    style, script = _own("page.css"), _own("page.js")

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"ensure_ascii": False, "allow_nan": False, "separators": (",", ":")}
    page = environment.from_string(_own("page.html.j2")).render(
        experiment=str(document.get("experiment") or run.resolve().name),
        command=str(document.get("command") or ""),
        config=_facts(document.get("config")),
        versions=versions,
        claims=_claims(results),
        tables=tables,
        figures=_figures(document, run),
        results=json.dumps(results, indent=2, ensure_ascii=False) if untabled else "",
        made_with=", ".join(f"{name} {value}" for name, value in versions if name in ("ergodic", "commit")),
        views=views,
        style=style,
        script=script,
        policy=f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}",
    )
    path = out if out is not None else run / "report.html"
    try:
        write_atomically(path, page.encode(errors="replace"))  # half a surrogate pair is text too, in JSON
    except OSError as error:
        raise StorageError(f"{path} cannot be written ({error.strerror})") from error
    return path


def _own(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# What is in the directory -------------------------------------------------------------------------------------------


def _read_results(run: Path) -> dict[str, Any]:
    if not run.is_dir():
        raise StorageError(f"{run}: there is no such run directory")
    path = run / "results.json"
    if not path.exists():
        raise StorageError(f"{run} has no results.json; is it the directory that a run wrote?")
    document = _read_json(path)
    if not isinstance(document, dict):
        raise StorageError(f"{path} is not the results of a run: it holds a {type(document).__name__}, not an object")
    return document


def _read_json(path: Path, **options: Any) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"), **options)
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise StorageError(f"{path} is not JSON, or is damaged or truncated ({error})") from error


def _read_views(path: Path) -> dict[str, Any] | None:
    """The interactive view's data, checked, in six digits, what is not finite as null; None when there is none."""
    if not path.exists():
        return None

    def rounded(text: str) -> float | None:
        value = float(f"{float(text):.6g}")
        return value if math.isfinite(value) else None

    views = _read_json(path, parse_float=rounded, parse_constant=lambda _: None)
    try:
        for name, target in views["targets"].items():
            (x0, x1), (y0, y1) = target["box"]
            nx, ny = target["shape"]
            _require(x0 < x1 and y0 < y1, f"the box of target {name!r} is empty")
            _require(nx > 1 and ny > 1, f"target {name!r} has a grid of {nx} by {ny}")
            _require(len(target["logdensity"]) == nx * ny, f"target {name!r} has not {nx} x {ny} log-densities")
        for path_ in views["paths"]:
            what = f"the path of {path_['method']!r} on {path_['target']!r}"
            _require(path_["target"] in views["targets"], f"{what} is on a target that is not there")
            frames = len(path_["steps"])
            _require(frames > 0, f"{what} has no frames")
            for column in ("x", "y", "expected_logdensity", "acceptance", "distance"):
                _require(len(path_[column]) == frames, f"{what} has not one {column} a frame")
            for x, y in zip(path_["x"], path_["y"], strict=True):
                _require(len(x) == len(y), f"{what} has frames with more x than y, or fewer")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise StorageError(f"{path} is not what the interactive view needs: {reason}") from error
    return views if views["paths"] else None


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)


# Figures ------------------------------------------------------------------------------------------------------------


def _figures(document: dict[str, Any], run: Path) -> list[FigureView]:
    """The figures that results.json lists, or else every PNG in the directory."""
    listed = document.get("figures")
    if listed is None:
        listed = [{"file": path.name} for path in sorted(run.glob("*.png"))]
    try:
        return [
            _figure(run, str(f["file"]), str(f.get("title") or f["file"]), str(f.get("caption") or ""))._replace(
                words=str(f.get("words") or "")
            )
            for f in listed
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise StorageError(f"{run / 'results.json'}: its figures are not a list of objects with a 'file'") from error


def _figure(run: Path, file: str, title: str, caption: str) -> FigureView:
    path, kind = (run / file).resolve(), mimetypes.guess_type(file)[0] or ""
    if not path.is_file() or not path.is_relative_to(run.resolve()) or not kind.startswith("image/"):
        return FigureView(file, title, caption, "", False)
    data = path.read_bytes()
    width, height = struct.unpack(">II", data[16:24]) if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 24 else (1, 1)
    return FigureView(file, title, caption, f"data:{kind};base64,{base64.b64encode(data).decode()}", width > 2 * height)


# Claims, tables, facts ----------------------------------------------------------------------------------------------


def _claims(results: object) -> list[dict[str, object]]:
    claims = results.get("claims") if isinstance(results, dict) else None
    if not isinstance(claims, list) or not all(isinstance(c, dict) and "claim" in c for c in claims):
        return []
    return [{"claim": c["claim"], "holds": bool(c.get("holds")), "evidence": c.get("evidence") or ""} for c in claims]


def _tables(document: dict[str, Any], path: Path) -> list[TableView]:
    """The tables that results.json lists, or else its results when they are one: a list of flat objects."""
    if "tables" in document:
        try:
            return [
                _table(str(t.get("title") or ""), str(t.get("note") or ""), list(map(str, t["columns"])), t["rows"])
                for t in document["tables"]
            ]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise StorageError(f"{path}: its tables are not a list of objects with columns and even rows") from error
    results = document.get("results")
    if not isinstance(results, list) or not results or not all(_flat(row) for row in results):
        return []
    keys = list(dict.fromkeys(key for row in results for key in row))
    rows = [[row.get(key) for key in keys] for row in results]
    return [_table("Results", "", [key.replace("_", " ") for key in keys], rows)]


def _flat(row: object) -> bool:
    return isinstance(row, dict) and not any(isinstance(value, (dict, list)) for value in row.values())


def _table(title: str, note: str, headings: list[str], rows: Sequence[Sequence[object]]) -> TableView:
    columns = [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in headings]
    if len(columns) != len(headings):
        raise ValueError(f"{len(columns)} cells for {len(headings)} columns")
    printed = [_column(column) for column in columns]
    return TableView(title, note, headings, [_numeric(c) for c in columns], list(zip(*printed, strict=True)))


_NUMBERLIKE = re.compile(r"[<>≈~]?\s*[+−-]?\d[\d.,]*(e[+−-]?\d+)?\s*(±.*|%|\(.*\))?")


def _numeric(column: Sequence[object]) -> bool:
    """Whether a column holds numbers, or strings that print one ("1.20 ± 0.03"), and nothing else."""
    cells = [cell for cell in column if cell not in (None, "", "-", "–", "—")]
    return bool(cells) and all(_number(c) or (isinstance(c, str) and _NUMBERLIKE.fullmatch(c)) for c in cells)


def _number(cell: object) -> TypeGuard[int | float]:
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)


def _column(cells: Sequence[object]) -> list[Shown]:
    """A column's cells; where it has fractions, all get the same decimals: three or four digits of the middle one."""
    sizes = sorted(abs(c) for c in cells if isinstance(c, float) and c and math.isfinite(c))
    if not sizes:
        return [_cell(cell, 0) for cell in cells]
    middle = math.floor(math.log10(sizes[len(sizes) // 2]))
    decimals = max((3 if middle >= 0 else 2) - middle, 0) if -4 <= middle < 7 else None
    return [_cell(float(cell) if _number(cell) else cell, decimals) for cell in cells]


def _cell(value: object, decimals: int | None) -> Shown:
    if value is None:
        return Shown("–")
    if isinstance(value, bool):
        return Shown("yes" if value else "no")
    if not _number(value):
        return Shown(str(value))
    if not math.isfinite(value):
        return Shown({"nan": "NaN", "inf": "∞", "-inf": "−∞"}[str(value)])
    if isinstance(value, int):
        text = f"{value:,}" if abs(value) >= 10_000 else str(value)
    else:
        text = f"{value:.3g}" if decimals is None else f"{value:,.{decimals}f}"
    if text.startswith("-"):
        text = "−" + text[1:] if re.search("[1-9]", text) else text[1:]
    return Shown(text, repr(value) if isinstance(value, float) else "")


def _facts(value: object, prefix: str = "") -> list[tuple[str, str]]:
    """A nested object as lines of name and value: ``method.steps``, ``10``."""
    if not isinstance(value, dict):
        return [(prefix, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))] if prefix else []
    return [fact for key, inner in value.items() for fact in _facts(inner, f"{prefix}.{key}" if prefix else str(key))]
