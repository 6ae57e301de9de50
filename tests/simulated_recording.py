"""A simulated training as hooks record it: what its host did, and what the device said where stacks asked it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, Final

from made_recordings import LOOP, START_NS, TRAINER_PID, TRAINER_THREAD, Writer
from simulated_training import CALLBACK, LOADER, NAMED, PASSES, SAVE, Program
from slowstep.parts import BACKWARD, OPTIMIZER, Part, PartKind
from slowstep.record.writing import format as fmt
from slowstep.stages import STAGES

TEXTS: Final = {1: "torch.save", 2: CALLBACK}
# What hooks know of a write is which function wrote.
RECORDED_SAVE: Final = Part("store", PartKind.SAVE, TEXTS[1])
PROCESS: Final = {"kind": "process", "format": 1, "realtime_ns": 0, "boot_id": "x", "python": "3.11.7", "torch": "2.13.0"}
LOADER_FACTS: Final = {"loader": 0, "num_workers": 1, "prefetch_factor": 2, "batch_size": 16, "dataset": "Images", "workers": [200]}


def write_recording(made: Program, folder: Path, *, asks: int = 0, seed: int = 0) -> Path:
    """Its recording, with so many stacks at moments that `seed` draws, each of which asks the device; outside of what gives it work."""
    folder.mkdir()
    trainer, launcher = Writer(folder, f"{TRAINER_PID}-1"), Writer(folder, "launcher")
    process = PROCESS | {"started_ns": START_NS}
    trainer.lines += [
        {**process, "pid": TRAINER_PID, "ppid": 1, "role": "trainer", "script": LOOP[0], "cwd": "/home/user"},
        {"kind": "optimizer", "id": 0, "type": "SGD", "params": 10, "device": "cuda" if made.has_device else "cpu"},
        {"kind": "iterator", "id": 0, **LOADER_FACTS},
        *({"kind": "text", "id": number, "text": text} for number, text in TEXTS.items()),
    ]
    run = {"kind": "run", "name": "train.py", "command": ["train.py"], "started": "2026-11-20T10:00:00", "started_ns": START_NS}
    launcher.lines += [{**process, "pid": 50, "ppid": 1, "role": "launcher", "torch": None}, run]
    trainer.event(fmt.START, START_NS - 10, START_NS, 0, 0, 1, thread=TRAINER_THREAD)
    batch = 0
    for start, end, name in (*made.passes, *made.named):
        kind, values = _record(name, batch)
        batch += name == LOADER
        trainer.event(kind, START_NS + start, START_NS + end, *values, thread=TRAINER_THREAD)
    draw = random.Random(seed)
    stack, weight = trainer.stack([LOOP]), (made.now - made.marks[0]) // max(asks, 1)
    for _ in range(asks):
        at = draw.randrange(made.marks[0], made.now)
        told = fmt.DEVICE_BUSY if made.is_given_work(at) or made.works(at) else fmt.DEVICE_IDLE
        trainer.event(fmt.STACK, START_NS + at, START_NS + at, stack, weight, thread=TRAINER_THREAD, flags=told)
    launcher.lines.append({"kind": "exit", "code": 0, "ended_ns": START_NS + made.now})
    for writer in (trainer, launcher):
        writer.close()
    return folder


def _record(name: str, batch: int) -> tuple[int, tuple[Any, ...]]:
    """The kind of record and its values, by which something is recorded."""
    if name in PASSES:
        return {BACKWARD: (fmt.BACKWARD, ()), OPTIMIZER: (fmt.UPDATE, (0,))}[PASSES[name]]
    return {
        LOADER: (fmt.WAIT, (0, batch, 16)),
        CALLBACK: (fmt.SPAN, (2, STAGES.index(NAMED[CALLBACK].stage))),
        SAVE: (fmt.SAVE, (1000, 1)),
    }[name]
