"""Every recording and trace of tests/data gives the answer that its golden file holds.

A golden file changes only in a commit that changes nothing else, with a record in docs/decisions that says why the new answer is right
(docs/decisions/README.md): `pytest tests/golden --update-snapshots` writes them. A new recording or trace gets its file by the same
command; where its answer is wrong, PROVENANCE.md beside it says what is right.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from few import few
from golden.answers import answers, written
from slowstep.diagnosis.law import rules

DATA = Path(__file__).parents[1] / "data"
GOLDENS = Path(__file__).parent / "expected"
RECORDINGS = sorted((DATA / "recordings").glob("*.tar.xz"))
# A folder of several traces is one job of several ranks.
TRACES = sorted(path for kind in ("kineto", "nsys", "xplane") for path in (DATA / kind).iterdir() if path.is_dir())


def _name(path: Path) -> str:
    return path.name.removesuffix(".tar.xz")


@pytest.mark.parametrize("packed", few(RECORDINGS, every=8), ids=_name)
def test_a_recording_is_answered_as_ever(packed, tmp_path, looked_at):
    folder = tmp_path / _name(packed)
    with tarfile.open(packed) as archive:
        # Early releases of Python 3.11 know no filters; later ones warn where none is chosen.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)

    text = written(answers([folder]))

    assert looked_at(GOLDENS / "recordings" / f"{_name(packed)}.json", text) == text


@pytest.mark.parametrize("folder", few(TRACES, every=4), ids=_name)
def test_a_trace_is_answered_as_ever(folder, looked_at):
    text = written(answers([folder]))

    assert looked_at(GOLDENS / folder.parent.name / f"{folder.name}.json", text) == text


def test_every_golden_file_has_what_it_is_of():
    expected = {path.relative_to(GOLDENS).with_suffix("").as_posix() for path in GOLDENS.rglob("*.json")}

    assert expected == {f"recordings/{_name(path)}" for path in RECORDINGS} | {f"{path.parent.name}/{path.name}" for path in TRACES}


def test_every_rule_finds_something_in_a_golden_file():
    answered = [answer for path in GOLDENS.rglob("*.json") for answer in json.loads(path.read_text(encoding="utf-8")).values()]
    found = {rule for answer in answered for row in answer["findings"] for rule in (row["rule"], *row["also"])}

    assert found == rules().keys()
