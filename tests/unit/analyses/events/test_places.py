"""A place in a table is one text, and only what makes parts of tables reads it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import slowstep
from parsed import parsed
from slowstep.analyses.events.places import is_function, place_of_text, place_text, without_folders
from slowstep.parts import CodePlace

ROOT = Path(slowstep.__path__[0])
PLACES = [
    (CodePlace("train.py", None), "train.py"),
    (CodePlace("/a/train.py", 82), "/a/train.py:82"),
    (CodePlace("train.py", 30, 34), "train.py:30-34"),
    (CodePlace("train.py", 82, None, "step"), "step (train.py:82)"),
    (CodePlace("train.py", None, None, "step"), "step (train.py)"),
    (CodePlace("net (old).py", 3, None, "Net.f.<locals>.<lambda>"), "Net.f.<locals>.<lambda> (net (old).py:3)"),
    (CodePlace("C:\\x\\train.py", 3), "C:\\x\\train.py:3"),
    (CodePlace("C:\\x\\train.py", None), "C:\\x\\train.py"),
]


@pytest.mark.parametrize(("place", "text"), PLACES, ids=[text for _, text in PLACES])
def test_a_place_in_tables_is_read_as_it_was_written(place, text):
    assert (place_text(place), place_of_text(text)) == (text, place)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("train.py", "train.py"),
        ("/a/train.py:3", "train.py:3"),
        ("C:\\x\\train.py:3", "train.py:3"),
        ("f (/a (old)/net.py:3)", "f (net.py:3)"),
    ],
)
def test_a_place_without_folders_is_still_that_of_its_function_and_line(text, name):
    assert without_folders(text) == name


def test_a_module_as_a_whole_is_no_function():
    assert [is_function(place) for place in ("main (train.py:3)", "train.py:3", "a/train.py", "<stdin>")] == [True, True, False, False]


def test_only_what_makes_parts_of_tables_reads_a_place():
    trees = parsed(ROOT.rglob("*.py"), holding=re.compile("place_of_text"))
    reading = {str(path.relative_to(ROOT)) for path, tree in trees.items() if _reads(tree)}

    assert reading == {"analyses/events/places.py", "analyses/events/parts.py"}


@pytest.mark.parametrize("text", ["from x import place_of_text", "places.place_of_text(text)", "each = map(place_of_text, texts)"])
def test_reading_a_place_is_seen_however_it_is_named(text):
    assert _reads(ast.parse(text))


def _reads(tree: ast.AST) -> bool:
    return any("place_of_text" in _names(node) for node in ast.walk(tree))


def _names(node: ast.AST) -> tuple[str, ...]:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.FunctionDef(name=name):
            return (name,)
    return ()
