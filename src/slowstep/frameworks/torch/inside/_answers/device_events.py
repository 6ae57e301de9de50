"""Whether a CUDA device has done what it was given: an event behind each update and each request for input, asked after with every stack.

The thread that trains records the event, on the stream that it works on, where it has given the device all that it had. The event is asked
after by the stack sampler's thread, through the driver. Between the receipt of a batch, or the call of a model, and the update the device
is being given work, and nobody asks. An update behind which a backward pass or the next update came first, before either was told, has no
event: nobody knows when the device is given work again.

Work that callbacks and metrics give it after the update is their own: it is not waited for. Nor is that of models which are called before
the loader is asked, where calls are not recorded. Other streams are not seen.
"""

from __future__ import annotations

import threading
import time
import weakref
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.device.cuda import CudaEvents, CudaMissing

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# One in so many events is timed.
_EVENTS_PER_TIMED: Final = 64


class _Updating:
    """What is known of an optimizer: the one device that has all its parameters (None: there is no such, or it is none of CUDA's), and
    whether it was told, behind its last update, that the device was to be given work again.
    """

    __slots__ = ("device", "is_told")

    def __init__(self, device: int | None) -> None:
        self.device, self.is_told = device, False


class DeviceEvents:
    """Records the event, and asks after it. What fails costs the answer, and is never raised into the training."""

    def __init__(self, recorder: Recorder, torch: Any, load: Any = CudaEvents) -> None:
        self._recorder, self._torch, self._load = recorder, torch, load
        self._driver: CudaEvents | None = None
        self._known: weakref.WeakKeyDictionary[Any, _Updating] = weakref.WeakKeyDictionary()
        self._is_over = False
        self._count = 0
        self.forget()

    def forget(self) -> None:
        """In a forked child, which cannot use the device, and at the end."""
        self._events: dict[int, Any] = {}
        self._event: Any = None
        # Of the last update: the thread that made it, by which optimizer, and whether nothing was told of since.
        self._thread: int | None = None
        self._last: _Updating | None = None
        self._is_first = False

    def updated(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An update was issued."""
        # Whoever compiles updates would have the event in the graph.
        if self._is_over or self._torch.compiler.is_compiling():
            return
        try:
            self._given_work(is_told=False)
            self._last = self._known.get(optimizer) or self._meet(optimizer)
            self._thread, self._is_first = threading.get_ident(), True
            if self._last.is_told:
                self._record()
        except Exception as error:  # the border: counted, and never raised into the training
            self._give_up(error)

    def requested(self) -> None:
        """Input is asked for: what was issued so far is all, for now."""
        if self._thread != threading.get_ident() or self._is_over:
            return
        try:
            self._record()
        except Exception as error:  # the border: counted, and never raised into the training
            self._give_up(error)

    def received(self) -> None:
        """Input was received, or a model is called: from now on the device is given work."""
        if self._thread == threading.get_ident():
            self._given_work(is_told=True)

    def is_passed_back(self) -> None:
        """A backward pass begins: the device has been given work before."""
        if self._thread == threading.get_ident():
            self._given_work(is_told=False)

    def is_idle(self, code: CodeType, at: int) -> bool | None:
        """Whether the device has done all; None where that is not known."""
        event, driver = self._event, self._driver
        return None if event is None or driver is None else driver.has_ended(event.cuda_event)

    def _given_work(self, *, is_told: bool) -> None:
        self._event = None
        if self._is_first and self._last is not None:
            self._last.is_told = is_told
        self._is_first = False

    def _meet(self, optimizer: Any) -> _Updating:
        devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"]}
        device = devices.pop() if len(devices) == 1 else None
        known = self._known[optimizer] = _Updating(device.index if device is not None and device.type == "cuda" else None)
        return known

    def _record(self) -> None:
        self._event = None
        device = None if self._last is None else self._last.device
        if device is None or not self._recorder.live[0]:
            return
        if self._driver is None:
            self._driver = self._load()
        self._count += 1
        is_timed = not self._count % _EVENTS_PER_TIMED
        began_ns = time.thread_time_ns() if is_timed else 0
        cuda = self._torch.cuda
        # Events belong to the current device, and what is captured would replay them.
        if cuda.current_device() == device and not cuda.is_current_stream_capturing():
            event = self._events.get(device) or self._events.setdefault(device, cuda.Event())
            event.record()
            self._event = event
        if is_timed:
            self._recorder.spent_ns += _EVENTS_PER_TIMED * (time.thread_time_ns() - began_ns)

    def _give_up(self, error: Exception) -> None:
        self._is_over = True
        self.forget()
        if isinstance(error, CudaMissing):
            self._recorder.introduce({"kind": "hook", "name": "torch_update_events", "state": "off", "reason": str(error)})
        else:
            self._recorder.fault(error)
