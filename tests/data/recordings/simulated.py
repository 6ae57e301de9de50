"""Make the simulated recordings again: PYTHONPATH=tests python tests/data/recordings/simulated.py [NAME...]

Trainings that `made_recordings` simulates on a clock of its own, one planted problem each but for the machine's, for rules that no recorded
script fires: they need an accelerator, a limit of the machine or a network, or a problem that time on shared cores hides. They are packed
as those of `make.py` are.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from make import HERE, packed

from made_events import Events
from made_machine import GIB, MadeMachine, make_machine_recording
from made_recordings import DATA, SCRIPT, START_NS, Training
from made_timed_calls import calls
from slowstep.record.writing.format import SYNCED

# 0.3 s of making 50 samples, of which so many of each are made in built-in functions.
BUILT_IN: dict[str, Any] = {"kind": "builtins", "of": "fetch", "stretches": 5, "samples": 50, "wall_ns": 300_000_000}
BACKWARD = ("/opt/slowstep/record/hooks/torch_backward.py", "_timed.<locals>.backward", 60)
OPTIMIZER = ("/usr/lib/site-packages/torch/optim/optimizer.py", "Optimizer.profile_hook_step.<locals>.wrapper", 1)
WATCH = (SCRIPT, "watch_activations", 60)


def built_in(function: str, times: int, ms: float) -> dict[str, Any]:
    """So many calls of a built-in function, ms in all, while the samples were made."""
    caller = [[DATA, "__getitem__", 20, times, int(ms * 1e6)]]
    return {"function": function, "file": None, "line": None, "calls": times, "total_ns": int(ms * 1e6), "callers": caller}


READ = "method 'read' of '_io.BufferedReader' objects"
OPENS = {**BUILT_IN, "rows": [built_in("built-in method io.open", 600, 180), built_in(READ, 600, 60)]}
# Little of it until the first byte of an answer came.
FIRST_BYTE = {**built_in("HTTPResponse.begin", 50, 20), "file": "/usr/lib/python3.11/http/client.py", "line": 311}
RECEIVES = {**BUILT_IN, "rows": [built_in("method 'recv_into' of '_socket.socket' objects", 1000, 240), FIRST_BYTE]}
# A hook of the user's on a module's calls, which holds 9 of the 20 ms of each timed body.
HOOK: list[dict[str, Any]] = [
    calls("body", 60, (WATCH, 27, 27, []), (BACKWARD, 21, 21, []), (OPTIMIZER, 3, 3, [])),
    {
        "kind": "lines", "of": "body", "complete": True,
        "lines": [{"file": SCRIPT, "function": WATCH[1], "first_line": 60, "line": 64, "count": 36, "ns": 9_000_000}],
        "functions": [{"file": SCRIPT, "function": WATCH[1], "first_line": 60, "calls": 9, "hooks": 9, "inside": 9, "gradient": 9,
                       "nothing": 9, "nodes": 3, "of_nodes": 40}],
    },
    # An accelerator that the process may open, beside parameters on the processor.
    {"kind": "facts", "threads": 4, "accelerators": {"nvidia": 1}, "accelerator_built": True},
]  # fmt: skip
# Of 19 ms that the thread works from one update to the next, 12 are Python between 300 operations, and 4.5 those.
EAGER: list[dict[str, Any]] = [
    {"kind": "facts", "framework": "keras", "optimizers": True, "threads": 4},
    *(
        {
            "kind": "dispatched", "at_ns": START_NS + 1_000_000_000 + 200_000_000 * number, "wall_ns": 19_000_000, "cpu_ns": 17_500_000,
            "delay_ns": 0, "timing_ns": 300_000, "asynchronous": False, "operations": 300, "operations_ns": 4_500_000,
            "operations_cpu_ns": 4_400_000, "low_ns": 8_000, "above_low_ns": 2_000_000, "above_four_times_ns": 900_000,
            "above_sixteen_times_ns": 300_000, "short_gaps_ns": 10_000_000, "gaps_ns": 12_000_000, "capped_gaps_ns": 12_500_000,
        }
        for number in range(16)
    ),
]  # fmt: skip
# Sequences of 16 words and more that are padded up to 128, and a model that does a product on each place of them.
LENGTHS = [16 + 3 * k for k in range(16)]
IDS = {"array": 0, "rows": 16, "length": 128, "lengths": LENGTHS, "value": 0, "side": 1, "inside": 0, "values": 500, "mask": True}
PADDED: list[dict[str, Any]] = [{"kind": "padded", "at_ns": START_NS + k, "iterator": 0, "batch": k, "arrays": [IDS]} for k in range(8)]
SHAPES = {"kind": "shapes", "at_ns": START_NS + 8, "nodes": 12, "shapes": [[[16 * 128, 256], 4, 2**21, 2**29], [[16, 2], 1, 32, 8192]]}
# A chunk of 64 rows that is read and inflated for each sample, in six batches that were looked at.
CHUNKS: dict[str, Any] = {
    "kind": "stored_reads", "of": "fetch", "stretches": 6, "samples": 96, "wall_ns": 363_000_000,
    "looks": [
        {"at_ns": START_NS + 200_000_000 + 100_000_000 * number, "wall_ns": 60_500_000, "samples": 16,
         "rows": [{"library": "h5py", "reader": "Dataset.__getitem__", "file": DATA, "function": "MaskFolder.__getitem__", "first_line": 20,
                   "line": 23, "chunk": [64, 64, 64, 3], "selected": [1, 64, 64, 3], "calls": 16, "inflating": 16, "total_ns": 54_450_000,
                   "inflated_bytes": 16 * 64 * 12_288, "used_bytes": 16 * 12_288}]}
        for number in range(6)
    ],
}  # fmt: skip
# A teacher's backward of 6 ms in each of ten passes that were timed.
TEACHER: list[dict[str, Any]] = [
    {
        "kind": "unused", "at_ns": START_NS + 1_000_000_000 + 200_000_000 * number, "state": "kept", "looks": 8 + number,
        "found": 8 + number,
        "parameters": 73, "elements": 1_354_565, "rounds": 1 + number, "name": "teacher", "nodes": 380, "alone": 220, "halves": 0,
        "passing": 0, "alone_ns": 6_000_000, "halves_ns": 0,
    }
    for number in range(10)
]  # fmt: skip
QUIET = MadeMachine()
DEVICE = {"busy": 30, "sm_mhz": 1000, "lowered_by": 0x40, "tenants": (1, 2, 30 * GIB)}

TABLE: dict[str, Any] = {
    "rows": 125_000, "width": 32, "item_bytes": 4, "ids": 512, "lookups": 1, "seen": 8, "optimizer": 0, "backward_ns": 4_000_000,
    "is_sparse": False, "is_dense_anyway": False,
}  # fmt: skip

# What is simulated, what the machine shows, and what the training's process notes besides.
MADE: dict[str, tuple[dict[str, Any], MadeMachine, list[dict[str, Any]]]] = {
    "busy_thread": ({"beside": (0.9, 12.0)}, QUIET, []),
    "growing_file": ({"after_ms": 1, "after_growth_ms": 20, "after_writes": True, "getitem_ms": 2}, QUIET, []),
    "growing_work": ({"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05}, QUIET, []),
    "rebuilt_sampler": (
        {"after": "Balanced.__init__", "after_ms": 300, "after_on": (*range(24, 300, 25),),
         "input_code": {"sampler_classes": [[SCRIPT, "Balanced"]]}},
        QUIET, []
    ),
    "slow_samples": ({"stragglers": (4, 150), "persistent": True}, QUIET, []),
    "many_files": ({"getitem_ms": 60, "persistent": True, "producer_lines": (OPENS,)}, QUIET, []),
    "chunks_for_rows": ({"getitem_ms": 60, "persistent": True, "producer_lines": (CHUNKS,)}, QUIET, []),
    "slow_network": (
        {"workers": 4, "getitem_ms": 2, "blocked_ms": 160, "blocked_together": True, "producer_lines": (RECEIVES,), "epoch_steps": 10,
         "persistent": True, "cores": 16}, QUIET, []
    ),
    "tables_for_few_rows": (
        {"optimizer_ms": 12.0, "fixed_ms": 8.0, "per_sample_ms": 0.5, "batch_size": 8, "getitem_ms": 0.6, "persistent": True,
         "optimizer": {"type": "Adam", "device": "cpu", "fused": False, "params": 4_001_000, "tensors": 5, "decays": False},
         "tables": (TABLE,)},
        QUIET, []
    ),
    "uneven_steps": ({"uneven": 4.0, "steps": 600, "forward_share": 0.1, "seed": 1}, QUIET, []),
    "too_many_threads": (
        {"threads": 16, "delay_ms": 4}, MadeMachine(throttled=0.5, quota=2.0, resident=lambda share: GIB, limit_bytes=10 * GIB,
                                                   group_bytes=lambda share: (5 + 4.8 * share) * GIB), []
    ),
    "half_on_processor": (
        {"forward_share": 0.4, "fixed_ms": 2, "getitem_ms": 0.5, "persistent": True,
         "work": {"multiplying": 24, "float16": 24, "bfloat16": 0, "unknown": ["Addmm"]}},
        QUIET, [{"kind": "process", "format": 1, "cpu_flags": ["avx512_bf16"]}]
    ),
    "lowered_device": ({"optimizer": {"device": "cuda:0"}}, MadeMachine(device=DEVICE, cuda=True), []),
    "eager_step": ({"forward_share": 0.5, "getitem_ms": 1}, QUIET, EAGER),
    "padded_sequences": ({"getitem_ms": 0.2, "optimizer_ms": 1, "persistent": True}, QUIET, [*PADDED, SHAPES]),
    "teacher_with_graph": ({"forward_share": 0.4, "fixed_ms": 2, "getitem_ms": 0.5, "persistent": True}, QUIET, TEACHER),
    "watching_hook": ({"forward_share": 2 / 3}, QUIET, HOOK),
}  # fmt: skip


def make_synced(folder: Path) -> Path:
    """One of two ranks, whose steps share gradients in each of four backward passes: 8 ms each, of which 3 are computed."""
    events = Events(folder, rank=(0, 2))
    events.loader()
    begin = 0.0
    for k in range(400):
        events.wait(begin, begin + 0.5, k)
        events.backward(begin + 2, begin + 10)
        events.backward_cpu(begin + 2, begin + 10, cpu=3, sync=SYNCED)
        begin += 10
        if k % 4 == 3:
            events.update(begin, begin + 1)
            begin += 1
    events.close()
    return folder


def make_one(folder: Path, training: dict[str, Any], machine: MadeMachine, notes: list[dict[str, Any]]) -> Path:
    """The recording of a simulated training on a machine, with some notes more."""
    made = make_machine_recording(folder, Training(**{"steps": 300, **training}), machine)
    with (made / "100-1.jsonl").open("a") as file:
        file.writelines(json.dumps(note) + "\n" for note in notes)
    return made


# What a `Training` has no field for is a function of its own here.
MAKERS: dict[str, Callable[[Path], Path]] = {
    "synced_passes": make_synced,
    **{name: partial(make_one, training=training, machine=machine, notes=notes) for name, (training, machine, notes) in MADE.items()},
}


def main(names: list[str]) -> None:
    for name in names or MAKERS:
        with tempfile.TemporaryDirectory() as folder:
            size = packed(MAKERS[name](Path(folder)), HERE / f"simulated-{name}.tar.xz")
        print(f"{name}: {size / 1024:.0f} KiB", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
