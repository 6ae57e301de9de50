"""A simulated training and the same with the first fix applied: the problem is named, and the predicted gain is the true one."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from made_recordings import DATA, MS, SCRIPT, START_NS, Training, make_recording
from slowstep.diagnosis.evidence.input.input_side import RELIEF_EXPECTED
from slowstep.document.report import Report
from slowstep.document.validity import validate
from slowstep.workflow.diagnose_recordings import diagnose_recording

# Rule: the training that has the problem, what the report must say of it, and the same training with the first fix applied.
# Three quarters of what is known to be fixed is the optimizer's; the rest is what 280 nodes usually cost.
ONE_SIZE: dict[str, Any] = {"optimizer_ms": 12.0, "fixed_ms": 4.0, "nodes": 280, "persistent": True}

# A millisecond of work beside batches that are received in longer than they are made.
IN_MEMORY: dict[str, Any] = {
    "getitem_ms": 0.1, "collate_ms": 0.3, "receive_ms": 1.2, "per_sample_ms": 0.05, "fixed_ms": 0.1, "optimizer_ms": 0.1, "nodes": 4,
    "steps": 2000, "epoch_steps": 1000, "persistent": True, "workers": 2,
}  # fmt: skip

# An optimizer of 12 ms in steps of 20, and what is left of it.
UNFUSED: dict[str, Any] = {
    **ONE_SIZE, "batch_size": 8, "getitem_ms": 0.6, "collate_ms": 0.1, "per_sample_ms": 0.5,
    "optimizer": {"type": "Adam", "device": "cpu", "fused": False},
}  # fmt: skip
FUSED: dict[str, Any] = {"optimizer_ms": 0.28 * UNFUSED["optimizer_ms"]}

# A table of four million elements, with 12 ms of an optimizer and 6 ms of a backward that would hardly be there.
TABLES: dict[str, Any] = {
    **UNFUSED, "fixed_ms": 8.0,
    "optimizer": {"type": "Adam", "device": "cpu", "fused": False, "params": 4_001_000, "tensors": 5, "decays": False},
    "tables": (
        {"rows": 125_000, "width": 32, "item_bytes": 4, "ids": 512, "lookups": 1, "seen": 8, "optimizer": 0, "backward_ns": 4_000_000,
         "is_sparse": False, "is_dense_anyway": False},
    ),
}  # fmt: skip

# Steps whose framework dispatches 300 small operations and two that compute for 1.5 ms each; Python between them takes 12 ms.
EAGER: dict[str, Any] = {
    "workers": 0, "getitem_ms": 0.2, "collate_ms": 0.1, "per_sample_ms": 0.0, "fixed_ms": 16.9, "optimizer_ms": 0.5,
    "producer_lines": tuple(
        {"kind": "dispatched", "at_ns": START_NS + (500 + 100 * number) * MS, "wall_ns": 17_800_000, "cpu_ns": 17_800_000, "delay_ns": 0,
         "timing_ns": 0, "asynchronous": False, "operations": 302, "operations_ns": 5_400_000, "operations_cpu_ns": 5_400_000,
         "low_ns": 8_000, "above_low_ns": 2_984_000, "above_four_times_ns": 2_936_000, "above_sixteen_times_ns": 2_744_000,
         "short_gaps_ns": 12 * MS, "gaps_ns": 12 * MS, "capped_gaps_ns": 12 * MS}
        for number in range(20)
    ),
}  # fmt: skip
# Looks at batches, of which a chunk of 64 rows is read and inflated for each sample.
CHUNKS_FOR_ROWS: dict[str, Any] = {
    "kind": "stored_reads", "of": "fetch", "stretches": 6, "samples": 96, "wall_ns": 363_000_000,
    "looks": [
        {"at_ns": START_NS + (200 + 100 * number) * MS, "wall_ns": 60_500_000, "samples": 16,
         "rows": [{"library": "h5py", "reader": "Dataset.__getitem__", "file": DATA, "function": "MaskFolder.__getitem__", "first_line": 20,
                   "line": 23, "chunk": [64, 64, 64, 3], "selected": [1, 64, 64, 3], "calls": 16, "inflating": 16, "total_ns": 54_450_000,
                   "inflated_bytes": 16 * 64 * 12_288, "used_bytes": 16 * 12_288}]}
        for number in range(6)
    ],
}  # fmt: skip
# What they compute, which is not fused, and what a compiled call takes for as many where one takes 48 us (benchmarks/eager_step.py).
COMPILED_MS = 3.0 + 0.5

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], Callable[[Report], dict[str, Any]]]] = {
    "serial-loader": (
        {"workers": 0, "getitem_ms": 10},
        {"stage": "preprocess"},
        lambda report: {"workers": 1, "persistent": True, "receive_ms": 1},
    ),
    # A thread that never waits, and keeps the training from the GIL for 12 ms of each step.
    "gil-contention": (
        {"beside": (0.9, 12.0), "late_ms": 2.0, "engine_calls": (("/usr/lib/python3.11/copy.py", "copy", 1, 2),), "threads": 1},
        {"stage": "compute"},
        lambda report: {"beside": None},
    ),
    "serial-loader reading": (
        {"workers": 0, "getitem_ms": 1, "blocked_ms": 12, "storage": True},
        {"stage": "read"},
        lambda report: {"workers": 1, "persistent": True, "receive_ms": 1},
    ),
    "serial-loader in a loop without a loader": (
        {"loader": False, "input_ms": 12},
        {"stage": "preprocess", "made in the loop": "train.py:24"},
        lambda report: {"loader": True, "getitem_ms": 12, "collate_ms": 0, "persistent": True, "receive_ms": 1},
    ),
    "serial-loader reading in a loop without a loader": (
        {"loader": False, "input_ms": 12, "input_blocked_ms": 11},
        {"stage": "read", "made in the loop": "train.py:24"},
        lambda report: {"loader": True, "getitem_ms": 1, "blocked_ms": 11, "collate_ms": 0, "persistent": True, "receive_ms": 1},
    ),
    "too-few-workers": ({"blocked_ms": 24, "storage": True}, {"stage": "read"}, lambda report: {"workers": _proposed(report)}),
    "too-few-workers of two": ({"getitem_ms": 52, "workers": 2}, {"stage": "preprocess"}, lambda report: {"workers": _proposed(report)}),
    "too-few-workers in short epochs": (
        {"getitem_ms": 8, "blocked_ms": 40, "epoch_steps": 10, "persistent": True, "cores": 16},
        {"stage": "read"},
        lambda report: {"workers": _proposed(report)},
    ),
    "serial-loader in short epochs": (
        {"workers": 0, "getitem_ms": 60, "epoch_steps": 10, "cores": 16},
        {"stage": "preprocess"},
        lambda report: {"workers": _proposed(report), "persistent": True, "receive_ms": 1},
    ),
    "slow-callback in short epochs of a loader that nearly binds": (
        {"workers": 3, "getitem_ms": 45, "blocked_ms": 25, "after_ms": 15, "epoch_steps": 10, "persistent": True, "cores": 16},
        {"stage": "output", "function": "save_mask_images"},
        lambda report: {"after_ms": 0},
    ),
    "slow-collate": (
        {"collate_ms": 26, "collate": "__main__.pad_slowly"},
        {"stage": "preprocess", "collate function": "pad_slowly", "also": ["too-few-workers"]},
        lambda report: {"collate_ms": 4},
    ),
    "slow-collate serial": (
        {"workers": 0, "getitem_ms": 2, "collate_ms": 20, "collate": "pad_slowly"},
        {"stage": "preprocess", "collate function": "pad_slowly", "also": ["serial-loader"]},
        lambda report: {"collate_ms": 4},
    ),
    "slow-transform": (
        {"getitem_ms": 70, "transform": ("augment", 0.8), "cores": 2},
        {"stage": "preprocess", "function": "augment"},
        lambda report: {"getitem_ms": 70 * (0.2 + 0.8 * 0.05)},
    ),
    "read-amplification": (
        {"getitem_ms": 60, "persistent": True, "producer_lines": (CHUNKS_FOR_ROWS,)},
        {"stage": "preprocess", "function": "MaskFolder.__getitem__", "read for it": 64.0, "also": ["too-few-workers"]},
        # Of what reading takes a twentieth is left.
        lambda report: {"getitem_ms": 60 - 0.95 * 0.9 * 60.5, "producer_lines": ()},
    ),
    "read-amplification of a serial loader": (
        # Where more of them compute, workers gain more.
        {"workers": 0, "getitem_ms": 60, "cores": 2, "producer_lines": (CHUNKS_FOR_ROWS,)},
        {"stage": "preprocess", "also": ["serial-loader"]},
        lambda report: {"getitem_ms": 60 - 0.95 * 0.9 * 60.5, "producer_lines": ()},
    ),
    "small-batch": (
        {"batch_size": 2, "last_batch": 1, "getitem_ms": 0.6, "collate_ms": 0.1, "fixed_ms": 12, "epoch_steps": 20, "persistent": True},
        {"stage": "compute"},
        # As the finding assumes: a tenth less time per sample.
        lambda report: {
            "batch_size": _evidence(report, "batch size assumed"),
            "last_batch": 8,
            "getitem_ms": 4.8,
            "collate_ms": 0.8,
            "per_sample_ms": 0.9,
        },
    ),
    "slow-transform beside which the training waits for a core": (
        {"getitem_ms": 70, "transform": ("augment", 0.8), "cores": 2, "workers": 2, "delay_ms": 8},
        {"stage": "preprocess", "function": "augment"},
        # The waiting goes with the CPU time that made it.
        lambda report: {"getitem_ms": 70 * (0.2 + 0.8 * 0.05), "delay_ms": 8 * (0.2 + 0.8 * 0.05)},
    ),
    "slow-collate beside which the training waits for a core": (
        {"collate_ms": 26, "collate": "pad_slowly", "delay_ms": 8},
        {"stage": "preprocess", "collate function": "pad_slowly"},
        lambda report: {"collate_ms": 4, "delay_ms": 8 * (6 + 4) / (6 + 26)},
    ),
    "small-batch of steps of one size": (
        {**ONE_SIZE, "batch_size": 2, "getitem_ms": 0.6, "collate_ms": 0.1, "per_sample_ms": 0.5},
        {"stage": "compute"},
        lambda report: {
            **ONE_SIZE,
            "batch_size": _evidence(report, "batch size assumed"),
            "getitem_ms": 4.8,
            "collate_ms": 0.8,
            "per_sample_ms": 0.45,
        },
    ),
    "eager-step": (
        EAGER,
        {"stage": "compute", "operations": 302},
        lambda report: {"fixed_ms": COMPILED_MS - EAGER["optimizer_ms"], "producer_lines": ()},
    ),
    "needless-workers": (
        IN_MEMORY,
        {"stage": "preprocess"},
        # Nothing was mapped, and the batches pass through the caches.
        lambda report: {"workers": 0, "collate_ms": 0.3 / 4, "per_sample_ms": 0.05 * 1.125 - 0.2 / 16},
    ),
    "slow-callback": ({"after_ms": 15}, {"stage": "output", "function": "save_mask_images"}, lambda report: {"after_ms": 0}),
    "slow-callback without a loader": (
        {"after_ms": 15, "loader": False},
        {"stage": "output", "function": "save_mask_images"},
        lambda report: {"after_ms": 0},
    ),
    "slow-callback that hides the loader": (
        {"after_ms": 20, "getitem_ms": 30},
        {"stage": "output", "function": "save_mask_images"},
        lambda report: {"after_ms": 0},
    ),
    "blocking-checkpoint": ({"saves": (5, 40)}, {"stage": "store"}, lambda report: {"saves": None}),
    "unfused-optimizer": (UNFUSED, {"stage": "compute"}, lambda report: FUSED),
    "dense-update-of-embeddings": (
        TABLES,
        {"stage": "compute", "rows touched at most": 512, "also": ["unfused-optimizer"]},
        # As calibrated: 0.15 ms and 1.1 us a row are left of the table, and the optimizer's time for the others.
        lambda report: {"optimizer_ms": 0.05 + 0.15 + 512 * 0.0011, "fixed_ms": 4.0},
    ),
}

BALANCED = {"sampler_classes": [[SCRIPT, "Balanced"]]}
# Of time that is not every step: the problem, the stage, and the same training with the first fix applied.
OVER_TIME: dict[str, tuple[dict[str, Any], str, dict[str, Any]]] = {
    "frequent-validation": ({"validation": (5, 60)}, "output", {"validation": (10, 60)}),
    "frequent-validation once an epoch, longer than the epoch": (
        {"validation": (25, 500), "epoch_steps": 25}, "output", {"validation": (50, 500), "epoch_steps": 25}
    ),
    "worker-restart": ({"start_ms": 100}, "preprocess", {"start_ms": 1}),
    "worker-restart of a trainer that counts batches": (
        {"start_ms": 100, "reads_to_end": False, "is_counted": True}, "preprocess", {"start_ms": 1}
    ),
    "iterator-recreated": (
        {"epoch_steps": 1, "reads_to_end": False, "prefetch": 1}, "preprocess", {"epoch_steps": 300, "persistent": True}
    ),
    "iterator-recreated of a serial loader whose epochs have one batch": (
        {"epoch_steps": 1, "order_ms": 40, "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}, "preprocess",
        {"epoch_steps": 300, "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}
    ),
    "rebuilt-input": (
        {"after": "Balanced.__init__", "after_ms": 300, "after_on": (*range(24, 300, 25),), "input_code": BALANCED}, "preprocess", {}
    ),
    "straggler-samples": ({"stragglers": (4, 150), "persistent": True}, "preprocess", {"persistent": True}),
    "straggler-samples of a serial loader": (
        {"stragglers": (12, 150), "workers": 0, "getitem_ms": 1, "collate_ms": 0.1}, "preprocess",
        {"workers": 0, "getitem_ms": 1, "collate_ms": 0.1}
    ),
    "growing-step-time": (
        {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05}, "compute", {"getitem_ms": 2, "forward_share": 0.05}
    ),
    "growing-step-time by a function": (
        {"after_ms": 1, "after_growth_ms": 20, "getitem_ms": 2}, "output", {"after_ms": 1, "getitem_ms": 2}
    ),
    "growing-file": (
        {"after_ms": 1, "after_growth_ms": 20, "after_writes": True, "getitem_ms": 2}, "output",
        {"after_ms": 1, "after_writes": True, "getitem_ms": 2}
    ),
    "growing-step-time by a graph that is kept": (
        {"work_growth_ms": 20, "getitem_ms": 2, "forward_share": 0.05, "more_kept": 2000}, "compute",
        {"getitem_ms": 2, "forward_share": 0.05}
    ),
    "growing-file by an encoder that is in no stack": (
        {"after_ms": 1, "after_growth_ms": 20, "written_growth_bytes": 2_000_000, "getitem_ms": 2}, "output",
        {"after_ms": 1, "getitem_ms": 2}
    ),
    "growing-file on a core that it takes from the workers": (
        {"after_ms": 1, "after_growth_ms": 60, "after_writes": True, "getitem_ms": 10, "cores": 2}, "output",
        {"after_ms": 1, "after_writes": True, "getitem_ms": 10, "cores": 2}
    ),
    "periodic-stall": ({"stall": (10, 60)}, "compute", {}),
}  # fmt: skip

IN_COLLATE: dict[str, Any] = {"workers": 0, "getitem_ms": 0.2, "collate_ms": 0.1, "per_sample_ms": 0.5, "batch_bytes": 1000}
AFTER_UPDATE: dict[str, Any] = {"workers": 2, "getitem_ms": 4, "per_sample_ms": 0.5, "persistent": True}
# What `collects` leaves is one collection in 500 steps.
COLLECTING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    f"garbage-collection {where}": ({**training, "collects": (1, 6.0)}, {**training, "collects": (500, 6.0)})
    for where, training in (("in collate", IN_COLLATE), ("after the update", AFTER_UPDATE))
}

ALL: dict[str, tuple[dict[str, Any], str, Callable[[Report], dict[str, Any]]]] = {
    **{name: (changes, expected["stage"], lambda report, name=name: {**CASES[name][0], **CASES[name][2](report)})
       for name, (changes, expected, _) in CASES.items()},
    **{name: (changes, stage, lambda report, fixed=fixed: fixed) for name, (changes, stage, fixed) in OVER_TIME.items()},
    **{name: (changes, "output", lambda report, fixed=fixed: fixed) for name, (changes, fixed) in COLLECTING.items()},
}  # fmt: skip


def _marked() -> list[Any]:
    """The first case of every second rule; others are left out of the quick tests."""
    seen: set[str] = set()
    marked = []
    for case in ALL:
        rule = case.split()[0]
        marked.append(pytest.param(case, marks=[pytest.mark.slow] if rule in seen or len(seen) % 2 else []))
        seen.add(rule)
    return marked


def report_of(folder: Path, changes: dict[str, Any]) -> Report:
    report = diagnose_recording(make_recording(folder, Training(**{"steps": 300, **changes})))
    validate(report)
    return report


def _evidence(report: Report, name: str) -> Any:
    return next(row["value"] for row in report["findings"][0]["evidence"] if row["name"] == name)


def _proposed(report: Report) -> int:
    """As many workers as the first fix's lever has."""
    return int(re.findall(r"workers=(\d+)", report["findings"][0]["fixes"][0]["lever"])[0])


