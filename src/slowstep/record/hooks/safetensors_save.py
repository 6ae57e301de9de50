"""Checkpoint writes: `safetensors.torch.save_file`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slowstep.record.hook import Hook, Undo, find, replace
from slowstep.record.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where safetensors has no `save_file`."""
    module = sys.modules["safetensors.torch"]
    save = timed_save(recorder, find(module, "save_file"), "safetensors.torch.save_file", position=1, keyword="filename")
    return replace(module, "save_file", save)


HOOK = Hook(name="safetensors_save", module="safetensors.torch", install=install)
