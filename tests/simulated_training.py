"""One training on a host, and on a device if it has one, simulated by whole numbers: what ran when, and the account of it by the law,
instant by instant.

`program(seed)` draws one: input waits, copies, launches, a backward that another thread launches, read-backs, callbacks and writes, on one
stream or two, bound by the device or by the host; or all of it computed by the host itself. It is written out in three forms: as a
recording (`simulated_recording.py`), as a trace, and as what a host can find out by asking.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from made_traces import made_trace
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, DEVICE_COPIES, INPUT_WAIT, KERNELS, LAUNCH, MEMSETS, NOTHING_RECORDED
from slowstep.parts import BACKWARD, BODY, DEVICE_WORK, NOT_ATTRIBUTED, OPTIMIZER, Part, PartKind
from slowstep.timeline.intervals import flattened, union
from slowstep.timeline.probes import Issued, Probes
from slowstep.timeline.spine import DeviceIntervals, HostLane, KnownLanes, Labelled, Stretches
from slowstep.timeline.timeline import Timeline

LATENCY, LAUNCHING, CALL, RETURN = 6, 5, 4, 3
TRAINING, ENGINE = 0, 1
SYNCHRONIZES, AWAITS_STREAM = "cudaDeviceSynchronize", "cudaStreamSynchronize"
LOADER = "enumerate(DataLoader)#_Iter.__next__"
CALLBACK = "[Callback]Draw.on_train_batch_end"
SAVE = "save_checkpoint"
BACKWARD_RANGE, UPDATE_RANGE = "backward", "Optimizer.step#SGD.step"
HABITS = ("copy", "engine", "sync", "callback", "save", "read back", "collective", "beside", "ask")
# What the host does that has a name, in a trace, and the part that it is charged to.
NAMED = {
    LOADER: INPUT_WAIT,
    CALLBACK: Part("output", PartKind.SPAN, CALLBACK),
    SAVE: Part("store", PartKind.SPAN, SAVE),
}
# The passes of a step; what else is between the receipt of a batch and the update is the body's.
PASSES = {BACKWARD_RANGE: BACKWARD, UPDATE_RANGE: OPTIMIZER}
RAN_DRY = Part("d2h", PartKind.RUN_DRY, SYNCHRONIZES)
# Highest rank first.
DEVICE_PARTS = {
    "kernel": KERNELS,
    "d2d": DEVICE_COPIES,
    "memset": MEMSETS,
    "collective": COLLECTIVES,
    "h2d": COPIES["h2d"],
    "d2h": COPIES["d2h"],
}
Account = Counter[tuple[int, Part]]


class Named(NamedTuple):
    start: int
    end: int
    name: str


class Wait(NamedTuple):
    start: int
    end: int
    call: str


class Operator(NamedTuple):
    start: int
    end: int
    thread: int


class Work(NamedTuple):
    """A piece of device work: its call, its thread, and when it ran."""

    called: int
    returned: int
    thread: int
    start: int
    end: int
    kind: str
    stream: int


@dataclass
class Program:
    """What happened. `marks` are the host's step boundaries, `probes` what it was told: when, of which work, and whether that had ended.

    Of `named` the later are inside the earlier, or after them. Without a device the host computes itself what it would launch.
    """

    now: int = 1000
    has_device: bool = True
    named: list[Named] = field(default_factory=list)
    work: list[Work] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    passes: list[Named] = field(default_factory=list)
    operators: list[Operator] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)
    probes: list[tuple[int, int, bool]] = field(default_factory=list)
    free: dict[int, int] = field(default_factory=dict)

    def python(self, ns: int) -> None:
        self.now += ns

    def do(self, name: str, ns: int) -> None:
        self.named.append(Named(self.now, self.now + ns, name))
        self.now += ns

    @contextmanager
    def within(self, name: str) -> Iterator[None]:
        """What is done meanwhile is of a pass."""
        begun = self.now
        yield
        self.passes.append(Named(begun, self.now, name))

    def launch(self, kind: str, ns: int, stream: int = 7, thread: int = TRAINING) -> None:
        if not self.has_device:
            self.operators.append(Operator(self.now, self.now + ns, TRAINING))
            self.now += ns
            return
        begin = max(self.now + LATENCY, self.free.get(stream, 0))
        self.work.append(Work(self.now, self.now + LAUNCHING, thread, begin, begin + ns, kind, stream))
        self.free[stream] = begin + ns
        self.now += LAUNCHING

    def beside(self, name: str, kind: str, ns: int, before: int, within: int, after: int) -> None:
        """The training thread does something named, while an operator of the other thread launches work to the device."""
        begun = self.now
        self.now += before
        called = self.now
        self.now += within
        self.launch(kind, ns, thread=ENGINE)
        self.now += within
        self.operators.append(Operator(called, self.now, ENGINE))
        self.now += after
        self.named.append(Named(begun, self.now, name))

    def busy(self) -> list[tuple[int, int]]:
        """When the other thread did anything."""
        launching = [(w.called, w.returned) for w in self.work if w.thread == ENGINE]
        return [(start, end) for start, end, thread in self.operators if thread == ENGINE] + launching

    def synchronize(self) -> None:
        begin, done = self.now, max(self.free.values(), default=0)
        self.now = max(begin + CALL, done + RETURN)
        self.waits.append(Wait(begin, self.now, SYNCHRONIZES))
        if self.now > begin + CALL:
            # It waited, and returns soon after what it awaits.
            self.probes.append((self.now - RETURN - 1, len(self.work) - 1, False))
        if self.work:
            self.probes.append((self.now - 1, len(self.work) - 1, True))

    def await_stream(self, stream: int) -> None:
        """Wait for what one stream has, whatever the others do."""
        begin = self.now
        self.now = max(begin + CALL, self.free.get(stream, 0) + RETURN)
        self.waits.append(Wait(begin, self.now, AWAITS_STREAM))

    def ask(self) -> None:
        """Whether the last work has ended."""
        if self.work:
            self.probes.append((self.now, len(self.work) - 1, self.work[-1].end <= self.now))

    # What it was, by the law

    def account(self, begins: Iterable[int], ends: Iterable[int]) -> Account:
        """The ns of each step and part: instant by instant, as the design has it."""
        steps = [*zip(begins, ends, strict=True)]
        return self._account(steps, lambda at: self._part(at, steps[0][0]))

    def account_of_host(self, begins: Iterable[int], ends: Iterable[int]) -> Account:
        """The same as who sees the host alone would have it: an instant is the device's where that worked, or the host gave it work; else
        it is what the host did.
        """

        def part(at: int) -> Part:
            return DEVICE_WORK if self.works(at) or self.is_given_work(at) else self._done(at)

        return self._account([*zip(begins, ends, strict=True)], part)

    def _account(self, steps: list[tuple[int, int]], part: Callable[[int], Part]) -> Account:
        found: Account = Counter()
        times = {time for stretch in (*self.named, *self.passes, *self.waits, *self.busy(), *steps) for time in stretch[:2]}
        edges = sorted(times.union(*((w.returned, w.start, w.end) for w in self.work)))
        for at, until in pairwise(edges):
            step = next((n for n, (low, high) in enumerate(steps) if low <= at < high), None)
            if step is not None:
                found[step, part(at)] += until - at
        return found

    def did(self) -> list[tuple[int, int, Part]]:
        """What the training thread did, as stretches: the later are inside the earlier, or after them."""
        received = [named.end for named in self.named if named.name == LOADER]
        updated = [each.end for each in self.passes if each.name == UPDATE_RANGE]
        stretches = [(start, end, BODY) for start, end in zip(received, updated, strict=True)]
        stretches += [(start, end, PASSES[name]) for start, end, name in self.passes]
        return stretches + [(start, end, NAMED[name]) for start, end, name in self.named]

    def works(self, at: int) -> bool:
        """Whether the device does."""
        return any(w.start <= at < w.end for w in self.work)

    def is_given_work(self, at: int) -> bool:
        """Whether the host is about what it gives a device."""
        return self.has_device and self._done(at).stage == DEVICE_WORK.stage

    def _done(self, at: int) -> Part:
        inner = [part for start, end, part in self.did() if start <= at < end]
        return inner[-1] if inner else NOT_ATTRIBUTED

    def _part(self, at: int, first: int) -> Part:
        running = {w.kind for w in self.work if w.start <= at < w.end}
        if running:
            return next(part for kind, part in DEVICE_PARTS.items() if kind in running)
        dry = max((w.end for w in self.work if w.end <= at), default=first)
        following = min((w for w in self.work if w.start > at), key=lambda w: w.start, default=None)
        launched = following.returned if following else self.now + 1_000_000
        name = next((n.name for n in reversed(self.named) if n.start <= at < n.end), None)
        # What the training thread does explains nothing while the thread that launches works by itself.
        busy = self.busy() if following and following.thread == ENGINE else []
        name = None if any(begin <= at < end for begin, end in busy) else name
        if name is not None and at < launched:
            return NAMED[name]
        ended = next((wait for wait in self.waits if wait.start <= dry < wait.end <= launched), None)
        if ended is not None and not any(begin <= dry < end for begin, end in busy):
            return replace(RAN_DRY, name=ended.call)
        return LAUNCH if following else NOTHING_RECORDED

    def device(self) -> DeviceIntervals:
        """The device's own account, by a clock that is right."""
        start, end = (np.array([w[column] for w in self.work], dtype=np.int64) for column in (3, 4))
        issued = self.issued()
        rank = np.zeros(len(start), dtype=np.int64)
        return DeviceIntervals.exact(start, end, rank=rank, thread=issued.thread, dispatched_ns=issued.returned_ns, ranks=1)

    # What others see of it

    def trace(self, *, shows_device: bool = True) -> Timeline:
        """As a profiler of host and device records it, or of the host alone."""
        hosts = [_event(n.name, n.start, n.end, "annotation") for n in (*self.passes, *self.named)]
        hosts += [_event(wait.call, wait.start, wait.end, "runtime") for wait in self.waits]
        hosts += [_event("aten::mm", start, end, "operator", thread=thread) for start, end, thread in self.operators]
        hosts += [
            _event("cudaLaunchKernel", w.called, w.returned, "runtime", correlation=n, thread=w.thread) for n, w in enumerate(self.work)
        ]
        devices = [
            _event("ncclDevKernel_AllReduce", w.start, w.end, "kernel", correlation=n, stream=w.stream)
            if w.kind == "collective"
            else _event("work", w.start, w.end, w.kind, correlation=n, stream=w.stream)
            for n, w in enumerate(self.work)
        ]
        marks = [{"number": n, "start_ns": a, "end_ns": b} for n, (a, b) in enumerate(pairwise(self.marks))]
        return made_trace(hosts=hosts, devices=devices if shows_device else (), steps=marks)

    def lanes(self) -> tuple[KnownLanes, list[Part]]:
        """What a recorder inside the training knows of the host, and the part of each label of its named stretches."""
        parts = list(NAMED.values())
        names = list(NAMED)
        start, end, label = (np.array(c) for c in zip(*((n.start, n.end, names.index(n.name)) for n in self.named), strict=True))
        begin, until, owner = flattened(start, end)
        named = Labelled(begin, until, label[owner])
        begin, end = (np.array([wait[side] for wait in self.waits], dtype=np.int64) for side in (0, 1))
        busy = Stretches(*union(*(np.array([stretch[side] for stretch in self.busy()], dtype=np.int64) for side in (0, 1))))
        training = HostLane(thread=TRAINING, named=named, waiting=Labelled(begin, end, np.arange(len(begin))))
        engine = HostLane(thread=ENGINE, named=Labelled(*(np.zeros(0, np.int64),) * 3), find_busy=lambda: busy)
        return KnownLanes(training=TRAINING, lanes={TRAINING: training, ENGINE: engine}, call_ends_ns=end), parts

    def issued(self) -> Issued:
        """Every call that issued work."""
        called, returned, thread = (np.array([w[column] for w in self.work], dtype=np.int64) for column in range(3))
        return Issued(first_ns=called, last_ns=called, returned_ns=returned, thread=thread)

    def issued_in_groups(self) -> tuple[Issued, Probes]:
        """The same of a host that knows only when it began and ended to issue what it then asks about; by one thread each."""
        each, asked = self.issued(), self.asked()
        last = np.unique(np.concatenate((asked.work, np.flatnonzero(np.diff(each.thread)), [len(self.work) - 1])))
        first = np.append(0, last[:-1] + 1)
        groups = Issued(
            first_ns=each.first_ns[first], last_ns=each.last_ns[last], returned_ns=each.returned_ns[last], thread=each.thread[last]
        )
        return groups, replace(asked, work=np.searchsorted(last, asked.work))

    def asked(self) -> Probes:
        at, work, ended = (np.array([probe[column] for probe in self.probes], dtype=np.int64) for column in range(3))
        return Probes(at_ns=at, work=work, ended=ended.astype(np.bool_))


