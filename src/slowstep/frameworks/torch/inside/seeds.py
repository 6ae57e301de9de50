"""Runs that are repeated with other seeds: torch's seeds shifted, and the order of the data kept apart from what the model draws."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from slowstep.frameworks.torch.inside._framework import FRAMEWORK
from slowstep.frameworks.torch.inside._loader.input_stream import InputStream
from slowstep.record.experiment import seeds
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder


def install(recorder: Recorder) -> Undo:
    """Shift and separate, where the environment asks for it. Raises Unfit where torch has no loaders."""
    if seeds.offset() is None:
        return all_of([])
    module = sys.modules["torch.utils.data.dataloader"]
    iterator_class, loader_class = find(module, "_BaseDataLoaderIter"), find(module, "DataLoader")
    next_batch, start = find(iterator_class, "__next__"), find(loader_class, "__iter__")
    seeds.install_now(FRAMEWORK)
    stream = InputStream()
    seeds.when_seeded.append(stream.restart)
    return all_of(
        [
            seeds.remove,
            lambda: seeds.when_seeded.remove(stream.restart),
            replace(iterator_class, "__next__", stream.wrap(next_batch)),
            replace(loader_class, "__iter__", stream.wrap(start)),
        ]
    )


HOOK = Hook(name="torch_seeds", module="torch", install=install)
