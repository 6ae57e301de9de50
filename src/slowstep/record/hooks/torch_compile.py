"""What torch.compile takes while the training runs: at its first call, and again for other shapes. It tells of each compilation itself."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from slowstep.record.hook import Hook, Undo, Unfit, find
from slowstep.record.named_spans import Label, NamedSpans
from slowstep.record.recorder import now
from slowstep.stages import COMPILING

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "torch._dynamo.callback"


def install(recorder: Recorder) -> Undo:
    """Have it told. Raises Unfit where this version of torch does not tell."""
    handler = find(sys.modules[_MODULE], "callback_handler")
    starts, ends = find(handler, "start_callbacks"), find(handler, "end_callbacks")
    if not isinstance(starts, list) or not isinstance(ends, list):
        raise Unfit("torch._dynamo keeps no list of callbacks")
    spans, label = NamedSpans(recorder), Label(COMPILING, stage="compute")
    begun_ns = [0]

    def begins(_: Any) -> None:
        begun_ns[0] = now()

    def ends_now(_: Any) -> None:
        # A process in which nothing trains gets no files because it compiles.
        if begun_ns[0] and recorder.page.recording and recorder.watched:
            spans.write(label, begun_ns[0])
        begun_ns[0] = 0

    starts.append(begins)
    ends.append(ends_now)

    def undo() -> None:
        # The script may have cleared the lists.
        with suppress(ValueError):
            starts.remove(begins)
        with suppress(ValueError):
            ends.remove(ends_now)

    return undo


HOOK = Hook(name="torch_compile", module=_MODULE, install=install)
