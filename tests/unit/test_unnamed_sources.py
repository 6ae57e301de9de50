"""What is measured is judged and told of alike, wherever it comes from: rules and the document name no source, no format, no framework."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import slowstep
from slowstep.frameworks._known import all_words

ROOT = Path(slowstep.__path__[0])
FOLDERS = ("diagnosis/rules", "diagnosis/evidence", "document")
# What is known of a run depends on what was kept of it: the section `run` is made by one of two of these, and so is what is doubtful of it.
OF_ONE_SOURCE = {"recorded_run", "traced_run", "recording_doubts"}
# Words for where measurements come from, and of formats.
FRAMEWORKS = frozenset(all_words())
SOURCES = frozenset({"trace", "traces", "traced", "recording", "recordings", "kineto", "xplane", "nsys", "nsight", "chrome"})


def _names(tree: ast.AST) -> Iterator[str]:
    """What is defined, imported, read, passed by a name, or compared with; no other text."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=str(module), names=names):
                yield from module.split(".")
                yield from (alias.asname or alias.name for alias in names)
            case ast.Compare(left=left, comparators=others):
                yield from (each.value for each in (left, *others) if isinstance(each, ast.Constant) and isinstance(each.value, str))


def _of(words: Collection[str], names: set[str]) -> set[str]:
    return {name for name in names if {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}.intersection(words)}


def _modules() -> list[Path]:
    return [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if path.stem not in OF_ONE_SOURCE]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.stem)
def test_neither_rules_nor_their_evidence_nor_the_document_name_a_source_or_a_format_or_a_framework(path):
    named = {path.stem, *_names(ast.parse(path.read_text(encoding="utf-8")))}

    assert _of({*SOURCES, *FRAMEWORKS}, named) == set()


def test_what_is_of_one_source_names_one():
    for name in OF_ONE_SOURCE:
        assert _of(SOURCES, {*_names(ast.parse((ROOT / "document" / f"{name}.py").read_text(encoding="utf-8")))})


def test_a_name_of_a_source_is_seen_wherever_it_stands():
    text = "from slowstep.sources.kineto import read\ndef of_trace(nsys=1): return m.recording, SHAPES_NOT_TRACED, TraceFacts, retrace"

    assert _of(SOURCES, {*_names(ast.parse(text))}) >= {"kineto", "of_trace", "nsys", "recording", "SHAPES_NOT_TRACED", "TraceFacts"}
    assert "retrace" not in _of(SOURCES, {*_names(ast.parse(text))})


def test_a_source_that_something_is_compared_with_is_seen():
    assert _of(SOURCES, {*_names(ast.parse("if job.source == 'traces': pass"))}) == {"traces"}


def test_a_name_of_a_framework_is_seen_where_advice_is_written_for_each():
    text = "from slowstep.frameworks.jax.outside import words\nin_lightning = advice(m, torch=1, tensorflow=2)"

    assert _of(FRAMEWORKS, {*_names(ast.parse(text))}) == {"jax", "in_lightning", "torch", "tensorflow"}
