"""A rule says of which topics it judges, is asked where these were measured, and knows neither source nor format."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

import slowstep
from declared import Undeclared, judge_as_declared
from made_measured_traces import made_measured
from made_measurements import measurements
from slowstep.analyses.measure_recording import MAKERS as RECORDED
from slowstep.analyses.measure_trace import MAKERS as TRACED
from slowstep.diagnosis.engine import rules
from slowstep.diagnosis.rule import Rule
from slowstep.frameworks._known import all_words

ROOT = Path(slowstep.__path__[0]) / "diagnosis"
# Words for where measurements come from, and of formats.
FRAMEWORKS = frozenset(all_words())
SOURCES = frozenset({"trace", "traces", "traced", "recording", "recordings", "kineto", "xplane", "nsys", "nsight", "chrome"})


def _names(tree: ast.AST) -> Iterator[str]:
    """What is defined, imported, read or passed by a name; no text."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=str(module), names=names):
                yield from module.split(".")
                yield from (alias.asname or alias.name for alias in names)


def _of(words: Collection[str], names: set[str]) -> set[str]:
    return {name for name in names if {word.lower() for word in re.split(r"_|(?<=[a-z])(?=[A-Z])", name)}.intersection(words)}


def _modules() -> list[Path]:
    return [path for folder in ("rules", "evidence") for path in sorted((ROOT / folder).glob("*.py"))]


@pytest.mark.parametrize("path", _modules(), ids=lambda path: path.stem)
def test_neither_rules_nor_their_evidence_name_a_source_or_a_format_or_a_framework(path):
    named = {path.stem, *_names(ast.parse(path.read_text(encoding="utf-8")))}

    assert _of({*SOURCES, *FRAMEWORKS}, named) == set()


def test_a_name_of_a_source_is_seen_wherever_it_stands():
    text = "from slowstep.sources.kineto import read\ndef of_trace(nsys=1): return m.recording, SHAPES_NOT_TRACED, TraceFacts, retrace"

    assert _of(SOURCES, {*_names(ast.parse(text))}) >= {"kineto", "of_trace", "nsys", "recording", "SHAPES_NOT_TRACED", "TraceFacts"}
    assert "retrace" not in _of(SOURCES, {*_names(ast.parse(text))})


def test_a_name_of_a_framework_is_seen_where_advice_is_written_for_each():
    text = "from slowstep.frameworks.jax.outside import words\nin_lightning = advice(m, torch=1, tensorflow=2)"

    assert _of(FRAMEWORKS, {*_names(ast.parse(text))}) == {"jax", "in_lightning", "torch", "tensorflow"}


@pytest.mark.parametrize("name", sorted(rules()))
def test_every_rule_is_asked_of_something_that_is_measured(name):
    rule = rules()[name]

    assert any(provided.keys() >= set(rule.topics) for provided in (RECORDED, TRACED))
    assert not set(rule.topics) & set(rule.where_known)


def test_made_measurements_have_the_topics_that_are_measured():
    assert measurements().provided == RECORDED.keys()
    assert made_measured().provided == TRACED.keys()


def test_a_rule_is_not_asked_where_a_topic_of_its_was_not_measured():
    rule = Rule(name="of-device", stages=("compute",), topics=("ledger", "device"), judge=lambda _: None)

    assert rule.is_asked(made_measured())
    assert not rule.is_asked(measurements())


def test_a_topic_that_does_not_exist_cannot_be_declared():
    with pytest.raises(ValueError, match="weather"):
        Rule(name="of-weather", stages=("compute",), topics=("weather",), judge=lambda _: None)


def test_a_rule_that_reads_more_than_it_declares_fails_in_tests():
    rule = Rule(name="greedy", stages=("compute",), topics=("ledger",), judge=lambda m: m.machine.load and None)

    with pytest.raises(Undeclared, match="greedy"):
        judge_as_declared(rule, measurements())


def test_a_rule_may_read_what_it_knows_only_of_some():
    rule = Rule(name="either", stages=("compute",), topics=("ledger",), where_known=("device",), judge=lambda m: m.has("device") and None)

    assert judge_as_declared(rule, measurements()) is False
    assert judge_as_declared(rule, made_measured()) is None
