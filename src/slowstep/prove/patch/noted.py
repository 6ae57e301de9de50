"""What a training noted of its calls and levers, as the changes that they would be in the script. No change is written anywhere here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from slowstep.prove.patch.call_place import CallPlace, read_call_place
from slowstep.prove.patch.change import LOADER, OPTIMIZER, TRAINER, ScriptChange, find_change

Note = Mapping[str, Any]

# Where a note has the calls that have made each.
_NOTED: Final = {LOADER: "calls", OPTIMIZER: OPTIMIZER, TRAINER: TRAINER}


def find_changes(
    facts: Mapping[str, Mapping[str, Any]], made: Iterable[Note], working_folder: Path, *, is_copied: bool
) -> dict[str, ScriptChange]:
    """The change of each lever, by its name: `facts` are what the levers told last, `made` the notes of which calls made what.

    `is_copied`: the training ran in a copy of the working folder.
    """
    last = list(made)[-1:]

    def change(lever: str, told: Mapping[str, Any]) -> ScriptChange:
        what = told.get("arguments_of", LOADER)
        noted = [fields for note in last for fields in note.get(_NOTED.get(what, ""), ())]
        places = [place for fields in noted if (place := read_call_place(fields)) is not None]
        if is_copied:
            places = [_outside(place, working_folder) for place in places]
        return find_change(lever, told.get("arguments"), places, working_folder, made=what)

    return {lever: change(lever, told) for lever, told in facts.items()}


def _outside(place: CallPlace, working_folder: Path) -> CallPlace:
    """A place in the copy, which lies in folders of the same names, as one in the folder itself."""
    at = place.file.find(f"{working_folder}/", 1)
    return place if at < 0 else replace(place, file=place.file[at:])
