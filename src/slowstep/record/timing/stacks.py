"""The stack sampler: up to twenty times a second, where the training thread stands."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any, Final

from slowstep.record.timing.frame_lines import line_of
from slowstep.record.timing.gradient_names import names_gradients
from slowstep.record.timing.other_threads import CoreUse, look_at
from slowstep.record.timing.running_calls import LineCall, LineCalls
from slowstep.record.timing.thread_watch import hands_over
from slowstep.record.timing.tracebacks import PACKAGE
from slowstep.record.writing.fastpath import WriteRecord
from slowstep.record.writing.format import BLOCKED, DEVICE_BUSY, DEVICE_IDLE, STACK

PERIOD_NS: Final = 50_000_000
# The thread may use a five-hundredth of a core, beyond what meeting each function for the first time takes; where a stack costs more than
# 100 us, they become rarer. (Measured on two cores of a shared machine: 140 us, 60 of them for waking.)
_ELAPSED_PER_COST: Final = 500
_FIRST_COST_NS: Final = 2_000_000
# The usual cost of a round follows the last ones by this share.
_SMOOTHING: Final = 0.1
# Whoever ends the thread waits for it a fifth of a second.
_LONGEST_PAUSE_NS: Final = 130_000_000
# A stack that is taken so much after its time is where the GIL was free, not where the time went.
LATE_NS: Final = 25_000_000
# Whether a thread computes is asked in one round of so many: it takes 40 to 80 us, half of what a stack costs.
_ROUNDS_PER_LOOK: Final = 4
CHORES_PERIOD_NS: Final = 500_000_000
LARGEST_DEPTH: Final = 128
MOST_STACKS: Final = 50_000

WriteNote = Callable[[dict[str, Any]], None]
# Code, instruction and line; the line is 0 where it is known already.
FramePlace = tuple[CodeType, int, int]
# Whether the device has nothing to do just now, by where in its code the thread stands that gives it work; None where that is not known.
DeviceProbe = Callable[[CodeType, int], bool | None]
# A stack of the time before the first event: when it was taken, the time it stands for, and where the thread stood, the leaf first.
Early = tuple[int, int, list[FramePlace]]


class StackTable:
    """Numbers for stacks and frames; each is written down once. Keeps code objects alive, never frames or what they hold."""

    def __init__(self, note: WriteNote) -> None:
        self._note = note
        self._frames: dict[tuple[int, int], int] = {}
        self._lines: dict[tuple[int, int, LineCall | None], int] = {}
        self._calls = LineCalls()
        self._stacks: dict[tuple[int, ...], int] = {}
        self._codes: dict[int, CodeType] = {}

    @property
    def met(self) -> int:
        """Places in code that were met so far. One that is new costs its description, once."""
        return len(self._frames)

    def stack_id(self, places: list[FramePlace]) -> int | None:
        """The number of the stack that stands at these places, the leaf first; None for an empty one, or when too many different ones were
        seen.
        """
        known, found = self._frames, []
        for code, at, line in places:
            number = known.get((id(code), at))
            if number is None:
                number = self._new_frame(code, at, line)
            # Frames of slowstep itself have the number 0.
            if number:
                found.append(number)
        if not found:
            return None
        found.reverse()
        key = tuple(found)
        number = self._stacks.get(key)
        return self._new_stack(key) if number is None else number

    def places(self, frame: FrameType | None) -> list[FramePlace]:
        """Those of a frame and of the ones that called it."""
        known = self._frames
        places: list[FramePlace] = []
        while frame is not None and len(places) < LARGEST_DEPTH:
            code, at = frame.f_code, frame.f_lasti
            # By instruction, not by line: a line's number is slow to ask for.
            places.append((code, at, 0 if (id(code), at) in known else line_of(frame)))
            frame = frame.f_back
        return places

    def _new_stack(self, key: tuple[int, ...]) -> int | None:
        if len(self._stacks) >= MOST_STACKS:
            return None
        number = self._stacks[key] = len(self._stacks) + 1
        self._note({"kind": "stack", "id": number, "frames": list(key)})
        return number

    def _new_frame(self, code: CodeType, at: int, line: int) -> int:
        # Held, so that its id() stays its own.
        self._codes[id(code)] = code
        number = 0
        if not code.co_filename.startswith(PACKAGE):
            call = self._calls.at(code, at)
            number = self._lines.get((id(code), line, call), 0)
            if not number:
                number = self._lines[id(code), line, call] = len(self._lines) + 1
                self._note(frame_note(number, code, line, call))
        self._frames[id(code), at] = number
        return number


def frame_note(number: int, code: CodeType, line: int, call: LineCall | None = None) -> dict[str, Any]:
    """The line that describes a frame, in that call of its line where it is known in which."""
    place = {"file": code.co_filename, "line": line, "function": code.co_qualname, "first_line": code.co_firstlineno}
    told = {"gradients": names_gradients(code), "hands_over": hands_over(code)}
    running = {} if call is None else call.note()
    return {"kind": "frame", "id": number, **place, **running, **{name: True for name, is_so in told.items() if is_so}}


class Sampler:
    """A daemon thread that takes stacks of the watched threads and calls `chores` now and then.

    `watched` maps threading idents to native ids; `before` has stacks of a thread (native id) that were taken before anything was recorded.
    Chores are done twice a second, and `probes` of the device are asked with every stack. `cpu_ns` is all that the thread has used,
    `once_ns` what of it is not spent again, however long the training runs: on code that was met for the first time.
    """

    def __init__(
        self,
        *,
        event: WriteRecord,
        note: WriteNote,
        watched: dict[int, int],
        chores: Callable[[], None],
        fault: Callable[[Exception], None],
        takes_stacks: bool,
        probes: list[DeviceProbe] | None = None,
        before: tuple[int, list[Early]] | None = None,
    ) -> None:
        self._event, self._watched, self._chores, self._fault = event, watched, chores, fault
        self._table = StackTable(note)
        self._takes_stacks = takes_stacks
        self._probes: list[DeviceProbe] = [] if probes is None else probes
        self._before = before
        self._last_ns: dict[int, int] = {}
        self._core_use: dict[int, CoreUse] = {}
        self._rounds = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.cpu_ns = self.once_ns = self.late = 0
        self._usual_ns = 0.0

    def start(self) -> None:
        """Start the thread. Raises RuntimeError where the system refuses one."""
        self._thread = threading.Thread(target=self._run, name="slowstep-stacks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the thread; waits for it for at most a fifth of a second, and not when called by the thread itself."""
        self._ended.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(0.2)

    def take(self, planned_ns: int) -> None:
        """One round: a stack of every watched thread that still runs."""
        at_ns = time.monotonic_ns()
        # A copy first: threads come in while a list of pairs is made, see ThreadWatch.
        watched = list(self._watched.copy().items())
        self._rounds += 1
        looks = self._rounds % _ROUNDS_PER_LOOK == 1
        stacks = look_at([ident for ident, _ in watched], self._table.places)
        for ident, thread in watched:
            places = stacks.get(ident)
            if places is None:
                # A thread that has ended, or an interactive session that waits at its prompt: that time belongs to no stack.
                self._last_ns.pop(thread, None)
                self._core_use.pop(thread, None)
                if ident != threading.main_thread().ident:
                    self._watched.pop(ident, None)
                continue
            number = self._table.stack_id(places)
            weight_ns = at_ns - self._last_ns.get(thread, at_ns)
            self._last_ns[thread] = at_ns
            if number is not None and weight_ns > 0:
                self.late += at_ns - planned_ns > LATE_NS
                flags = (BLOCKED if looks and self._is_blocked(thread) else 0) | self._device(places)
                self._event(STACK, at_ns, at_ns, number, weight_ns, max(at_ns - planned_ns, 0), thread=thread, flags=flags)

    def _device(self, places: list[FramePlace]) -> int:
        code, at, _ = places[0]
        try:
            told = next((idle for probe in self._probes if (idle := probe(code, at)) is not None), None)
        except Exception as error:  # what was asked is gone: the stacks of this round are taken all the same
            self._fault(error)
            told = None
        return 0 if told is None else DEVICE_IDLE if told else DEVICE_BUSY

    def _is_blocked(self, thread: int) -> bool:
        if thread not in self._core_use:
            self._core_use[thread] = CoreUse(thread)
        return self._core_use[thread].now() is False

    def _run(self) -> None:
        # A signal must interrupt the training's own waiting, as it does without this thread.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        # Its own generator: the training's random numbers are its own.
        uniform = random.Random().uniform
        chores_ns = started_ns = time.monotonic_ns()
        planned_ns = started_ns + PERIOD_NS
        self._write_before()
        while not self._wait_until(planned_ns):
            met = self._table.met
            try:
                if self._takes_stacks:
                    self.take(planned_ns)
                if planned_ns >= chores_ns:
                    chores_ns = planned_ns + CHORES_PERIOD_NS
                    self._chores()
            except Exception as error:  # the sampler goes on: the fault is counted, and the training has no part in it
                self._fault(error)
            self._account(time.thread_time_ns(), new=self._table.met > met)
            pause_ns = CHORES_PERIOD_NS
            if self._takes_stacks:
                affordable_ns = started_ns + (self.cpu_ns - _FIRST_COST_NS) * _ELAPSED_PER_COST
                pause_ns = int(min(max(PERIOD_NS, affordable_ns - planned_ns), _LONGEST_PAUSE_NS) * uniform(0.9, 1.1))
            planned_ns = max(planned_ns + pause_ns, time.monotonic_ns())
        # No file of ours stays open for longer than stacks are taken.
        self._core_use.clear()

    def _write_before(self) -> None:
        """The stacks of the start-up, which were taken while nothing was recorded."""
        thread, stacks = self._before or (0, [])
        self._before = None
        try:
            for at_ns, weight_ns, places in stacks if self._takes_stacks else ():
                number = self._table.stack_id(places)
                if number is not None:
                    self._event(STACK, at_ns, at_ns, number, weight_ns, 0, thread=thread)
        except Exception as error:  # the start-up is not divided then
            self._fault(error)

    def _account(self, cpu_ns: int, *, new: bool) -> None:
        """Count a round's cost, and what it was above the usual where it met `new` code."""
        spent, self.cpu_ns = cpu_ns - self.cpu_ns, cpu_ns
        if new:
            self.once_ns += max(int(spent - self._usual_ns), 0)
        else:
            self._usual_ns += (_SMOOTHING if self._usual_ns else 1.0) * (spent - self._usual_ns)

    def _wait_until(self, planned_ns: int) -> bool:
        """Returns whether it is time to end."""
        seconds = max(planned_ns - time.monotonic_ns(), 0) / 1e9
        if not self._takes_stacks:
            return self._ended.wait(seconds)
        # Waking from a sleep costs 50 us of processor time, from a lock 70: half of what a stack costs altogether.
        time.sleep(seconds)
        return self._ended.is_set()
