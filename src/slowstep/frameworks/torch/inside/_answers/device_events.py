"""Whether a CUDA device has done what it was given: an event behind each update and each request for input, asked after with every stack.

The thread that trains records the event, on the stream that it works on, where it has given the device all that it had. The event is asked
after by the stack sampler's thread, through the driver. Between the receipt of a batch and the update the device is being given work, and
nobody asks. Work that callbacks and metrics give it after the update is their own: it is not waited for. Other streams are not seen.
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


class DeviceEvents:
    """Records the event, and asks after it. What fails costs the answer, and is never raised into the training."""

    def __init__(self, recorder: Recorder, torch: Any, load: Any = CudaEvents) -> None:
        self._recorder, self._torch, self._load = recorder, torch, load
        self._driver: CudaEvents | None = None
        self._devices: weakref.WeakKeyDictionary[Any, int | None] = weakref.WeakKeyDictionary()
        self._is_over = False
        self._count = 0
        self.forget()

    def forget(self) -> None:
        """In a forked child, which cannot use the device, and at the end."""
        self._events: dict[int, Any] = {}
        self._event: Any = None
        # Of the last update: who made it, and where.
        self._thread: int | None = None
        self._device: int | None = None

    def updated(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An update was issued."""
        # Whoever compiles updates would have the event in the graph.
        if self._is_over or self._torch.compiler.is_compiling():
            return
        try:
            self._device = self._device_of(optimizer)
            self._thread = threading.get_ident()
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
        """From now on the device is given work."""
        if self._thread == threading.get_ident():
            self._event = None

    def is_idle(self, code: CodeType, at: int) -> bool | None:
        """Whether the device has done all; None where that is not known."""
        event, driver = self._event, self._driver
        return None if event is None or driver is None else driver.has_ended(event.cuda_event)

    def _device_of(self, optimizer: Any) -> int | None:
        """The one device that has all parameters of an optimizer; None where there is no such, or it is none of CUDA's."""
        if optimizer not in self._devices:
            devices = {parameter.device for group in optimizer.param_groups for parameter in group["params"]}
            device = devices.pop() if len(devices) == 1 else None
            self._devices[optimizer] = device.index if device is not None and device.type == "cuda" else None
        return self._devices[optimizer]

    def _record(self) -> None:
        self._event = None
        if self._device is None or not self._recorder.live[0]:
            return
        if self._driver is None:
            self._driver = self._load()
        self._count += 1
        is_timed = not self._count % _EVENTS_PER_TIMED
        began_ns = time.thread_time_ns() if is_timed else 0
        cuda = self._torch.cuda
        # Events belong to the current device, and what is captured would replay them.
        if cuda.current_device() == self._device and not cuda.is_current_stream_capturing():
            event = self._events.get(self._device) or self._events.setdefault(self._device, cuda.Event())
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
