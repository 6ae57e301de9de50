"""What is not tried, since it would harm the machine or run the script a second time: too many workers, or ones that are not forked."""

from __future__ import annotations

from typing import Any, Final

from slowstep.levers._rebuilt import MOST_ROOM, _start_method
from slowstep.levers._room import memory_free_bytes, own_bytes, shared_free_bytes
from slowstep.units import MIB

_USUAL_PREFETCH: Final = 2


def why_not(loader: Any, workers: int, iterator: Any, batch_bytes: int | None) -> str | None:
    """Why the loader is not tried with so many workers; None where it is. `iterator` is the training's own, None where there is none."""
    if not workers:
        return None
    if loader.num_workers == 0 and (method := _start_method()) != "fork":
        return f"workers would be started by {method!r}, which runs the script anew where it does not expect it"
    shared = (batch_bytes or 0) * workers * (loader.prefetch_factor or _USUAL_PREFETCH)
    shared_free = shared_free_bytes()
    if shared_free is not None and shared > MOST_ROOM * shared_free:
        return f"its batches need {shared / MIB:.0f} MiB of shared memory, and {shared_free / MIB:.0f} MiB are free"
    pids = [worker.pid for worker in getattr(iterator, "_workers", ())]
    wanted, free = workers * max((own_bytes(pid) or 0 for pid in pids), default=0), memory_free_bytes()
    if free is not None and wanted > MOST_ROOM * free:
        return f"{workers} workers need {wanted / MIB:.0f} MiB of memory, and {free / MIB:.0f} MiB are free"
    return None
