"""Who is told of what happens in this process: hooks append a function to one of these lists of the recorder."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from slowstep.record.patch import Undo
from slowstep.record.timing.stacks import DeviceProbe


class Listeners:
    """What hooks have called, each a list of functions; the recorder is one, so that a hook asks nothing else for its list."""

    def __init__(self) -> None:
        self.undos: list[Undo] = []
        # What no other thread than the one that updates may undo.
        self.optimizer_undos: list[Undo] = []
        # Done twice a second, on the sampler's thread.
        self.chores: list[Callable[[], None]] = []
        # Asked with every stack whether the device of a framework has nothing to do (timing/stacks.py).
        self.device_probes: list[DeviceProbe] = []
        # Called on the thread that waits: before each request for input that takes time, and after each request, failed ones too.
        self.before_waits: list[Callable[[], None]] = []
        self.after_waits: list[Callable[[], None]] = []
        # Called on the thread that calls a model, where such calls are recorded, or has gradients computed.
        self.before_forwards: list[Callable[[], None]] = []
        self.before_backwards: list[Callable[[], None]] = []
        # Called in a forked child, which records anew.
        self.forgetters: list[Callable[[], None]] = []
        # What ends the timing of calls that is on, see Recorder.stop_timing_calls.
        self.call_timers: list[Callable[[], None]] = []
        # Called, once, when a thread updates and does not ask a loader for one batch each time.
        self.when_forwards_tell: Callable[[], None] | None = None
        # Called after each update that a script without an optimizer makes, with what stands for one; emptied at the first optimizer.
        self.by_hand: list[Callable[[Any], None]] = []
        # Called when the first optimizer of this process is met.
        self.when_training: list[Callable[[], None]] = []
