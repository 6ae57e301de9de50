"""Recordings made by hand: a training simulated on a clock of its own, written byte by byte as the recorder would.

Simulates one training thread and the loader's workers with a queue of prefetched batches, so that waits, fetches and idle times
belong together.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slowstep.record.writing import format as fmt

MS = 1_000_000
START_NS = 1_000_000_000
READING_PERIOD_NS = 100 * MS
TRAINER_PID, TRAINER_THREAD, BESIDE_THREAD = 100, 100, 101
SCRIPT = "/home/user/project/train.py"
DATA = "/home/user/project/data.py"
LIBRARY = "/usr/lib/python3.11/site-packages/torch"
FETCH_FRAME = (f"{LIBRARY}/utils/data/_utils/fetch.py", "fetch", 40, 52)
LOOP = (SCRIPT, "main", 10, 30)
ENGINE = (f"{LIBRARY}/autograd/graph.py", "_engine_run_backward", 900, 910)
INPUT_LINE, FORWARD_LINE = 24, 26


@dataclass(kw_only=True)
class Training:
    """One training, in ms. `after_ms` is spent after every update in the function `after`; `saves` is (every k steps, ms)."""

    steps: int = 200
    workers: int = 1
    prefetch: int = 2
    batch_size: int = 16
    epoch_steps: int | None = 25
    epoch_sizes: tuple[int, ...] = ()  # batch sizes of the first epochs, where they are not `batch_size`
    last_batch: int | None = None  # samples in the last batch of an epoch, smaller than the others
    fixed_ms: float = 2.0  # of forward and backward
    per_sample_ms: float = 1.0
    forward_share: float = 1 / 3  # of them
    optimizer_ms: float = 1.0
    getitem_ms: float = 6.0
    collate_ms: float = 0.5
    blocked_ms: float = 0.0  # of each fetch, neither CPU nor queueing
    blocked_together: bool = False  # by a limit that all workers share: an epoch's last batches, with fewer others, are blocked shorter
    storage: bool = False
    receive_ms: float = 0.5
    after_ms: float = 0.0
    after: str = "save_mask_images"  # "": nothing but the loop's own line
    after_library: tuple[str, str] = ("/usr/lib/python3.11/site-packages/tool/main.py", "do")  # file and function that this line calls
    after_unseen: bool = False  # it lets no stack be taken
    optimizer_growth_ms: float = 0.0  # what it takes longer in the last step
    by_hand: bool = False  # without an optimizer of torch's
    optimizer: Mapping[str, Any] = field(default_factory=dict)  # what else is noted of it
    after_gradients: bool = False  # the function after the update names gradients
    saves: tuple[int, float] | None = None
    validation: tuple[int, float] | None = None  # every k steps, ms
    times_calls: bool = True  # of a few fetches
    transform: tuple[str, float] | None = None  # a function that holds this share of getitem
    transform_calls: tuple[tuple[str, float], ...] = ()  # functions that it calls, with their shares of getitem
    data_file: str = DATA  # where all of these are
    cores: int = 4
    threads: int | None = None  # for one operation, as many as cores where not said
    helping_cores: float = 0.0  # that the training's other threads use
    nodes: int | None = 20
    work: dict[str, Any] | None = None  # what a look at a graph notes that its operations compute
    products: tuple[list[Any], ...] = ()  # what it notes of operations that multiply, beside that
    noted_looks: tuple[int, int] = (0, 1_000_000)  # the first look that notes it, and the first that does not any more
    foreign_cores: float = 0.0
    stolen_cores: float = 0.0
    stack_period_ms: float = 50.0
    engine_calls: tuple[tuple[str, str, int, int], ...] | None = None  # what stacks inside backward stand in; None: none is taken there
    drop_training_frame: bool = False
    input_code: Mapping[str, Any] = field(default_factory=dict)  # classes of what the loader reads, and functions that made it
    collate: str = "default_collate"
    collate_inner: float = 0.0  # share of collating that the script's collate function spends in another of its functions, mask_tokens
    persistent: bool = False  # workers outlive the epoch: only the first start takes long
    missing_workers: tuple[int, ...] = ()  # workers that wrote no files
    other_ms: float = 0.0  # of each fetch in which other threads of the producer's process work, and it waits for them
    delay_ms: float = 0.0  # of each body that the training thread waits for a core
    micro_batches: int = 1  # batches per update
    nested: bool = False  # forward and backward inside the optimizer's span, as closures do
    critics: int = 0  # calls of a second optimizer after each of the first
    loader: bool = True  # False: a loop that makes its own batches, in `input_ms`, at line INPUT_LINE of the loop
    input_ms: float = 0.0
    input_file: str = "functional.py"  # of torch, in which it makes them
    input_function: str = "stack"  # there
    input_below: tuple[tuple[str, str], ...] = ()  # what that calls: files and functions
    input_blocked_ms: float = 0.0  # of them in which it neither computes nor waits for a core
    input_delay_ms: float = 0.0  # of them in which it waits for a core
    dataset: str = "MaskFolder"
    dataset_length: int | None = None
    queue_ms: float = 0.0  # of each fetch in which its thread waits for a core
    reads: tuple[int, int] = (1000, 1)  # bytes and calls of each fetch
    storage_epochs: int | None = None  # only these many epochs read from storage, and are blocked
    batch_bytes: int = 4_000_000
    input_growth: float = 0.0  # by how many of these the last batch is larger
    tells_bytes: bool = True  # of what is collated, or given to the model
    producer_lines: tuple[dict[str, Any], ...] = ()  # notes of the first producer
    memory_available_bytes: int | None = None
    jitter: float = 0.0  # every duration varies by this share, either way
    seed: int = 0
    start_ms: float = 10.0  # of the loader with new workers
    order_ms: float = 0.01  # of one that starts none
    draw_ms: float = 0.0  # of the next batch's indices, before a fetch without workers
    forks: bool = False  # the training's process for new workers
    reads_to_end: bool = True  # False: iterators are not asked for what follows an epoch's last batch
    is_counted: bool = False  # an epoch's batches are all that there are, and this is noted
    stall: tuple[int, float] | None = None  # every k steps, ms that the backward takes longer
    work_growth_ms: float = 0.0  # what the forward and backward take longer in the last step
    after_growth_ms: float = 0.0  # the same of the function after the update
    written_growth_bytes: int = 0  # what the last step writes more than the first
    looks_at_graphs: bool = True  # at that of every fourth backward pass, of 20 nodes, 1000 elements and as many values
    tables: tuple[dict[str, Any], ...] = ()  # that are found in them
    more_nodes: int = 0  # what the last step's graph has more of, evenly
    more_kept: int = 0  # the same of nodes that earlier steps have made
    more_parameters: tuple[int, int] = (0, 1)  # the same of elements that get a gradient, and in how many stairs
    work_in_stairs: int = 0  # that growth comes in so many stairs; 0 for evenly
    stall_values: int | None = None  # values of the graph of the steps of `stall`; looks find these as well
    stall_of_both: bool = False  # it is shared with the forward, as all work is
    after_writes: bool = False  # that function stands in the JSON encoder
    after_on: tuple[int, ...] = ()  # only after these steps; after every one where empty
    save_growth_bytes: int = 0  # each checkpoint is so much larger, and takes longer in proportion
    stragglers: tuple[int, float] | None = None  # one sample in every k batches, ms
    uneven: float = 1.0  # every other step at random takes so many times as long
    collects: tuple[int, float] | None = None  # every k steps, ms of garbage collection: in the collate of a serial loader, else after it
    collects_asked: bool = False  # by a call of gc.collect()
    beside: tuple[float, float] | None = None  # another Python thread: cores that it uses, ms of each body that the training is blocked
    beside_hands_over: bool = False  # that thread's function names what hands something over
    beside_called_by: str | None = None  # of the standard library, what has called that function
    beside_waits: int | None = None  # one in so many of its stacks stands in queue.put()
    late_ms: float = 0.0  # of each stack of the training thread, how late it was taken
    startup_ms: float = 2_000.0  # between the launcher's start and the recording


@dataclass
class Writer:
    """The two files of one process."""

    folder: Path
    name: str
    records: list[bytes] = field(default_factory=list)
    lines: list[dict[str, Any]] = field(default_factory=list)
    names_gradients: set[str] = field(default_factory=set)  # functions that do
    hands_over: set[str] = field(default_factory=set)  # functions that name what hands something to another thread
    calling: dict[tuple[Any, ...], str] = field(default_factory=dict)  # what is called in the line of a frame, as it is written
    _frames: dict[tuple[Any, ...], int] = field(default_factory=dict)
    _stacks: dict[tuple[int, ...], int] = field(default_factory=dict)

    def event(
        self, kind: int, t0: float, t1: float, a: float = 0, b: float = 0, c: float = 0, *, thread: int, flags: int = 0, extra: int = 0
    ) -> None:
        self.records.append(fmt.RECORD.pack(int(t0), int(t1), int(a), int(b), int(c), thread, flags, extra, kind))

    def stack(self, frames: Iterable[tuple[str, str, int, int]]) -> int:
        ids = []
        for frame in frames:
            if frame not in self._frames:
                self._frames[frame] = len(self._frames)
                file, function, first, line = frame
                place = {"file": file, "function": function, "first_line": first, "line": line}
                told = {"gradients": function in self.names_gradients, "hands_over": function in self.hands_over}
                call = {"column": 8, "called": self.calling[frame]} if frame in self.calling else {}
                self.lines.append({"kind": "frame", "id": self._frames[frame], **place, **told, **call})
            ids.append(self._frames[frame])
        key = tuple(ids)
        if key not in self._stacks:
            self._stacks[key] = len(self._stacks)
            self.lines.append({"kind": "stack", "id": self._stacks[key], "frames": ids})
        return self._stacks[key]

    def close(self) -> None:
        self.records.sort(key=lambda record: fmt.RECORD.unpack(record)[1])
        (self.folder / f"{self.name}.rec").write_bytes(b"".join(self.records) + bytes(fmt.RECORD_BYTES * 10))
        (self.folder / f"{self.name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in self.lines))


def make_recording(folder: Path, training: Training) -> Path:
    """Simulate a training and write its recording into `folder`, which is made."""
    folder.mkdir(parents=True, exist_ok=True)
    simulation = _Simulation(folder, training)
    simulation.run()
    return folder


class _Simulation:
    def __init__(self, folder: Path, training: Training) -> None:
        self.t = training
        self.now = float(START_NS)
        self.trainer = Writer(folder, "100-1")
        self.workers = [Writer(folder, f"{200 + i}-1") for i in range(training.workers)]
        self.launcher = Writer(folder, "launcher")
        self.free = [self.now] * max(training.workers, 1)  # when each worker is free for its next batch
        self.cpu = 0.0
        self.delay = 0.0
        self.fetched = 0
        self.marks = 0
        self.next_reading = self.now
        self.written = 0.0
        self.random = random.Random(training.seed)
        self.worker_cpu = 0.0
        self.next_stack = self.now + training.stack_period_ms * MS
        self.gaps: list[tuple[float, float, str]] = []

    def run(self) -> None:
        self._headers()
        if self.t.after_gradients:
            self.trainer.names_gradients.add(self.t.after)
        epoch = self.t.epoch_steps or self.t.steps
        done = 0
        iterator = 0
        while done < self.t.steps:
            length = min(epoch, self.t.steps - done)
            if self.t.loader:
                self._epoch(iterator, length, done)
            else:
                self._loop(length, done)
            done += length
            iterator += 1
        self.launcher.event(fmt.READING_CPU, self.now, self.now, *self._cpu_reading(), thread=1)
        self.trainer.lines.append({"kind": "cost", "event_ns": 400.0, "events": len(self.trainer.records), "sampler_cpu_ns": 1000})
        self.trainer.lines.append({"kind": "end", "reason": "exit"})
        self.launcher.lines.append({"kind": "exit", "code": 0, "ended_ns": int(self.now)})
        kept = [worker for i, worker in enumerate(self.workers) if i not in self.t.missing_workers]
        for writer in (self.workers or [self.trainer]) if self.t.times_calls else []:
            self._timed_calls(writer)
        (self.workers or [self.trainer])[0].lines += self.t.producer_lines
        for writer in (self.trainer, *kept, self.launcher):
            writer.close()

    def _vary(self, ms: float) -> float:
        """A duration in ns, with its jitter."""
        return ms * MS * self.random.uniform(1 - self.t.jitter, 1 + self.t.jitter) if self.t.jitter else ms * MS

    def _headers(self) -> None:
        process = {
            "kind": "process",
            "format": 1,
            "started_ns": START_NS,
            "realtime_ns": 0,
            "boot_id": "x",
            "python": "3.11.7",
            "torch": "2.13.0",
        }
        self.trainer.lines += [
            {
                **process,
                "pid": TRAINER_PID,
                "ppid": 1,
                "role": "trainer",
                "script": SCRIPT,
                "cwd": "/home/user/project",
                "import_path": ["/home/user/project", "/usr/lib/python3.11/site-packages"],
                "cores_allowed": self.t.cores,
                "memory_available_bytes": self.t.memory_available_bytes,
            },
            {"kind": "facts", "threads": self.t.threads or self.t.cores},
            {"kind": "hook", "name": "garbage_collections", "state": "on"},
            {"kind": "text", "id": 2, "text": f"{SCRIPT}:33"},
            {"kind": "startup", "import_began_ns": START_NS - 1_800 * MS, "activated_ns": START_NS - 500 * MS},
            {"kind": "optimizer", "id": 0, "type": "SGD", "params": 10, "by_hand": self.t.by_hand, **self.t.optimizer},
        ]
        if not self.t.drop_training_frame:
            self.trainer.lines.append({"kind": "training_frame", "optimizer": 0, **_frame(LOOP)})
            self.trainer.lines.append({"kind": "forward_frame", **_frame((*LOOP[:3], FORWARD_LINE))})
        if self.t.nodes is not None:
            self.trainer.lines.append({"kind": "graph", "nodes": self.t.nodes})
        if self.t.looks_at_graphs:
            self.trainer.lines.append({"kind": "tables", "looks": 8, "tables": [*self.t.tables]})
        for i, worker in enumerate(self.workers):
            worker.lines.append({**process, "pid": 200 + i, "ppid": TRAINER_PID, "role": "worker", "worker": i})
        self.launcher.lines += [
            {**process, "pid": 50, "ppid": 1, "role": "launcher", "torch": None},
            {
                "kind": "run",
                "name": "train.py",
                "command": ["train.py"],
                "started": "2026-11-20T10:00:00",
                "started_ns": int(START_NS - self.t.startup_ms * MS),
            },
        ]
        self.launcher.event(fmt.READING_CPU, self.now, self.now, *self._cpu_reading(), thread=1)

    def _cpu_reading(self) -> tuple[float, float, float]:
        tree = self.cpu + self.worker_cpu + self.t.helping_cores * (self.now - START_NS)
        passed = self.now - START_NS
        return tree, tree + self.t.foreign_cores * passed, self.t.stolen_cores * passed

    def _epoch(self, iterator: int, length: int, done: int) -> None:
        t, start = self.t, self.now
        restarts = t.workers and not (t.persistent and iterator)
        self.now += (t.start_ms if restarts else t.order_ms) * MS
        self.trainer.event(fmt.START, start, self.now, iterator, 0, t.workers, thread=TRAINER_THREAD)
        self.trainer.lines.append(_iterator(iterator, t))
        self.free = [self.now] * max(t.workers, 1)
        put: list[float] = []
        received: list[float] = []
        length *= t.micro_batches
        for batch in range(length):
            usual = t.epoch_sizes[iterator] if iterator < len(t.epoch_sizes) else t.batch_size
            size = t.last_batch if t.last_batch and batch == length - 1 else usual
            asked = self.now
            if t.workers:
                # A worker is told of batch k once batch k - workers * prefetch was received.
                while len(put) < length and len(put) < len(received) + t.workers * t.prefetch:
                    told = received[len(put) - t.workers * t.prefetch] if len(put) >= t.workers * t.prefetch else start
                    put.append(self._fetch(self.workers[len(put) % t.workers], iterator, len(put), told, size))
                self.now = max(asked, put[batch]) + t.receive_ms * MS
            else:
                self.cpu += t.draw_ms * MS
                self.now = self._fetch(self.trainer, iterator, batch, asked + t.draw_ms * MS, size) + 0.02 * MS
            received.append(asked)
            self.trainer.event(
                fmt.WAIT, asked, self.now, iterator, batch, size, thread=TRAINER_THREAD, extra=int(sum(p <= asked for p in put[batch:]))
            )
            self._mark()
            self._body(size, done + batch // t.micro_batches, update=(batch + 1) % t.micro_batches == 0)
        if t.reads_to_end:
            self.trainer.event(fmt.WAIT, self.now, self.now + 0.1 * MS, iterator, length, -1, thread=TRAINER_THREAD, flags=fmt.END)
            self.now += 0.1 * MS

    def _loop(self, length: int, done: int) -> None:
        """An epoch without a loader: batches are made in the loop's body, and the root module's forward is recorded."""
        t = self.t
        for step in range(length):
            begin, self.now = self.now, self.now + self._vary(t.input_ms)
            self.cpu += max(self.now - begin - (t.input_blocked_ms + t.input_delay_ms) * MS, 0.0)
            self.delay += t.input_delay_ms * MS
            made_in = ((t.input_file, t.input_function), *t.input_below)
            self._stacks(begin, self.now, [(*LOOP[:3], INPUT_LINE), *((f"{LIBRARY}/{file}", function, 1, 2) for file, function in made_in)])
            forward = (t.fixed_ms + t.per_sample_ms * t.batch_size) * t.forward_share * MS
            self._mark()
            self.trainer.event(fmt.FORWARD, self.now, self.now + forward, t.batch_size, 1, self._bytes(done + step), thread=TRAINER_THREAD)
            self._body(t.batch_size, done + step)

    def _bytes(self, batch: int) -> int:
        return int(self.t.batch_bytes * (1 + self.t.input_growth * batch / self.t.steps)) if self.t.tells_bytes else -1

    def _fetch(self, writer: Writer, iterator: int, batch: int, told: float, size: int) -> float:
        t = self.t
        serial = writer is self.trainer
        which = 0 if serial else batch % t.workers
        begin = max(told, self.free[which]) if not serial else told
        thread = TRAINER_THREAD if serial else 200 + which
        scale = size / t.batch_size
        getitem, collate = self._vary(t.getitem_ms) * scale, self._vary(t.collate_ms) * scale
        cold = t.storage_epochs is None or iterator < t.storage_epochs
        blocked, other = self._vary(t.blocked_ms) * scale * cold, self._vary(t.other_ms) * scale
        blocked -= self._spared(begin, blocked, batch) if t.blocked_together and not serial else 0.0
        queue = self._vary(t.queue_ms) * scale
        slow = self._straggler(begin, writer, thread, batch)
        getitem += slow
        garbage = self._garbage(self.fetched, thread, begin + getitem + collate / 2) if t.workers == 0 and t.loader else 0.0
        collate += garbage
        end = begin + getitem + collate + blocked + other + queue
        if not serial and begin > self.free[which]:
            writer.event(fmt.IDLE, self.free[which], begin, thread=thread)
        cpu = getitem + collate
        writer.event(fmt.FETCH, begin, end, batch, size, cpu, thread=thread)
        writer.event(fmt.FETCH_DELAY, begin, end, other, queue, iterator if serial else -1, thread=thread)
        writer.event(fmt.FETCH_IO, begin, end, t.reads[0], t.reads[0] if t.storage and cold else 0, t.reads[1], thread=thread)
        writer.event(fmt.COLLATE, end - collate, end, collate, self._bytes(self.fetched), thread=thread)
        if serial:
            self.cpu += cpu + other
        else:
            self.worker_cpu += cpu + other
        self.free[which] = end
        return end

    def _spared(self, begin: float, blocked: float, batch: int) -> float:
        """By how much shorter a batch is blocked after which the epoch has none for workers that become free."""
        t = self.t
        left = (t.epoch_steps or t.steps) * t.micro_batches - batch
        if left >= t.workers:
            return 0.0
        others, now, work = sorted(end for end in self.free if end > begin), begin, blocked
        # The first of those that end are followed by the batches that are left.
        for number, end in enumerate([*others[left - 1 :], float("inf")]):
            speed = t.workers / (len(others) + 1 - number)
            done = min((end - now) * speed, work)
            now, work = now + done / speed, work - done
        return blocked - (now - begin)

    def _straggler(self, begin: float, writer: Writer, thread: int, batch: int) -> float:
        """What the slow sample of this batch takes longer than another, where it has one."""
        self.fetched += 1
        if self.t.stragglers is None or self.fetched % self.t.stragglers[0]:
            return 0.0
        usual, slow = self.t.getitem_ms * MS / self.t.batch_size, self.t.stragglers[1] * MS
        index = (17, 99)[self.fetched // self.t.stragglers[0] % 2]
        writer.event(fmt.SLOW_SAMPLE, begin, begin + slow, index, usual, batch, thread=thread)
        return slow - usual

    def _garbage(self, step: int, thread: int, begin: float) -> float:
        """What is collected in this step, ns."""
        if self.t.collects is None or step % self.t.collects[0]:
            return 0.0
        end = begin + self.t.collects[1] * MS
        asked = self.t.collects_asked
        self.trainer.event(fmt.COLLECTION, begin, end, 2, 7, 2 if asked else 0, thread=thread, extra=int(asked))
        return end - begin

    def _timed_calls(self, writer: Writer) -> None:
        """What three fetches took, with calls timed: the transform's share of making samples was spent in that function."""
        name, share = self.t.transform or ("resize", 0.3)
        whole, file = 3 * self.t.getitem_ms * MS, self.t.data_file
        called = [(each, part * whole) for each, part in self.t.transform_calls]
        collates = [[5 + len(called), 3 * self.t.collate_ms * MS]] if self.t.collate_inner else []
        functions = [
            (FETCH_FRAME[:3], whole + 3 * self.t.collate_ms * MS, [[1, whole], [4, 3 * self.t.collate_ms * MS]]),
            ((file, "__getitem__", 20), whole, [[2, share * whole], [3, (1 - share) * whole / 2]]),
            ((file, name, 40), share * whole, [[5 + number, ns] for number, (_, ns) in enumerate(called)]),
            ((file, "load", 60), (1 - share) * whole / 2, []),
            (("/opt/slowstep/record/fetches.py", "collate_fn", 90), 3 * self.t.collate_ms * MS, collates),
            *(((file, each, 80), ns, []) for each, ns in called),
            *self._timed_collate(5 + len(called)),
        ]
        writer.lines.append(
            {"kind": "calls", "of": "fetch", "stretches": 3, "whole_ns": int(whole), "functions": [
                {"file": file, "function": function, "line": line, "total_ns": int(total), "own_ns": 0,
                 "callees": [[callee, int(ns)] for callee, ns in callees]}
                for (file, function, line), total, callees in functions
            ]}
        )  # fmt: skip

    def _timed_collate(self, number: int) -> list[tuple[tuple[str, str, int], float, list[list[float]]]]:
        """The script's collate function, the function of that number, and the one that it calls."""
        if not self.t.collate_inner:
            return []
        whole, name = 3 * self.t.collate_ms * MS, self.t.collate.rpartition(".")[2]
        held = self.t.collate_inner * whole
        return [((DATA, name, 70), whole, [[number + 1, held]]), ((DATA, "mask_tokens", 90), held, [])]

    def _mark(self) -> None:
        if self.now >= self.next_reading:
            self.launcher.event(fmt.READING_CPU, self.now, self.now, *self._cpu_reading(), thread=1)
            self.next_reading = self.now + READING_PERIOD_NS
            if self.t.written_growth_bytes:
                self.launcher.event(fmt.READING_IO, self.now, self.now, 0, 0, self.written, thread=1)
            self._mark_beside()
        self.trainer.event(fmt.CPU, self.now, self.now, self.cpu, self.delay, thread=TRAINER_THREAD)

    def _mark_beside(self) -> None:
        """The other Python thread: its name, its CPU time, and where it stands."""
        if self.t.beside is None:
            return
        self.trainer.lines.append({"kind": "thread", "id": BESIDE_THREAD, "name": "prefetch"})
        self.trainer.event(fmt.CPU, self.now, self.now, self.t.beside[0] * (self.now - START_NS), 0, thread=BESIDE_THREAD)
        run = ("/usr/lib/python3.11/threading.py", "run", 1, 2)
        called = [] if self.t.beside_called_by is None else [(f"/usr/lib/python3.11/{self.t.beside_called_by}", "worker", 1, 2)]
        self.marks += 1
        waits = self.t.beside_waits is not None and self.marks % self.t.beside_waits == 0
        at = [("/usr/lib/python3.11/queue.py", "put", 1, 2)] if waits else [(DATA, "decode", 90, 92)]
        self.trainer.hands_over |= {"read_ahead"} if self.t.beside_hands_over else set()
        stack = self.trainer.stack([run, *called, (DATA, "read_ahead", 70, 75), *at])
        self.trainer.event(fmt.STACK, self.now, self.now, stack, READING_PERIOD_NS, 0, thread=BESIDE_THREAD)

    def _body(self, size: int, step: int, *, update: bool = True) -> None:
        t = self.t
        begin = self.now
        at = self._stair(step, t.work_in_stairs)
        work = self._vary(t.fixed_ms + t.per_sample_ms * size + t.work_growth_ms * at)
        work *= t.uneven if self.random.random() < 0.5 else 1.0
        stalls = t.stall is not None and (step + 1) % t.stall[0] == 0
        stall = t.stall[1] * MS if t.stall and stalls else 0.0
        work += stall if t.stall_of_both else 0.0
        self._look(step, stalls=stalls)
        delay = self._vary(t.delay_ms)
        self._backward(work, delay, 0.0 if t.stall_of_both else stall)
        self.now += 0 if t.beside is None else t.beside[1] * MS
        if update:
            self._update(0, begin + 0.05 * MS if t.nested else self.now, longer=t.optimizer_growth_ms * at)
            for _ in range(t.critics):
                self._backward(work / 2, 0)
                self._update(1, self.now)
            self._mark()
            self._after(step)

    def _stair(self, step: int, stairs: int) -> float:
        return step / self.t.steps if not stairs else step * (stairs + 1) // self.t.steps / stairs

    def _look(self, step: int, *, stalls: bool) -> None:
        """At the graph of the backward pass of this step."""
        t = self.t
        if not t.looks_at_graphs or (stalls and t.stall_values is None) or (step % 4 and not stalls):
            return
        at, (more, stairs) = step / t.steps, t.more_parameters
        kept, trained = int(t.more_kept * at), 1000 + int(more * self._stair(step, stairs))
        values = t.stall_values if stalls and t.stall_values is not None else 1000
        nodes = 20 + int(t.more_nodes * at) + kept
        self.trainer.event(fmt.GRAPH, self.now, self.now, nodes, trained, values, thread=TRAINER_THREAD, flags=kept, extra=1)
        first, end = t.noted_looks
        if t.work is not None and first <= step // 4 < end:
            counts, none = ("elements", "dear", "scattered", "products"), ("unknown", "parts", "weights")
            nothing = {**dict.fromkeys(counts, 0), "whole": 1, **{name: [] for name in none}}
            self.trainer.lines.append({"kind": "work", "at_ns": int(self.now), **nothing, **t.work})
            if t.products:
                self.trainer.lines.append({"kind": "products", "at_ns": int(self.now), "rows": list(t.products)})

    def _backward(self, work: float, delay: float, stall: float = 0.0) -> None:
        forward, backward = work * self.t.forward_share, work * (1 - self.t.forward_share) + stall + delay
        called = (f"{LIBRARY}/nn/modules/module.py", "_call_impl", 1, 2)
        self._stacks(self.now, self.now + forward, [(*LOOP[:3], FORWARD_LINE), called, (SCRIPT, "forward", 50, 52)])
        if self.t.engine_calls is not None:
            self._stacks(self.now + forward, self.now + forward + backward, [LOOP, ENGINE, *self.t.engine_calls])
        self.trainer.event(fmt.BACKWARD, self.now + forward, self.now + forward + backward, thread=TRAINER_THREAD)
        self.now += forward + backward
        self.cpu += work + stall
        self.delay += delay

    def _update(self, optimizer: int, begin: float, longer: float = 0.0) -> None:
        length = self._vary(self.t.optimizer_ms + longer)
        self.now += length
        self.cpu += length
        self.trainer.event(fmt.UPDATE, begin, self.now, optimizer, thread=TRAINER_THREAD)

    def _after(self, step: int) -> None:
        t = self.t
        self.written += t.written_growth_bytes * step / t.steps
        if t.workers or not t.loader:
            begin, self.now = self.now, self.now + self._garbage(step + 1, TRAINER_THREAD, self.now)
            self.cpu += self.now - begin
        if t.saves and (step + 1) % t.saves[0] == 0:
            written = 8_000_000 + t.save_growth_bytes * step
            begin, self.now = self.now, self.now + self._vary(t.saves[1]) * written / 8_000_000
            self.trainer.lines.append({"kind": "text", "id": 1, "text": "torch.save"})
            self.trainer.event(fmt.SAVE, begin, self.now, written, 1, thread=TRAINER_THREAD)
        if t.validation and (step + 1) % t.validation[0] == 0:
            self._validate(t.validation[1])
        if t.after_ms and (not t.after_on or step in t.after_on):
            begin, self.now = self.now, self.now + self._vary(t.after_ms + t.after_growth_ms * step / t.steps)
            self.cpu += self.now - begin
            leaf = "/usr/lib/python3.11/json/encoder.py" if t.after_writes else f"{LIBRARY}/../numpy/core/fromnumeric.py"
            if t.after_unseen:
                pass
            elif t.after:
                self._stacks(begin, self.now, [LOOP, (SCRIPT, t.after, 80, 85), (leaf, "save", 1, 2)])
            else:
                self._stacks(begin, self.now, [(*LOOP[:3], LOOP[3] + 4), (*t.after_library, 1, 2)])

    def _validate(self, length_ms: float) -> None:
        iterator = 10_000 + int(self.now % 1000)
        self.trainer.event(fmt.START, self.now, self.now + MS, iterator, 1, 0, thread=TRAINER_THREAD)
        begin = self.now + MS
        for batch in range(4):
            at = begin + batch * length_ms * MS / 4
            self.trainer.event(fmt.WAIT, at, at + MS, iterator, batch, 16, thread=TRAINER_THREAD, extra=fmt.READY_UNKNOWN)
        self.now = begin + length_ms * MS
        self.trainer.event(fmt.WAIT, self.now - MS, self.now, iterator, 4, -1, thread=TRAINER_THREAD, flags=fmt.END)

    def _stacks(self, begin: float, end: float, frames: list[tuple[str, str, int, int]]) -> None:
        period, late = self.t.stack_period_ms * MS, self.t.late_ms * MS
        k = int(begin // period) + 1
        while k * period < end:
            self.trainer.event(fmt.STACK, k * period, k * period, self.trainer.stack(frames), period, late, thread=TRAINER_THREAD)
            k += 1


def _frame(frame: tuple[str, str, int, int]) -> dict[str, Any]:
    file, function, first, line = frame
    return {"file": file, "function": function, "first_line": first, "line": line}


def _iterator(number: int, t: Training) -> dict[str, Any]:
    loader = {"loader": 0, "num_workers": t.workers, "prefetch_factor": t.prefetch, "batch_size": t.batch_size, "dataset": t.dataset}
    loader |= {"dataset_length": t.dataset_length, "persistent": t.persistent, "batches": t.epoch_steps if t.is_counted else None}
    # Of which nothing has to be copied in the training's own memory.
    loader |= {"context": "fork" if t.forks else "forkserver"}
    collate = {"collate": t.collate, "collate_file": DATA, "collate_line": 70, "is_default_collate": t.collate == "default_collate"}
    return {"kind": "iterator", "id": number, "workers": [200 + i for i in range(t.workers)], **loader, **collate, **t.input_code}