def _event(name: str, start: int, end: int, kind: str, **more: Any) -> Mapping[str, Any]:
    return {"name": name, "start_ns": start, "end_ns": end, "kind": kind, **more}


def program(
    seed: int,
    *,
    streams: int = 1,
    updates: int = 1,
    steps: int = 4,
    asks: float | None = None,
    awaits: float = 0.0,
    has_device: bool = True,
) -> Program:
    """A training drawn by `seed`, of so many updates a step. With one stream all work is in one queue. `asks`: how often the host asks
    about it where it could; `awaits`: how often it waits for a stream, where it waits.
    """
    draw = random.Random(seed)
    made = Program(has_device=has_device)
    longest = draw.choice((4, 40, 200))  # of a kernel: the host is ahead, or the device waits for it
    habits = {habit: draw.random() for habit in HABITS}
    habits["ask"] = habits["ask"] if asks is None else asks

    def often(habit: str) -> bool:
        return draw.random() < habits[habit]

    def work(kind: str, thread: int = TRAINING) -> None:
        other = kind in ("collective", "h2d", "d2h") and streams > 1
        made.launch(kind, draw.randint(1, longest), 20 if other else 7, thread)

    def wait(stream: int) -> None:
        if awaits and draw.random() < awaits:
            made.await_stream(stream)
        else:
            made.synchronize()

    def asking(name: str, most: int, least: int = 1) -> None:
        if often("ask"):
            made.ask()
        made.do(name, draw.randint(least, most))
        if often("ask"):
            made.ask()

    for number in range(steps * updates):
        if number % updates == 0:
            made.marks.append(made.now)
        asking(LOADER, draw.choice((3, 60)))
        if often("copy"):
            work("h2d")
        for _launch in range(draw.randint(1, 4)):
            made.python(draw.randint(0, 12))
            work(draw.choice(("kernel", "kernel", "memset", "d2d")))
        if has_device and often("sync"):
            wait(7)
            made.python(draw.randint(0, 30))
        thread = ENGINE if often("engine") else TRAINING
        with made.within(BACKWARD_RANGE):
            for _launch in range(draw.randint(1, 4)):
                made.python(draw.randint(0, 12))
                work("kernel", thread)
            if has_device and often("beside"):
                made.beside(CALLBACK, "kernel", draw.randint(1, longest), *(draw.randint(0, 30) for _ in range(3)))
            if has_device and often("collective"):
                work("collective")
        made.python(draw.randint(0, 5))
        with made.within(UPDATE_RANGE):
            made.python(draw.randint(0, 5))
            work("kernel")
        if has_device and often("read back"):
            work("d2h")
            wait(20 if streams > 1 else 7)
        if often("callback"):
            begun = made.now
            asking(CALLBACK, 150, least=2)
            if often("save"):
                made.named.append(Named(begun + 1, made.now, SAVE))
        if often("save"):
            asking(SAVE, 80)
        made.python(draw.randint(0, 20))
    made.marks.append(made.now)
    return made
