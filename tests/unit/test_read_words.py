"""No code decides by the words that somebody reads: what it looks for is a code, which no other wording changes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import slowstep
from read_words import imported_from, phrases_of, read_words

PACKAGE = Path(slowstep.__path__[0])
# Words are made and laid out there.
WORDED = ("report", "cli")
# How many lines of a file look for a phrase, and whose. The numbers only fall.
PHRASES_OF_OTHERS = {
    # Python's: tracebacks, and what `repr` says of a function.
    "analyses/python/gap_calls.py": 1,
    "frameworks/torch/inside/tasks/_calls.py": 1,
    "prove/lever_faults.py": 4,
    # Of recordings, as their format has them since the first one.
    "document/experiment.py": 1,
    "document/recorded_run.py": 1,
    "prove/results.py": 1,
    "sources/_recording/damage.py": 1,
    # Values of report.json, which are a contract.
    "analyses/steps/batches.py": 1,
    "diagnosis/evidence/after_pause.py": 1,
    "document/proved.py": 1,
    "workflow/next_command/after_experiment.py": 1,
}


def test_no_code_looks_for_a_phrase() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    phrases = {_module(path): phrases_of(tree) for path, tree in trees.items()}
    found = {}
    for path, tree in trees.items():
        taken = {here for module, there, here in imported_from(tree) if there in phrases.get(module, ())}
        lines = [*read_words(tree, phrases[_module(path)] | taken)]
        if lines and path.relative_to(PACKAGE).parts[0] not in WORDED:
            found[str(path.relative_to(PACKAGE))] = lines

    assert {name: lines for name, lines in found.items() if len(lines) != PHRASES_OF_OTHERS.get(name, 0)} == {}
    assert found.keys() == PHRASES_OF_OTHERS.keys()


@pytest.mark.parametrize(
    "line",
    [
        "name == 'first step'",
        "name in ('first step', 'other')",
        "FIRST_STEP != name",
        "text.startswith(f'first step {1}')",
        "pl.col('why').str.starts_with('first step')",
        "names.FIRST_STEP in found",
        "kinds.is_in(['first step'])",
    ],
)
def test_looking_for_a_phrase_is_seen(line: str) -> None:
    assert [*read_words(ast.parse(line), {"FIRST_STEP"})] == [1]


def test_looking_for_one_in_a_match_is_seen() -> None:
    assert [*read_words(ast.parse("match name:\n    case 'first step':\n        pass"), ())] == [2]


@pytest.mark.parametrize("line", ["name == 'first-step'", "text.partition(' (')", "said = 'first step'", "line.startswith('VmRSS: ')"])
def test_codes_marks_and_what_is_said_are_no_phrases_that_are_looked_for(line: str) -> None:
    assert [*read_words(ast.parse(line), ())] == []


def test_a_constant_that_holds_a_phrase_is_one() -> None:
    tree = ast.parse("FIRST: Final = 'first step'\nALL = (FIRST, 'other')\nCODE = 'first-step'\nfrom a.b import C as D")

    assert phrases_of(tree) == {"FIRST", "ALL"}
    assert [*imported_from(tree)] == [("a.b", "C", "D")]


def _module(path: Path) -> str:
    return ".".join(("slowstep", *path.relative_to(PACKAGE).with_suffix("").parts))
