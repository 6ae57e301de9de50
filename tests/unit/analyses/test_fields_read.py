"""What is measured is read: a field that nobody reads is time spent for nothing, and looks as if a rule went by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import slowstep
from parsed import parsed

ROOT = Path(slowstep.__path__[0])
# Written into the report as a whole.
WHOLE = ("Coverage",)


def _fields(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The fields of dataclasses, each with its class."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(each) for each in node.decorator_list):
            for each in node.body:
                if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
                    yield node.name, each.target.id


def _read(tree: ast.Module) -> Iterator[str]:
    """The attributes that are read, of whatever."""
    return (node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load))


def unread(measured: list[ast.Module], all_code: list[ast.Module]) -> list[str]:
    """The fields of what is measured that no code reads, by name alone: one that has the name of a field that is read is not found."""
    known = {name for tree in all_code for name in _read(tree)}
    return sorted(f"{owner}.{field}" for tree in measured for owner, field in _fields(tree) if field not in known and owner not in WHOLE)


def test_every_field_that_is_measured_is_read_by_somebody():
    trees = parsed(ROOT.rglob("*.py"))
    measured = [tree for path, tree in trees.items() if path.is_relative_to(ROOT / "analyses")]

    assert unread(measured, [*trees.values()]) == []


def test_a_field_that_is_only_filled_is_seen():
    source = ast.parse(
        "@dataclass(frozen=True)\nclass Disk:\n    busy: float\n    name: str\ndisk = Disk(busy=1.0, name='sda')\ndisk.name\ndisk.busy = 2"
    )

    assert unread([source], [source]) == ["Disk.busy"]
