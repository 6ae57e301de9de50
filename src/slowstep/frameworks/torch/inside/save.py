"""Checkpoint writes: `torch.save`, `torch.jit.save`, `torch.distributed.checkpoint.save` and safetensors' `save_file` and `save`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

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


def install_scripted(recorder: Recorder) -> Undo:
    """The same of what writes a compiled model."""
    jit, module = sys.modules["torch.jit"], sys.modules.get("torch.jit._serialization")
    save = timed_save(recorder, find(jit, "save"), "torch.jit.save", position=1, keyword="f")
    return all_of([replace(owner, "save", save) for owner in (jit, module) if hasattr(owner, "save")])


def install_distributed(recorder: Recorder) -> Undo:
    """The same of what writes the parts of all ranks."""
    checkpoint, module = sys.modules["torch.distributed.checkpoint"], sys.modules.get("torch.distributed.checkpoint.state_dict_saver")
    save = timed_save(recorder, find(checkpoint, "save"), "torch.distributed.checkpoint.save", position=1, keyword="checkpoint_id")
    return all_of([replace(owner, "save", save) for owner in (checkpoint, module) if hasattr(owner, "save")])


def install_safetensors(recorder: Recorder) -> Undo:
    """Replace what writes a file and what makes its bytes. Raises Unfit where safetensors has no `save_file`."""
    module: Any = sys.modules["safetensors.torch"]
    save_file = timed_save(recorder, find(module, "save_file"), "safetensors.torch.save_file", position=1, keyword="filename")
    undos = [replace(module, "save_file", save_file)]
    if hasattr(module, "save"):
        undos.append(replace(module, "save", timed_save(recorder, module.save, "safetensors.torch.save", position=1000, keyword="")))
    return all_of(undos)


HOOKS = (
    Hook(name="torch_save", module="torch", install=install),
    Hook(name="torch_jit_save", module="torch", install=install_scripted),
    Hook(name="torch_checkpoint_save", module="torch.distributed.checkpoint", install=install_distributed),
    Hook(name="safetensors_save", module="safetensors.torch", install=install_safetensors),
)
