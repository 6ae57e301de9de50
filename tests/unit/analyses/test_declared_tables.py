"""A package of analyses declares the tables that it reads: all of them, and no others."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from declared_tables import UndeclaredTable, hold_analyses_to_their_tables, tables_of, unit_of
from made_recordings import Training, make_recording
from parsed import parsed
from slowstep import analyses
from slowstep.analyses import over_time
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE
from slowstep.timeline.schema import TABLE

ROOT = Path(analyses.__path__[0])
DECLARATION = "TABLES"
READS = {"table", "rows", "count"}


def _literals(tree: ast.AST) -> Iterator[str]:
    """Texts that are a table's name, but for those of the declaration."""
    declared = {id(each) for node in ast.walk(tree) if _is_declaration(node) for each in ast.walk(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in TABLE and id(node) not in declared:
            yield str(node.value)


def _is_declaration(node: ast.AST) -> bool:
    return isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == DECLARATION


def _read(tree: ast.AST) -> Iterator[str]:
    """Tables that are asked for by a text."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=method), args=[ast.Constant(value=str(name)), *_]) if method in READS and name in TABLE:
                yield name


@cache
def _units() -> dict[str, list[ast.AST]]:
    found: dict[str, list[ast.AST]] = defaultdict(list)
    for path, tree in parsed(sorted(ROOT.rglob("*.py"))).items():
        unit = unit_of(f"slowstep.analyses.{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}")
        assert unit is not None
        found[unit].append(tree)
    return found


@pytest.mark.parametrize("unit", sorted(set(_units()) - {"__init__"}))
def test_a_package_declares_the_tables_that_it_reads_and_no_others(unit):
    read, named = ({name for tree in _units()[unit] for name in found(tree)} for found in (_read, _literals))

    # Some are asked for by a name that was given: that these are declared, goldens tell, which read them.
    assert read <= tables_of(unit) <= named


def test_only_tables_that_there_are_can_be_read():
    assert {name for unit in _units() if unit != "__init__" for name in tables_of(unit)} <= TABLE.keys()


def test_an_analysis_that_reads_more_than_its_package_declares_fails_in_tests(tmp_path, monkeypatch):
    timeline = SOURCE.read(make_recording(tmp_path / "recording", Training(steps=30)))
    hold_analyses_to_their_tables(monkeypatch)
    measured = measure_recording(timeline)
    assert measured.over_time is not None

    monkeypatch.setattr(over_time, DECLARATION, frozenset())
    with pytest.raises(UndeclaredTable, match="over_time"):
        measure_recording(timeline).settle()


def test_a_declaration_is_no_reading():
    tree = ast.parse("TABLES: Final = frozenset({'stacks'})\nfound = timeline.table('waits')\nfor name in ('spans',): timeline.table(name)")

    assert {*_literals(tree)} == {"waits", "spans"}
    assert [*_read(tree)] == ["waits"]