@pytest.mark.parametrize("case", _marked())
def test_the_problem_is_named_and_the_predicted_gain_is_the_true_one(tmp_path, case):
    changes, stage, fixed = ALL[case]

    before = report_of(tmp_path / "before", changes)
    after = report_of(tmp_path / "after", fixed(before))

    verdict, finding = before["verdict"], before["findings"][0]
    assert (verdict["state"], verdict["rule"], verdict["stage"]) == ("bottleneck", case.split()[0], stage), verdict["summary"]
    assert (finding["rule"], finding["stage"]) == (verdict["rule"], stage)
    for name, value in _told(case).items():
        assert (finding["also"] if name == "also" else _evidence(before, name)) == value
    claims = [claim for found in before["findings"] for claim in found["claims"]]
    assert len(claims) == len(set(claims))
    truth = after["throughput"]["samples_per_s"] / before["throughput"]["samples_per_s"]
    # Cores of a simulation do not slow each other, as a relieved worker's and the training's are expected to.
    relieved = RELIEF_EXPECTED if finding["rule"] in ("slow-collate", "slow-transform", "read-amplification") else 0.0
    near = 0.08 if case in OVER_TIME else 0.05
    assert (1 - near) * truth <= finding["gain"]["predicted"] <= (1 + near + relieved) * truth
    assert finding["gain"]["low"] <= truth <= finding["gain"]["high"]


def _told(case: str) -> dict[str, Any]:
    """What else the first finding must say: evidence by name, and the rules that are folded into it."""
    return {name: value for name, value in CASES[case][1].items() if name != "stage"} if case in CASES else {}
