"""Facts about the house, from its source alone: `make house` prints them, `tests/test_house.py` asserts them.

Rooms stand on one another in the order of `ROOMS`. An import may only point down, also one inside of a function; what
is under ``if TYPE_CHECKING`` is not imported and does not count.
"""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
ROOMS = (
    ("_version",),
    ("runtime",),
    ("protocols", "statistics"),
    ("charts",),
    ("initial",),
    ("kernels",),
    ("chain", "model"),
    ("truth",),
    ("target",),
    ("family",),
    ("draws", "certificate"),
    ("simulation",),
    ("sampler",),
    ("family_sampler",),
    ("tuning",),
    ("diagnostics",),
    ("methods",),
    ("targets",),
    ("datasets",),
    ("adapters",),
    ("bnn",),
    ("generative",),
    ("api",),
    ("shipping",),
    ("many",),
    ("calibration",),
    ("cli",),
)
"""From bottom to top; rooms of one floor do not import each other."""
STUDIES = (
    ("harness",),
    ("measures", "posteriors", "models"),
    ("report",),
    ("paper",),
    ("bench",),
    ("demo",),
    ("commands",),
)
LINES = 26_600
"""17,993, three quarters of what the wheel had before the studies left it, and what was added since."""
LONGEST = 400
DEPENDENCIES = 8
_PROBE = re.compile(r"\b(hasattr|getattr)\((self\.)?(sampler\.)?(method|target|kernel|objective|initial|chart)\b")


class House(NamedTuple):
    """What `look` sees in one package."""

    files: dict[str, Path]
    imports: dict[str, set[str]]
    upward: list[str]
    cycles: list[list[str]]


def look(source: Path, package: str, floors: tuple[tuple[str, ...], ...]) -> House:
    """Every module of a package, what it imports, and which imports point up or in a circle."""
    files = {_name(path, source, package): path for path in sorted(source.rglob("*.py"))}
    found = {name: {other for other in _imports(name, path, files) if other != name} for name, path in files.items()}
    found = {name: others - {package} for name, others in found.items() if name != package}
    rank = {f"{package}.{room}": floor for floor, rooms in enumerate(floors) for room in rooms}
    upward = []
    for name, others in found.items():
        for other in others:
            mine, its = (".".join(each.split(".")[:2]) for each in (name, other))
            if mine != its and rank.get(its, -1) >= rank.get(mine, len(floors)):
                upward.append(f"{name} -> {other}")
            if mine not in rank:
                upward.append(f"{name}: {mine} has no place in tools/house.py")
    return House(files, found, sorted(set(upward)), _cycles(found))


def _name(path: Path, source: Path, package: str) -> str:
    return ".".join((package, *path.relative_to(source).with_suffix("").parts)).removesuffix(".__init__")


def _imports(name: str, path: Path, files: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that a file imports, wherever in it."""
    tree = ast.parse(path.read_text())
    parts = name.split(".")
    package = parts if path.name == "__init__.py" else parts[:-1]
    types = [n for n in ast.walk(tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test)]
    hidden = {id(inner) for node in types for inner in ast.walk(node)}
    for node in ast.walk(tree):
        if id(node) in hidden:
            continue
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *(node.module or "").split(".")]).strip(".")
            full = (f"{stem}.{alias.name}" for alias in node.names)
            yield from (each for each in (one if one in files else stem for one in full) if each in files)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)


def _cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import one another in a circle: those that can reach each other."""
    reached: dict[str, set[str]] = {}
    for first in graph:
        seen, open_ = set[str](), [first]
        while open_:
            for other in graph.get(open_.pop(), set()) - seen:
                seen.add(other)
                open_.append(other)
        reached[first] = seen
    knots = {tuple(sorted({a} | {b for b in reached[a] if a in reached.get(b, ())})) for a in graph if a in reached[a]}
    return [list(knot) for knot in sorted(knots)]


def probes(house: House) -> list[str]:
    """Places that look for an attribute of a method, target, kernel, ... instead of asking for its type."""
    return [
        f"{name}:{number}"
        for name, path in house.files.items()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if _PROBE.search(line)
    ]


def short_docstrings(house: House) -> list[str]:
    """Docstrings of three words or fewer, which say nothing that the name does not."""
    nodes = ((name, node) for name, path in house.files.items() for node in ast.walk(ast.parse(path.read_text())))
    named = ((name, node) for name, node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef))
    return [f"{name}: {node.name}" for name, node in named if 0 < len((ast.get_docstring(node) or "").split()) <= 3]


def lines(path: Path) -> int:
    """How many lines a file has."""
    return len(path.read_text().splitlines())


def facts() -> dict[str, int | list[str]]:
    """The figures that have a bar, and those that are good to know."""
    library = look(ROOT / "src" / "ergodic", "ergodic", ROOMS)
    studies = look(ROOT / "studies" / "ergodic_studies", "ergodic_studies", STUDIES)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    everything = [*library.files.values(), *studies.files.values()]
    text = [path.read_text() for path in library.files.values()]
    return {
        "upward imports": library.upward + studies.upward,
        "cycles": [" ".join(knot) for knot in library.cycles + studies.cycles],
        "probes": probes(library) + probes(studies),
        "files over 400 lines": [path.name for path in everything if lines(path) > LONGEST],
        "docstrings of three words or fewer": short_docstrings(library) + short_docstrings(studies),
        "core dependencies": len(project["dependencies"]),
        "lines of the wheel": sum(lines(path) for path in library.files.values()),
        "files of the wheel": len(library.files),
        "uses of Any in the wheel": sum(len(re.findall(r"\bAny\b", each)) for each in text),
    }


def main() -> int:
    """Print the facts; lists are counted, and shown in part."""
    for name, value in facts().items():
        shown = value if isinstance(value, int) else len(value)
        some = "" if isinstance(value, int) else "".join(f"\n    {each}" for each in value[:10])
        sys.stdout.write(f"{shown:>7,}  {name}{some}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
