"""A few pieces of HTML for notebooks: panels, tables, verdicts in colour and lines as small as a word.

Colours are legible on light and on dark pages; lines and frames take the text's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

_COLOURS = {"passed": "#2e9e5b", "failed": "#d1483f", "inconclusive": "#c58a1c"}
_WIDTH, _HEIGHT = 160, 28


def panel(title: str, *parts: str) -> str:
    """A title with parts below it, each a piece of HTML."""
    body = "".join(f"<div style='margin:.3em 0'>{part}</div>" for part in parts if part)
    return f"<div style='font-size:.92em'><b>{escape(title)}</b>{body}</div>"


def text(words: str) -> str:
    """Plain words, whose lines are kept."""
    return escape(words).replace("\n", "<br>")


def facts(known: Mapping[str, object]) -> str:
    """Names and what they are, a row each; a value may be a piece of HTML already (`Html`)."""
    rows = "".join(
        f"<tr><td style='text-align:left;opacity:.7'>{escape(name)}</td>"
        f"<td style='text-align:left'>{value if isinstance(value, Html) else escape(str(value))}</td></tr>"
        for name, value in known.items()
    )
    return f"<table style='border:none;margin:0'>{rows}</table>"


def table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table with a header; the first column is left-aligned, and so are words that are `Html`."""

    left = {0} | {i for row in rows for i, value in enumerate(row) if isinstance(value, Html)}

    def cell(tag: str, at: int, value: object) -> str:
        inside = value if isinstance(value, Html) else escape(str(value))
        side = "left" if at in left else "right"
        return f"<{tag} style='text-align:{side};min-width:0;padding:.15em .6em'>{inside}</{tag}>"

    head = "".join(cell("th", at, name) for at, name in enumerate(header))
    body = "".join("<tr>" + "".join(cell("td", *each) for each in enumerate(row)) + "</tr>" for row in rows)
    return f"<table style='margin:0'><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


class Html(str):
    """A string that is HTML already, and is not escaped."""


def badge(verdict: str) -> Html:
    """A verdict in its colour."""
    colour = _COLOURS.get(verdict, "#888888")
    style = f"background:{colour};color:#fff;border-radius:.6em;padding:.05em .6em;font-weight:600"
    return Html(f"<span style='{style}'>{escape(verdict)}</span>")


def sparkline(values: Sequence[float] | np.ndarray, label: str) -> str:
    """A line as small as a word, with its label and its last value; nothing for fewer than two finite values."""
    y = np.asarray(values, np.float64).ravel()
    y = y[np.isfinite(y)]
    if len(y) < 2:
        return ""
    low, high = np.quantile(y, 0.05), y.max()  # where a chain begins may be far below all else
    low = low if high > low else high - 1
    x = np.linspace(2, _WIDTH - 2, len(y))
    heights = _HEIGHT - 3 - (np.clip(y, low, high) - low) / (high - low) * (_HEIGHT - 6)
    points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, heights, strict=True))
    return (
        f"{escape(label)} <svg width='{_WIDTH}' height='{_HEIGHT}' style='vertical-align:middle' role='img' "
        f"aria-label='{escape(label)}'><polyline points='{points}' fill='none' stroke='currentColor' "
        f"stroke-width='1.5'/></svg> {y[-1]:.4g}"
    )
