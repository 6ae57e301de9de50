"""A golden file changes alone, and with a record that says why (docs/decisions/README.md): read from the history."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDENS, RECORDS, CODE, RULES = "tests/golden/expected/", "docs/decisions/", "src/", "src/slowstep/diagnosis/rules/"
SINCE = "2026-11-30T00:00:00Z"


def _unfounded(log: str) -> list[str]:
    """The subjects of commits that change what golden files answer beside code, or without a record. `log` has for each commit a line with
    its subject behind a NUL, and those of `git log --name-status`.

    A new rule adds its name to what is not judged, in its own commit.
    """
    found = []
    for subject, *rows in (commit.splitlines() for commit in log.split("\0")[1:]):
        changes = [tuple(row.split("\t")) for row in rows if "\t" in row]
        changed = [path for status, *_, path in changes if status == "M" and path.startswith(GOLDENS)]
        is_new_rule = any(status == "A" and path.startswith(RULES) for status, *_, path in changes)
        beside_code = any(path.startswith(CODE) for _, *_, path in changes)
        has_record = any(path.startswith(RECORDS) for _, *_, path in changes) or re.search(r"\bdecisions? \d{4}", subject) is not None
        if changed and not is_new_rule and (beside_code or not has_record):
            found.append(subject)
    return found


def test_a_golden_file_changes_alone_and_with_a_record():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no history is here")
    words = ("log", "--no-merges", f"--since={SINCE}", "--name-status", "--format=%x00%s", "--", GOLDENS, RECORDS, CODE)
    log = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout

    assert _unfounded(log) == []


@pytest.mark.parametrize(
    ("rows", "is_found"),
    [
        (("M\ttests/golden/expected/a.json", "A\tdocs/decisions/0001-a.md"), False),
        (("M\ttests/golden/expected/a.json",), True),
        (("M\ttests/golden/expected/a.json", "M\tdocs/decisions/0001-a.md", "M\tsrc/slowstep/a.py"), True),
        (("M\ttests/golden/expected/a.json", "A\tsrc/slowstep/diagnosis/rules/input/a.py"), False),
        (("A\ttests/golden/expected/a.json", "M\tsrc/slowstep/a.py"), False),
        (("M\tsrc/slowstep/a.py",), False),
    ],
)
def test_what_a_golden_file_changes_with_is_seen(rows, is_found):
    log = "\0" + "\n".join(("Answer otherwise", "", *rows)) + "\n\0Another one\n\nM\tdocs/decisions/README.md\n"

    assert _unfounded(log) == ["Answer otherwise"] * is_found


def test_a_record_may_be_named_by_its_number():
    assert _unfounded("\0Take the answers that follow (decision 0005)\n\nM\ttests/golden/expected/a.json\n") == []
