"""A verdict is made in one room and changed in one place, and one place decides what to type next."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from parsed import parsed

ROOT = Path(slowstep.__path__[0])
MAKES_A_VERDICT = {"Verdict", "undetermined", "open_by_fault"}
CHANGES_A_DIAGNOSIS = {"among_ranks", "with_tried", "opened_by"}
STANDS_BEFORE_ANOTHER = {"after_rank", "after_launcher", "from_its_folder"}
# The text of a call of one of these by its name, and of what replaces a verdict.
CALLS = re.compile(rf"\b({'|'.join(MAKES_A_VERDICT | CHANGES_A_DIAGNOSIS | STANDS_BEFORE_ANOTHER)})\(|\bverdict=")


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module that may call one of them, but those of the diagnosis, by its place."""
    found = parsed((path for path in sorted(ROOT.rglob("*.py")) if path.relative_to(ROOT).parts[0] != "diagnosis"), holding=CALLS)
    return {path.relative_to(ROOT).as_posix(): tree for path, tree in found.items()}


def _called(tree: ast.Module) -> Iterator[str]:
    """What a module calls by its name."""
    return (node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name))


def _callers(trees: dict[str, ast.Module], names: set[str]) -> dict[str, set[str]]:
    """Which of these names each module calls; without those that call none."""
    return {module: found for module, tree in trees.items() if (found := names & set(_called(tree)))}


def test_no_verdict_is_made_outside_the_diagnosis_but_that_of_one_half_alone(trees):
    assert _callers(trees, MAKES_A_VERDICT) == {"workflow/bench_report.py": {"Verdict"}}


def test_no_verdict_is_replaced_outside_the_diagnosis(trees):
    replaced = {
        module
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "replace"
        and "verdict" in {keyword.arg for keyword in node.keywords}
    }

    assert replaced == set()


def test_what_the_engine_judged_changes_in_one_place(trees):
    assert _callers(trees, CHANGES_A_DIAGNOSIS) == {"workflow/judge_job.py": CHANGES_A_DIAGNOSIS}


def test_which_of_several_next_steps_stands_is_decided_in_one_place(trees):
    assert _callers(trees, STANDS_BEFORE_ANOTHER) == {"workflow/next_command/after_all.py": STANDS_BEFORE_ANOTHER}
