"""What slowstep's own files in recordings stand for: the names that they have now, and those that they had."""

from __future__ import annotations

from pathlib import Path

import pytest

import slowstep
from slowstep.record.writing.own_frames import BACKWARD, COLLATE, FOLDERS, REQUEST, is_one_of, is_own

SOURCES = Path(slowstep.__path__[0]).parent


@pytest.mark.parametrize(("files", "function"), [(BACKWARD, "backward"), (REQUEST, "__next__"), (COLLATE, "collate_fn")])
def test_the_newest_name_is_that_of_the_file_which_has_the_function_now(files: tuple[str, ...], function: str) -> None:
    assert f"def {function}(" in (SOURCES / files[0]).read_text(encoding="utf-8")


@pytest.mark.parametrize("file", ["/opt/slowstep/record/waits.py", "C:\\x\\slowstep\\frameworks\\torch\\inside\\_waits.py"])
def test_a_file_is_known_by_its_old_and_its_new_name_wherever_slowstep_lies(file: str) -> None:
    assert is_one_of(file, REQUEST)
    assert is_own(file)
    assert not is_one_of(file, BACKWARD)


def test_files_of_the_script_and_of_slowstep_outside_the_training_are_none_of_these() -> None:
    assert not is_own("/home/me/waits.py")
    assert not is_own("/opt/slowstep/analyses/python/calls.py")
    assert all((SOURCES / folder).is_dir() for folder in FOLDERS)
