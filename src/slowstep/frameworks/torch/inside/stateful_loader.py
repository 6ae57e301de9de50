"""torchdata's `StatefulDataLoader`: a copy of torch's loader with all of its own but requests, which are torch's."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside.dataloader import noted_constructor, timed_end, timed_start
from slowstep.frameworks.torch.inside.switch import noted_build, noted_start
from slowstep.frameworks.torch.inside.worker import recorded_loop
from slowstep.frameworks.torch.inside.worker_levers import following_loop
from slowstep.record.experiment.switch import Switch
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, Unfit, all_of, find, replace

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_LOADER: Final = "torchdata.stateful_dataloader.stateful_dataloader"
_WORKER: Final = "torchdata.stateful_dataloader.worker"


def install(recorder: Recorder) -> Undo:
    """Replace all three. Raises Unfit where one is not there, or gets other parameters than known."""
    loader, worker = sys.modules[_LOADER], sys.modules.get(_WORKER)
    if worker is None:
        raise Unfit(f"{_WORKER} is not imported with it")
    loader_class, iterator_class = find(loader, "StatefulDataLoader"), find(loader, "_StatefulMultiProcessingDataLoaderIter")
    end = find(iterator_class, "_shutdown_workers")
    start = timed_start(recorder, find(loader_class, "__iter__"))
    make = noted_constructor(recorder, find(loader_class, "__init__"))
    if recorder.experiment or recorder.levers:
        switch = recorder.shared(Switch)
        start, make = noted_start(recorder, switch, start), noted_build(recorder, switch, make)
    loop = _loop(recorder, find(worker, "_worker_loop"))
    find(loader, "_worker_loop")
    return all_of(
        [
            # Started by the name in one, and found by a spawned worker under that in the other.
            replace(worker, "_worker_loop", loop),
            replace(loader, "_worker_loop", loop),
            replace(loader_class, "__iter__", start),
            replace(loader_class, "__init__", make),
            replace(iterator_class, "_shutdown_workers", timed_end(recorder, end)),
        ]
    )


def _loop(recorder: Recorder, original: Any) -> Any:
    recorded = recorded_loop(recorder, original)
    return following_loop(recorder, recorded) if recorder.experiment or recorder.levers else recorded


HOOK = Hook(name="torchdata_stateful_loader", module=_LOADER, install=install)
