"""What slowstep's own files in recordings are."""

from __future__ import annotations

from pathlib import Path

import pytest

import slowstep
from slowstep.record.writing.own_frames import FOLDERS, is_own

SOURCES = Path(slowstep.__path__[0]).parent


@pytest.mark.parametrize("file", ["/opt/slowstep/record/waits.py", "C:\\x\\slowstep\\frameworks\\torch\\inside\\_waits.py"])
def test_a_file_is_known_by_its_old_and_its_new_name_wherever_slowstep_lies(file: str) -> None:
    assert is_own(file)


def test_files_of_the_script_and_of_slowstep_outside_the_training_are_none_of_these() -> None:
    assert not is_own("/home/me/waits.py")
    assert not is_own("/opt/slowstep/analyses/python/calls.py")
    assert all((SOURCES / folder).is_dir() for folder in FOLDERS)
