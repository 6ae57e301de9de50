"""Checkpoint writes: `torch.save` and `safetensors.torch.save_file`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Replace it under both of its names, by the same function: it stays picklable. Raises Unfit where torch has no `save`."""
    torch, module = sys.modules["torch"], sys.modules["torch.serialization"]
    save = timed_save(recorder, find(torch, "save"), "torch.save", position=1, keyword="f")
    return all_of([replace(torch, "save", save), replace(module, "save", save)])


def install_safetensors(recorder: Recorder) -> Undo:
    """Replace it. Raises Unfit where safetensors has no `save_file`."""
    module = sys.modules["safetensors.torch"]
    save = timed_save(recorder, find(module, "save_file"), "safetensors.torch.save_file", position=1, keyword="filename")
    return replace(module, "save_file", save)


HOOKS = (
    Hook(name="torch_save", module="torch", install=install),
    Hook(name="safetensors_save", module="safetensors.torch", install=install_safetensors),
)
