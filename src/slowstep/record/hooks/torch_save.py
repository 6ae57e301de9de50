"""Checkpoint writes: `torch.save`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slowstep.record.hook import Hook, Undo, all_of, find, replace
from slowstep.record.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace it under both of its names, by the same function: it stays picklable. Raises Unfit where torch has no `save`."""
    torch, module = sys.modules["torch"], sys.modules["torch.serialization"]
    save = timed_save(recorder, find(torch, "save"), "torch.save", position=1, keyword="f")
    return all_of([replace(torch, "save", save), replace(module, "save", save)])


HOOK = Hook(name="torch_save", module="torch", install=install)
