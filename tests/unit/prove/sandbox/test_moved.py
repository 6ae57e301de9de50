"""Arguments and variables of a command that runs in a copy of its folder."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slowstep.prove.sandbox.moved import Moved


@pytest.fixture
def moved(tmp_path: Path) -> Moved:
    for name in ("work/data", "work/.venv", "work/slowstep_runs", "other", "copy", "outputs"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "link").symlink_to("work")
    kept = (f"{tmp_path}/work/slowstep_runs", f"{tmp_path}/work/.venv")
    return Moved(folder=f"{tmp_path}/work", copy=f"{tmp_path}/copy", kept=kept, outputs=f"{tmp_path}/outputs")


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("", ""),
        ("train.py", "train.py"),
        ("--lr=0.1", "--lr=0.1"),
        ("{}/work", "{}/copy"),
        ("{}/work/data/new", "{}/copy/data/new"),
        ("{}/work/../work/data", "{}/copy/data"),
        ("--data={}/work/data", "--data={}/copy/data"),
        ("data.path={}/link/data", "data.path={}/copy/data"),
        ("{}/work/.venv/bin/python", "{}/work/.venv/bin/python"),
        ("{}/work/slowstep_runs", "{}/work/slowstep_runs"),
        ("{}/other", "{}/other"),
        ("../other", "{}/other"),
        ("../gone", "../gone"),
        ("data/../data", "data/../data"),
        ("/gone", "/gone"),
        ("/gone/too", "/gone/too"),
        ("{}/workplace", "{}/outputs/0/workplace"),
    ],
)
def test_a_path_in_the_folder_becomes_one_in_the_copy(moved, tmp_path, word, expected):
    assert moved.word(word.format(tmp_path)) == expected.format(tmp_path)


def test_outputs_beside_each_other_stay_so(moved, tmp_path):
    words = [moved.word(f"--out={tmp_path}/other/{name}") for name in ("a", "b")] + [moved.word(f"{tmp_path}/c")]

    assert words == [f"--out={tmp_path}/outputs/0/a", f"--out={tmp_path}/outputs/0/b", f"{tmp_path}/outputs/1/c"]
    assert sorted(os.listdir(tmp_path / "outputs")) == ["0", "1"]
    assert os.listdir(tmp_path / "other") == []


def test_variables_that_name_programs_stay(moved, tmp_path):
    environ = {"PATH": f"{tmp_path}/work/bin:/bin", "PYTHONPATH": f"{tmp_path}/work/slowstep_runs:{tmp_path}/work:lib", "X": "1"}

    assert moved.variables(environ) == environ | {"PYTHONPATH": f"{tmp_path}/work/slowstep_runs:{tmp_path}/copy:lib"}
