"""A golden file changes alone, and with a record that says why (docs/decisions/README.md): read from the history."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
GOLDENS, RECORDS, CODE, RULES = "tests/golden/expected/", "docs/decisions/", "src/", "src/slowstep/diagnosis/rules/"
# The first day on which golden files had to change so: earlier commits were made without knowing of it.
SINCE = "2026-11-30T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class Commit:
    """What one changes: for each path a letter for each of its parents, as `git log -c --name-status` has them. What a merge takes as one
    of its parents has it is no change."""

    name: str
    parents: tuple[str, ...]
    subject: str
    changes: dict[str, str]

    @property
    def changed(self) -> list[str]:
        """The golden files that were there before."""
        return [path for path, status in self.changes.items() if "M" in status and path.startswith(GOLDENS)]

    def before(self, path: str) -> list[str]:
        """The parents in which a file is another one."""
        return [parent for parent, status in zip(self.parents, self.changes[path], strict=True) if status == "M"]

    @property
    def new_rules(self) -> set[str]:
        """By the names that they are called by."""
        added = [path for path, status in self.changes.items() if set(status) == {"A"} and path.startswith(RULES)]
        return {Path(path).stem.replace("_", "-") for path in added}


def _commits(log: str) -> Iterator[Commit]:
    """Those of a `git log` that has for each a NUL, then its name, its parents and its subject, and then a row for each path."""
    for head, *rows in (commit.splitlines() for commit in log.split("\0")[1:]):
        name, parents, subject = head.split("\t", 2)
        changes = {path: status for status, path in (row.split("\t") for row in rows if "\t" in row)}
        yield Commit(name=name, parents=tuple(parents.split()), subject=subject, changes=changes)


def _leaves(answer: Any, place: str = "") -> Iterator[str]:
    """Each value of an answer with its place: that of all elements of a list is that of the list."""
    if isinstance(answer, dict):
        for key, value in answer.items():
            yield from _leaves(value, f"{place}/{key}")
    elif isinstance(answer, list):
        for value in answer:
            yield from _leaves(value, place)
    else:
        yield f"{place}: {answer!r}"


def _without(rules: set[str], answers: dict[str, Any]) -> dict[str, Any]:
    """Answers that do not say of these rules that they were not judged."""
    return {
        number: {**answer, "not_judged": {rule: why for rule, why in answer["not_judged"].items() if rule not in rules}}
        for number, answer in answers.items()
    }


def _is_founded(commit: Commit, read: Callable[[str, str], dict[str, Any]]) -> bool:
    """Whether a commit changes golden files alone and with a record, or as one that needs none. `read` is for a revision's golden file.

    A merge answers nothing that none of its parents does. A new rule adds its name to what is not judged, and nothing else.
    """
    if len(commit.parents) > 1:
        return all(
            {*_leaves(read(commit.name, path))} <= {leaf for parent in commit.before(path) for leaf in _leaves(read(parent, path))}
            for path in commit.changed
        )
    if rules := commit.new_rules:
        [parent] = commit.parents
        return all(_without(rules, read(commit.name, path)) == read(parent, path) for path in commit.changed)
    is_beside_code = any(path.startswith(CODE) for path in commit.changes)
    has_record = any(path.startswith(RECORDS) for path in commit.changes) or re.search(r"\bdecisions? \d{4}", commit.subject) is not None
    return has_record and not is_beside_code


def _unfounded(log: str, read: Callable[[str, str], dict[str, Any]]) -> list[str]:
    """The subjects of commits that change what golden files answer and are not to."""
    return [commit.subject for commit in _commits(log) if commit.changed and not _is_founded(commit, read)]


def _git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout


def test_a_golden_file_changes_alone_and_with_a_record():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no history is here")
    shown = ("-c", "--no-renames", "--name-status", "--format=%x00%H%x09%P%x09%s")
    log = _git("log", f"--since={SINCE}", *shown, "--", GOLDENS, RECORDS, CODE)

    assert _unfounded(log, lambda revision, path: json.loads(_git("show", f"{revision}:{path}"))) == []


GOLDEN, NEW_RULE = "M\ttests/golden/expected/a.json", "A\tsrc/slowstep/diagnosis/rules/input/slow_thing.py"
OLD = {"0": {"steps": 3, "not_judged": {"input-wait": [["few-steps", True]]}}}
NOT_JUDGED = {"0": {"steps": 3, "not_judged": {**OLD["0"]["not_judged"], "slow-thing": [["not-recorded", True]]}}}
OTHER_RULE = {"0": {"steps": 3, "not_judged": {**OLD["0"]["not_judged"], "other-thing": [["not-recorded", True]]}}}
OTHER_STEPS = {"0": {**NOT_JUDGED["0"], "steps": 4}}


@pytest.mark.parametrize(
    ("rows", "now", "is_found"),
    [
        ((GOLDEN, "A\tdocs/decisions/0001-a.md"), OTHER_STEPS, False),
        ((GOLDEN,), OTHER_STEPS, True),
        ((GOLDEN, "M\tdocs/decisions/0001-a.md", "M\tsrc/slowstep/a.py"), OTHER_STEPS, True),
        ((GOLDEN, NEW_RULE), NOT_JUDGED, False),
        ((GOLDEN, NEW_RULE), OTHER_RULE, True),
        ((GOLDEN, NEW_RULE), OTHER_STEPS, True),
        ((GOLDEN, NEW_RULE, "A\tdocs/decisions/0001-a.md"), OTHER_STEPS, True),
        (("A\ttests/golden/expected/a.json", "M\tsrc/slowstep/a.py"), OTHER_STEPS, False),
        (("M\tsrc/slowstep/a.py",), OLD, False),
    ],
)
def test_what_a_golden_file_changes_with_is_seen(rows, now, is_found):
    log = "\0" + "\n".join(("new\told\tAnswer otherwise", "", *rows)) + "\n\0old\tolder\tAnother one\n\nM\tdocs/decisions/README.md\n"

    assert _unfounded(log, lambda revision, _: {"new": now, "old": OLD}[revision]) == ["Answer otherwise"] * is_found


@pytest.mark.parametrize(("other", "is_found"), [(OTHER_STEPS, False), (OLD, True)])
def test_a_merge_answers_nothing_that_none_of_its_parents_does(other, is_found):
    log = "\0new\told other\tMerge\n\nMM\ttests/golden/expected/a.json\n"

    assert _unfounded(log, lambda revision, _: {"new": OTHER_STEPS, "old": OLD, "other": other}[revision]) == ["Merge"] * is_found


def test_a_record_may_be_named_by_its_number():
    log = "\0new\told\tTake the answers that follow (decision 0005)\n\nM\ttests/golden/expected/a.json\n"

    assert _unfounded(log, lambda *_: OLD) == []
