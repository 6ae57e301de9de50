"""Python's garbage collector: when it stopped the thread that ran it, and who asked for it."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo
from slowstep.record.recorder import now
from slowstep.record.writing.format import COLLECTION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Writing a record takes 1 to 2 us where nothing of ours is in the caches: a fiftieth of a pause of a tenth of a millisecond. Most
# collections are of the youngest objects and shorter: they cost what two looks at the clock cost.
SHORTEST_NS: Final = 100_000
# The generation that gc.collect() walks, and Python itself only now and then.
OLDEST: Final = 2


def install(recorder: Recorder) -> Undo:
    """Have Python tell of its collections. Of all those in a process only one runs at a time."""
    begun_ns, asked, live, page = 0, False, recorder.live, recorder.page

    def tell(phase: str, info: dict[str, Any]) -> None:
        nonlocal begun_ns, asked
        try:
            if phase == "start":
                asked = info["generation"] == OLDEST and _is_asked()
                begun_ns = now()
                return
            ended_ns = now()
            # A recording that is over is left by another hook: that changes the list in which Python is reading here. And a process
            # in which nothing trains gets no files because it collects.
            if ended_ns - begun_ns < SHORTEST_NS or not begun_ns or not live[0] or not page.recording or not recorder.watched:
                return
            where = recorder.text_id(_caller()) if asked else 0
            recorder.event(COLLECTION, begun_ns, ended_ns, info["generation"], info["collected"], where, 0, int(asked))
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    gc.callbacks.append(tell)

    def undo() -> None:
        # The script may have emptied the list.
        with suppress(ValueError):
            gc.callbacks.remove(tell)

    return undo


def _is_asked() -> bool:
    """Whether a call began the collection that begins: Python does where it may, and where there are more young objects than allowed."""
    return not gc.isenabled() or gc.get_count()[0] <= gc.get_threshold()[0]


def _caller() -> str:
    """File and line of what runs while the collector does, without our own two frames."""
    frame = sys._getframe(2)
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


HOOK = Hook(name="garbage_collections", module="gc", install=install)
