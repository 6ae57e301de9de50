"""What stands in for a function of somebody else's takes whatever that one takes, by whatever name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import slowstep

ROOT = Path(slowstep.__path__[0])


def _claimed(source: str) -> Iterator[tuple[str, int, list[str]]]:
    """Functions that hand on `*args, **kwargs`, with the names that they keep for themselves: nobody can pass these on by name."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and node.args.vararg and node.args.kwarg:
            names = [each.arg for each in (*node.args.args, *node.args.kwonlyargs)]
            if names:
                yield getattr(node, "name", "lambda"), node.lineno, names


def test_what_runs_inside_the_training_keeps_no_name_of_an_argument_for_itself():
    files = sorted(path for room in ("frameworks", "levers", "record") for path in (ROOT / room).rglob("*.py"))
    sources = {path: text for path in files if "**" in (text := path.read_text(encoding="utf-8"))}
    found = [(str(path.relative_to(ROOT)), *each) for path, text in sources.items() for each in _claimed(text)]

    assert found == []


def test_a_name_that_is_kept_is_seen():
    assert [*_claimed("def f(self, /, *args, **kwargs): ...")] == []
    assert [*_claimed("def f(self, batch, *args, **kwargs): ...\ng = lambda x, *a, y, **k: 0")] == [
        ("f", 1, ["self", "batch"]),
        ("lambda", 2, ["x", "y"]),
    ]
