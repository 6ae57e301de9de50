"""The launcher's readings of a machine, added to a recording made by hand: constant rates, or a series over the run (0 to 1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from made_recordings import MS, START_NS, TRAINER_PID, Training, make_recording
from slowstep.record.writing import format as fmt

MIB, GIB = 1 << 20, 1 << 30
SECOND = 1000 * MS
Course = Callable[[float], float]


@dataclass(kw_only=True)
class MadeMachine:
    """What was read beside the training. None: not read."""

    every_ms: float = 100.0
    resident: Course | None = None  # bytes of no file, by the share of the run that is over
    mapped: Course = lambda share: 0.0  # bytes of files, beside them
    largest_pid: int = TRAINER_PID
    limit_bytes: int | None = None  # of the control group
    group_bytes: Course | None = None
    droppable_bytes: int = 0
    available: Course | None = None
    total_bytes: int = 64 * GIB
    swap_in_per_s: float | None = None
    throttled: float | None = None  # share of periods
    quota: float | None = None
    affinity: tuple[int, int] | None = None  # of the training process: cores before the window, and at its end
    idle_cores: float | None = None
    queueing: float | None = None  # threads
    pressure: float | None = None
    disk: tuple[float, float] | None = None  # bytes read per second, share busy
    network_per_s: float | None = None
    device: dict[str, Any] | None = None  # see _device
    cuda: bool = False


def make_machine_recording(folder: Path, training: Training, machine: MadeMachine) -> Path:
    make_recording(folder, training)
    records = folder / "launcher.rec"
    kept = [record for record in fmt.RECORD.iter_unpack(records.read_bytes()) if record[-1]]
    end = max(record[1] for record in kept)
    moments = [START_NS + int(i * machine.every_ms * MS) for i in range(int((end - START_NS) / (machine.every_ms * MS)) + 1)]
    for now in moments:
        since = now - START_NS
        for kind, a, b, c, index in _readings(machine, since, since / max(end - START_NS, 1), training):
            kept.append((now, now, int(a), int(b), int(c), index, 0, 0, kind))
    records.write_bytes(b"".join(fmt.RECORD.pack(*record) for record in sorted(kept, key=lambda r: r[0])))
    _note(folder / "launcher.jsonl", [{"kind": "disk", "id": 0, "name": "sda"}] if machine.disk else [])
    if machine.device is not None:
        about = {
            "kind": "gpu",
            "id": 0,
            "name": "H1",
            "memory_bytes": 80 * GIB,
            "most_sm_mhz": 2000,
            "link_generation": 5,
            "link_lanes": 16,
        }
        limits = {"power_limit_mw": machine.device.get("power_limit_mw", 700_000), "default_power_limit_mw": 700_000}
        _note(folder / "launcher.jsonl", [about | limits])
    if machine.cuda:
        _note(folder / "100-1.jsonl", [{"kind": "facts", "threads": 4, "cuda_available": True}])
    return folder


def _note(path: Path, lines: list[dict[str, Any]]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)


def _readings(m: MadeMachine, since: int, share: float, training: Training) -> list[tuple[int, float, float, float, int]]:
    seconds = since / SECOND
    found: list[tuple[int, float, float, float, int]] = []
    if m.resident is not None:
        found.append((fmt.READING_RSS, m.resident(share) + m.mapped(share), m.resident(share), m.resident(share) / 2, m.largest_pid))
        found.append((fmt.READING_FAULTS, 1000 * seconds, 3 * seconds, 0, 0))
    if m.group_bytes is not None:
        found.append((fmt.READING_GROUP_MEMORY, m.group_bytes(share), -1 if m.limit_bytes is None else m.limit_bytes, m.droppable_bytes, 0))
    if m.available is not None:
        found.append((fmt.READING_MEMORY, m.total_bytes, m.available(share), 0, 0))
    if m.swap_in_per_s is not None:
        found.append((fmt.READING_SWAP, GIB, m.swap_in_per_s * seconds, 0, 0))
    if m.throttled is not None:
        found.append((fmt.READING_THROTTLE, 10 * seconds, 10 * seconds * m.throttled, since, 0))
    if m.quota is not None and since == 0:
        found.append((fmt.READING_QUOTA, 1000 * m.quota, 0, 0, 0))
    if m.affinity is not None and since < 2 * m.every_ms * MS:
        cores = m.affinity[0] if since == 0 else m.affinity[1]
        found.append((fmt.READING_AFFINITY, cores, cores, 0, TRAINER_PID))
    if m.idle_cores is not None:
        found.append((fmt.READING_TIMES, m.idle_cores * since, 0, 0, 0))
    if m.queueing is not None:
        found.append((fmt.READING_DELAY, m.queueing * since, 4, 4, 0))
    if m.pressure is not None:
        found.append((fmt.READING_PRESSURE, m.pressure * since, -1, 0, 0))
    if m.disk is not None:
        found.append((fmt.READING_DISK, m.disk[0] * seconds, 0, m.disk[1] * since, 0))
    if m.network_per_s is not None:
        found.append((fmt.READING_NETWORK, m.network_per_s * seconds, 0, 0, 0))
        found.append((fmt.READING_NETWORK, 7 * seconds, 0, 0, 1))
    return found + ([] if m.device is None else _device(m.device, share))


def _device(d: dict[str, Any], share: float) -> list[tuple[int, float, float, float, int]]:
    busy = d.get("busy", 95)
    found: list[tuple[int, float, float, float, int]] = [
        (fmt.READING_GPU_USE, busy(share) if callable(busy) else busy, 10, 20 * GIB, 0),
        (fmt.READING_GPU_CLOCK, d.get("sm_mhz", 1900), 3000, d.get("state", 0), 0),
        (fmt.READING_GPU_LIMIT, d.get("lowered_by", 0), 500_000, 60, 0),
        (fmt.READING_GPU_LINK, 5, 16, 0, 0),
    ]
    if "tenants" in d:
        found.append((fmt.READING_GPU_TENANTS, *d["tenants"], 0))
    return found
