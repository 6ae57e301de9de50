"""Several ranks: which one this process is, the collectives that its script calls, and what backward costs its thread."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.torch.inside._collectives import timed_backward, timed_collective
from slowstep.frameworks.torch.inside._gradient_sync import SharedModels
from slowstep.record.hook import Hook, reporting_new
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.timing.tracebacks import hide_own_frames

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Public functions that wait for other ranks, and the two by which sharded training has called them before they were public.
COLLECTIVES: Final = (
    *("all_reduce", "all_reduce_coalesced", "reduce", "broadcast", "broadcast_object_list", "barrier", "monitored_barrier"),
    *("all_gather", "all_gather_into_tensor", "all_gather_single", "all_gather_object", "all_gather_coalesced", "_all_gather_base"),
    *("reduce_scatter", "reduce_scatter_tensor", "reduce_scatter_single", "_reduce_scatter_base", "gather", "gather_object", "scatter"),
    *("scatter_object_list", "all_to_all", "all_to_all_single", "send", "recv"),
)
WAITING: Final = "wait for a collective"
BUFFERS: Final = "broadcast of buffers"


class Membership:
    """Looks at torch's default process group, and notes it when it is another than before.

    `on_several` is called once, when this process turns out to be one of several.
    """

    def __init__(self, recorder: Recorder, module: Any, *, on_several: Callable[[], None]) -> None:
        self._recorder, self._module, self._on_several = recorder, module, on_several
        self._noted: tuple[int, int] | None = None
        self._is_watched = False

    def look(self) -> None:
        """Ask, and note what is new. Never raises."""
        recorder = self._recorder
        try:
            if recorder.live[0] and self._module.is_initialized():
                self._note(int(self._module.get_rank()), int(self._module.get_world_size()))
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    def _note(self, rank: int, world_size: int) -> None:
        if self._noted == (rank, world_size) or world_size < 2:
            return
        self._noted = (rank, world_size)
        backend = str(self._module.get_backend())
        self._recorder.introduce({"kind": "rank", "rank": rank, "world_size": world_size, "backend": backend})
        # A rank that never trains is to be seen as well.
        self._recorder.ensure_open()
        if not self._is_watched:
            self._is_watched = True
            self._on_several()


def install(recorder: Recorder) -> Undo:
    """Replace all that this torch has of them; nothing where it was built without torch.distributed.

    Raises Unfit where it has no init_process_group.
    """
    module = sys.modules.get("torch.distributed.distributed_c10d")
    if module is None:
        return all_of([])
    package = sys.modules["torch.distributed"]
    undos = _replace_both(module, package, "init_process_group", _noticed(recorder, module, find(module, "init_process_group")))
    for name in COLLECTIVES:
        original = vars(module).get(name)
        if original is not None:
            timed = timed_collective(recorder, original, name)
            undos += [*_replace_both(module, package, name, timed), _keep_traceable(original, timed)]
    work: Any = getattr(module, "Work", None)
    if hasattr(work, "wait"):
        undos.append(replace(work, "wait", timed_collective(recorder, work.wait, WAITING)))
    parallel: Any = getattr(sys.modules.get("torch.nn.parallel.distributed"), "DistributedDataParallel", None)
    if hasattr(parallel, "_sync_buffers"):
        undos.append(replace(parallel, "_sync_buffers", timed_collective(recorder, parallel._sync_buffers, BUFFERS)))
    if parallel is not None:
        undos.append(replace(parallel, "__init__", reporting_new(recorder, parallel.__init__, recorder.shared(SharedModels).add)))
    return all_of(undos)


def _replace_both(module: Any, package: Any, name: str, new: Any) -> list[Undo]:
    """Under both of its names, where the package shows the module's."""
    places = [module] if vars(package).get(name) is not vars(module)[name] else [module, package]
    return [replace(place, name, new) for place in places]


def _keep_traceable(original: Any, ours: Any) -> Undo:
    """torch.compile puts traceable functions in the place of some collectives, which it knows by a table of function objects.

    The table is made when it is first needed, of what stands in the module then: of ours, it may be.
    """
    table = _traceable()
    if original in table:
        table[ours] = table[original]

    def undo() -> None:
        table = _traceable()
        if ours in table:
            table.setdefault(original, table.pop(ours))

    return undo


def _traceable() -> dict[Any, Any]:
    table = getattr(sys.modules.get("torch.distributed._functional_collectives"), "traceable_collective_remaps", None)
    return table if isinstance(table, dict) else {}


def _noticed(recorder: Recorder, module: Any, original: Any) -> Any:
    """`init_process_group`, after which this process may be one of several."""
    membership = Membership(recorder, module, on_several=lambda: _watch_backward(recorder, module))
    # A group may be made before this hook, or by functions that have the original under a name of their own.
    recorder.when_training.append(membership.look)

    @functools.wraps(original)
    def init_process_group(*args: Any, **kwargs: Any) -> Any:
        # Before, not only when something is raised: torch now puts a way of printing of its own around the present one.
        hide_own_frames()
        result = original(*args, **kwargs)
        membership.look()
        return result

    return init_process_group


def _watch_backward(recorder: Recorder, module: Any) -> None:
    autograd = sys.modules["torch.autograd"]
    recorder.undos.append(replace(autograd, "backward", timed_backward(recorder, autograd.backward, module.is_initialized)))


HOOK = Hook(name="torch_distributed", module="torch", install=install)
