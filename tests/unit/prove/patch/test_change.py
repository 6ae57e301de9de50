"""What a lever is in the script: by what the training noted of its calls."""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from slowstep.prove.patch.call_place import CallPlace
from slowstep.prove.patch.change import NO_ARGUMENT, NOT_SEEN, ScriptChange, find_change
from slowstep.prove.patch.noted import find_changes

TAKES = ("dataset", "batch_size", "num_workers", "persistent_workers")
LOADER = "loader = DataLoader(data)\n"
SETTINGS = "arguments = TrainingArguments('out')\n"


def place_in(file: Path, text: str, **more: Any) -> CallPlace:
    """The one call of a line of source, which the file then holds."""
    file.write_text(text)
    place = CallPlace(
        made="loader",
        framework="torch",
        file=str(file),
        line=1,
        end_line=1,
        end_column=len(text) - 1,
        checksum=zlib.crc32(file.read_bytes()),
        names=("DataLoader",),
        takes=TAKES,
    )
    return replace(place, **more)


def of_settings(file: Path) -> CallPlace:
    return place_in(file, SETTINGS, made="settings", framework="transformers", names=("TrainingArguments",), takes_any=True)


def change(folder: Path, *places: CallPlace, **arguments: Any) -> ScriptChange:
    return find_change("workers=2", arguments or {"num_workers": 2, "persistent_workers": True}, places, folder)


def test_it_is_an_argument_of_the_call_that_made_the_loader(tmp_path: Path) -> None:
    found = change(tmp_path, place_in(tmp_path / "train.py", LOADER, others=1))

    assert (found.place, found.folder, found.made, found.others, found.reason) == ("train.py:1", str(tmp_path), "loader", 1, None)
    assert found.text == "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert found.difference == (
        b"--- train.py\n+++ train.py\n@@ -1 +1 @@\n-loader = DataLoader(data)\n"
        b"+loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"
    )
    assert (tmp_path / "train.py").read_text() == LOADER


def test_a_trainer_that_makes_the_loader_is_told_by_its_settings_in_its_own_words(tmp_path: Path) -> None:
    calls = place_in(tmp_path / "loop.py", "trainer.train()\n"), of_settings(tmp_path / "train.py")

    found = change(tmp_path, *calls)

    assert (found.place, found.made) == ("train.py:1", "settings")
    assert found.text == "TrainingArguments(dataloader_num_workers=2, dataloader_persistent_workers=True)"
    assert found.difference is not None
    assert b"TrainingArguments('out', dataloader_num_workers=2, dataloader_persistent_workers=True)" in found.difference


def test_a_call_that_decides_and_cannot_be_changed_is_not_passed_over(tmp_path: Path) -> None:
    found = change(tmp_path, place_in(tmp_path / "loop.py", "DataLoader(data, **more)\n"), of_settings(tmp_path / "train.py"))

    assert (found.difference, found.text) == (None, None)
    assert found.reason is not None
    assert found.reason.startswith("loop.py:1: the call is given **")


def test_of_a_file_elsewhere_the_patch_is_applied_in_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()

    found = change(tmp_path / "here", place_in(tmp_path / "train.py", LOADER))

    assert (found.folder, found.place) == (str(tmp_path), f"{tmp_path / 'train.py'}:1")
    assert found.difference is not None
    assert found.difference.startswith(b"--- train.py\n")


def test_a_file_that_was_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    place = place_in(tmp_path / "train.py", LOADER)
    (tmp_path / "train.py").write_text(f"\n{LOADER}")

    assert change(tmp_path, place).reason == "train.py:1: the file is not what it was when it ran"
    (tmp_path / "train.py").unlink()
    assert str(change(tmp_path, place).reason).startswith("train.py:1: the file cannot be read")


def test_without_a_call_or_an_argument_it_is_said_why(tmp_path: Path) -> None:
    elsewhere = place_in(tmp_path / "train.py", "fit()\n")

    assert change(tmp_path).reason == NOT_SEEN
    assert change(tmp_path, elsewhere).reason == "train.py:1, where the loader is made, calls no DataLoader by its name"
    assert find_change("stub=a:f", None, (elsewhere,), tmp_path).reason == NO_ARGUMENT.format(lever="stub=a:f")
    assert str(change(tmp_path, of_settings(tmp_path / "a.py"), in_order=False).reason).endswith("has no argument for in_order")


def test_without_workers_nothing_that_needs_some_may_be_written_there(tmp_path: Path) -> None:
    place = place_in(tmp_path / "train.py", "DataLoader(data, num_workers=2, persistent_workers=True)\n")
    plain = place_in(tmp_path / "plain.py", "DataLoader(data, num_workers=2)\n")

    assert str(change(tmp_path, place, num_workers=0).reason).endswith("must not be given persistent_workers")
    assert change(tmp_path, plain, num_workers=0).text == "DataLoader(..., num_workers=0)"


@pytest.mark.parametrize("is_copied", [True, False])
def test_a_place_in_a_copy_of_the_folder_is_one_in_the_folder_itself(tmp_path: Path, is_copied: bool) -> None:
    place = place_in(tmp_path / "train.py", LOADER)
    fields = {name: getattr(place, name) for name in place.__slots__}
    note = {"kind": "made", "calls": [fields | {"file": f"/scratch/copy{tmp_path}/train.py"}, {"file": 3}]}
    facts: dict[str, Any] = {"workers=2": {"arguments": {"num_workers": 2}}, "stub=a:f": {}}

    found = find_changes(facts, [note], tmp_path, is_copied=is_copied)

    assert (found["workers=2"].difference is not None) == is_copied
    assert found["stub=a:f"].difference is None
