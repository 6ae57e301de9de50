"""A training of which hooks see the host, simulated by whole numbers: its recording, and the account of it, instant by instant.

The host computes it, or a device does, which works while the host goes on and of which the recording has nothing.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from made_recordings import START_NS, TRAINER_PID, TRAINER_THREAD, Writer
from slowstep.parts import BACKWARD, BODY, DEVICE_WORK, NOT_ATTRIBUTED, OPTIMIZER, Part, PartKind
from slowstep.record.writing import format as fmt
from slowstep.stages import STAGES

# Nobody's work on the batches is recorded.
WAIT = Part("preprocess", PartKind.INPUT_WAIT)
DRAW = Part("output", PartKind.SPAN, "draw")
SAVE = Part("store", PartKind.SAVE, "torch.save")
TEXTS = {1: "torch.save", 2: "draw"}
PROCESS = {"kind": "process", "format": 1, "started_ns": START_NS, "realtime_ns": 0, "boot_id": "x", "python": "3.11.7", "torch": "2.13.0"}


@dataclass
class HostProgram:
    """What the training thread did: stretches, the later in the earlier or after them; and when a device worked, if one does."""

    now: int = START_NS
    did: list[tuple[int, int, Part]] = field(default_factory=list)
    device: list[tuple[int, int]] | None = None

    def do(self, part: Part, ns: int) -> None:
        self.did.append((self.now, self.now + ns, part))
        self.now += ns

    def account(self, edges: Iterable[int]) -> Counter[tuple[int, Part]]:
        """The ns of each step and part: each instant is that of the innermost stretch, but for those in which a device worked.

        What the host does to give it work is the device's stage too.
        """
        found: Counter[tuple[int, Part]] = Counter()
        bounds = list(edges)
        worked = self.device or []
        times = sorted({time for *both, _ in self.did for time in both} | {time for both in worked for time in both} | set(bounds))
        for at, until in pairwise(times):
            if bounds[0] <= at < bounds[-1]:
                step = sum(edge <= at for edge in bounds) - 1
                inner = [part for start, end, part in self.did if start <= at < end]
                part = inner[-1] if inner else NOT_ATTRIBUTED
                is_devices = any(start <= at < end for start, end in worked) or part.stage == DEVICE_WORK.stage
                found[step, DEVICE_WORK if self.device is not None and is_devices else part] += until - at
        return found

    def write(self, folder: Path) -> Path:
        """Its recording."""
        folder.mkdir()
        trainer, launcher = Writer(folder, f"{TRAINER_PID}-1"), Writer(folder, "launcher")
        loader = {"loader": 0, "num_workers": 1, "prefetch_factor": 2, "batch_size": 16, "dataset": "Images", "workers": [200]}
        trainer.lines += [
            {**PROCESS, "pid": TRAINER_PID, "ppid": 1, "role": "trainer", "script": "/home/user/train.py", "cwd": "/home/user"},
            {"kind": "optimizer", "id": 0, "type": "SGD", "params": 10, "device": "cpu" if self.device is None else "cuda"},
            {"kind": "iterator", "id": 0, **loader},
            *({"kind": "text", "id": number, "text": text} for number, text in TEXTS.items()),
        ]
        run = {"kind": "run", "name": "train.py", "command": ["train.py"], "started": "2026-11-20T10:00:00", "started_ns": START_NS}
        launcher.lines += [{**PROCESS, "pid": 50, "ppid": 1, "role": "launcher", "torch": None}, run]
        trainer.event(fmt.START, START_NS - 10, START_NS, 0, 0, 1, thread=TRAINER_THREAD)
        waits = 0
        for start, end, part in self.did:
            kind, values = _record(part, waits)
            waits += part is WAIT
            if kind is not None:
                trainer.event(kind, start, end, *values, thread=TRAINER_THREAD)
        launcher.lines.append({"kind": "exit", "code": 0, "ended_ns": self.now})
        for writer in (trainer, launcher):
            writer.close()
        return folder


def _record(part: Part, batch: int) -> tuple[int | None, tuple[Any, ...]]:
    """The kind of record and its values, by which a stretch is recorded; the steps' own work is what lies between others."""
    return {
        WAIT: (fmt.WAIT, (0, batch, 16)),
        BODY: (None, ()),
        BACKWARD: (fmt.BACKWARD, ()),
        OPTIMIZER: (fmt.UPDATE, (0,)),
        DRAW: (fmt.SPAN, (2, STAGES.index("output"))),
        SAVE: (fmt.SAVE, (1000, 1)),
    }[part]


def host_program(seed: int, steps: int = 60) -> HostProgram:
    """A training of the host, drawn by `seed`."""
    draw = random.Random(seed)
    made = HostProgram()
    calls_back, writes, idles, inside = (draw.random() for _ in range(4))
    for _ in range(steps):
        made.do(WAIT, draw.randint(1, 300_000))
        made.do(BODY, draw.randint(1, 400_000))
        made.do(BACKWARD, draw.randint(1, 800_000))
        if draw.random() < inside:
            made.do(DRAW, draw.randint(1, 50_000))
        made.do(BODY, draw.randint(1, 1000))
        made.do(OPTIMIZER, draw.randint(1, 100_000))
        if draw.random() < calls_back:
            begun = made.now
            made.do(DRAW, draw.randint(2, 500_000))
            if draw.random() < writes:
                made.did.append((begun + 1, made.now, SAVE))
        if draw.random() < writes:
            made.do(SAVE, draw.randint(1, 400_000))
        made.now += draw.randint(0, 200_000) if draw.random() < idles else 0
    return made


def device_program(seed: int) -> HostProgram:
    """The same of a device that works while the host goes on, drawn by `seed`: how much of the time, and whenever."""
    made, draw = host_program(seed), random.Random(f"device {seed}")
    longest = draw.choice((100_000, 3_000_000))
    made.device = []
    at = START_NS + draw.randint(0, 300_000)
    while at < made.now:
        end = at + draw.randint(1, 2_000_000)
        made.device.append((at, end))
        at = end + draw.randint(1, longest)
    return made
