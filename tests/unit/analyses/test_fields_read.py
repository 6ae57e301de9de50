"""What is measured is read: a field that nobody reads is time spent for nothing, and looks as if a rule went by it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
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


def unread(measured: Iterable[ast.Module], all_code: Iterable[str]) -> list[str]:
    """The fields of what is measured that no code reads, by name alone: one that has the name of a field that is read is not found."""
    fields = {(owner, field) for tree in measured for owner, field in _fields(tree) if owner not in WHOLE}
    left = {field for _, field in fields}
    # What names most of them first: then only a part of all code has to be parsed.
    named = sorted(((left.intersection(re.findall(r"\.(\w+)", text)), text) for text in all_code), key=lambda each: -len(each[0]))
    for names, text in named:
        if left & names:
            left -= {*_read(ast.parse(text))}
    return sorted(f"{owner}.{field}" for owner, field in fields if field in left)


def test_every_field_that_is_measured_is_read_by_somebody():
    measured = parsed((ROOT / "analyses").rglob("*.py"), holding=re.compile("dataclass"))

    assert unread(measured.values(), (path.read_text(encoding="utf-8") for path in ROOT.rglob("*.py"))) == []


def test_a_field_that_is_only_filled_is_seen():
    source = "@dataclass\nclass Disk:\n    busy: float\n    name: str\ndisk = Disk(busy=1.0, name='sda')\ndisk.name\ndisk.busy = 2"

    assert unread([ast.parse(source)], [source]) == ["Disk.busy"]
