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


OPTIMIZER = "optimizer = AdamW(model.parameters(), lr=1e-3)\n"


def of_optimizer(file: Path, text: str = OPTIMIZER) -> CallPlace:
    names = ("AdamW", "Adam", "Optimizer")
    return place_in(file, text, made="optimizer", names=names, takes=("params", "lr", "foreach", "fused"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (OPTIMIZER, None),
        (OPTIMIZER.replace(")\n", ", fused=False)\n"), None),
        (OPTIMIZER.replace(")\n", ", foreach=None)\n"), None),
        (OPTIMIZER.replace(")\n", ", foreach=True)\n"), "with fused=True the call must not be given foreach"),
        (OPTIMIZER.replace(")\n", ", **more)\n"), "the call is given ** of something, which may hold fused"),
        (OPTIMIZER.replace(")\n", ", fused=True)\n"), "the call is given that already"),
    ],
)
def test_an_optimizer_is_fused_in_the_call_that_makes_it(tmp_path: Path, text: str, reason: str | None) -> None:
    found = find_change("fused", {"fused": True}, [of_optimizer(tmp_path / "train.py", text)], tmp_path, made="optimizer")

    assert found.reason == (None if reason is None else f"train.py:1: {reason}")
    assert (found.text, found.made) == ((None, "") if reason else ("torch.optim.AdamW(..., fused=True)", "optimizer"))
    assert (b"lr=1e-3, fused=True)\n" in (found.difference or b"")) == (text in (OPTIMIZER, OPTIMIZER.replace(")\n", ", fused=False)\n")))
    assert (tmp_path / "train.py").read_text() == text


def of_trainer(file: Path, text: str) -> CallPlace:
    takes = ("max_epochs", "callbacks", "val_check_interval", "check_val_every_n_epoch", "enable_progress_bar")
    return place_in(file, text, made="trainer", framework="lightning", names=("Trainer",), takes=takes)


def test_what_is_a_trainers_own_is_an_argument_of_it(tmp_path: Path) -> None:
    place, barred = (of_trainer(tmp_path / f"{name}.py", f"Trainer({name}=[])\n") for name in ("max_epochs", "callbacks"))
    wanted: dict[str, Any] = {"val_check_interval": 40, "check_val_every_n_epoch": None}
    bar = {"enable_progress_bar": False}

    found = find_change("validation-off:every=2", wanted, [place], tmp_path, made="trainer")
    assert found.text == "Trainer(val_check_interval=40, check_val_every_n_epoch=None)"
    assert b"+Trainer(max_epochs=[], val_check_interval=40, check_val_every_n_epoch=None)\n" in (found.difference or b"")
    assert find_change("callbacks-off=TQDMProgressBar", bar, [place], tmp_path, made="trainer").text == "Trainer(enable_progress_bar=False)"
    assert str(find_change("callbacks-off=TQDMProgressBar", bar, [barred], tmp_path, made="trainer").reason).startswith("callbacks.py:1: ")


def test_of_calls_that_each_make_something_a_lever_has_those_that_make_what_it_changes(tmp_path: Path) -> None:
    def fields(place: CallPlace) -> dict[str, Any]:
        return {name: getattr(place, name) for name in place.__slots__}

    optimizer = fields(of_optimizer(tmp_path / "train.py"))
    facts: dict[str, Any] = {
        "fused": {"arguments": {"fused": True}, "arguments_of": "optimizer"},
        "workers=2": {"arguments": {"num_workers": 2}},
    }

    found = find_changes(facts, [{"kind": "made", "calls": [], "optimizer": [optimizer]}], tmp_path, is_copied=False)
    assert (found["fused"].reason, found["workers=2"].reason) == (None, NOT_SEEN)
    gone = find_changes(facts, [{"kind": "made", "calls": [], "optimizer": []}], tmp_path, is_copied=False)
    assert gone["fused"].reason == "which one call of the script makes the optimizer was not seen"
