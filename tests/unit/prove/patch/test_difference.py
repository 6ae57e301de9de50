"""A difference that other programs apply, and take back."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from slowstep.prove.patch.change import difference
from slowstep.prove.patch.source import NoPatch

SOURCES = {
    "plain": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "without a last line end": (b"a\nb", b"a\nB"),
    "line ends of Windows": (b"a\r\nb\r\n\x0cc\r\n", b"a\r\nB\r\nd\r\n\x0cc\r\n"),
    "no UTF-8": (b"# coding: latin-1\n'\xe9'\n", b"# coding: latin-1\n'\xe9', 1\n"),
}


@pytest.mark.parametrize("command", [("patch", "-p0", "-s", "-i"), ("git", "apply", "-p0")], ids=["patch", "git"])
@pytest.mark.parametrize("name", ["train.py", "a b/train.py"])
@pytest.mark.parametrize("source", SOURCES)
def test_it_is_applied_and_taken_back_byte_by_byte(tmp_path: Path, command: tuple[str, ...], name: str, source: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    before, after = SOURCES[source]
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(before)
    (tmp_path / "fix.patch").write_bytes(difference(before, after, name))

    subprocess.run([*command, "fix.patch"], cwd=tmp_path, check=True)
    applied = file.read_bytes()
    subprocess.run([*command, "fix.patch", "-R"], cwd=tmp_path, check=True)

    assert (applied, file.read_bytes()) == (after, before)


@pytest.mark.parametrize("name", ["a\nb.py", '"a.py', "../train.py"])
def test_a_name_that_means_another_file_is_in_no_patch(name: str) -> None:
    with pytest.raises(NoPatch, match="path"):
        difference(b"a\n", b"b\n", name)
