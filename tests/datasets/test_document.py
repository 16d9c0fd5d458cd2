"""docs/data.md runs as it is written, without anything fetched, and the shapes it gives are right."""

import re
from pathlib import Path

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "data.md"


def test_the_document_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("ERGODIC_DATA", str(tmp_path))
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.S)
    names = {}
    exec(compile(block, DOCUMENT.name, "exec"), names)
    for expression, shape in re.findall(r"^(digits\.\w+)  # (\([\d, ]+\))", block, re.M):
        assert str(eval(expression, names).shape) == shape
    assert len(names["train_y"]) + len(names["test_y"]) == 442
