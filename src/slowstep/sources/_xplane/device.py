"""The devices of an XPlane file: their streams, and what ran on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import polars as pl

from slowstep.health import Health, HealthKind
from slowstep.sources._xplane.plane import Piece, Plane

IMPOSSIBLE_KERNEL_SHAPES: Final = HealthKind(
    "impossible-kernel-shapes",
    "notice",
    "registers or threads of these kernels are beyond what a device has (AMD's profiler does that), and are taken as unknown",
)
_DEVICE_PLANE: Final = re.compile(r"^/device:(GPU|TPU|CUSTOM):(\d{1,6})$")
_STREAM: Final = re.compile(r"^Stream #(\d{1,18})")
# A TPU has no streams: its core runs the operations of this line one after the other, copies run beside it.
TPU_LINES: Final = {"XLA Ops": 0, "Async XLA Ops": 1}
TPU_STEPS: Final = "Steps"

# CUDA allows 255 registers per thread, AMD's CDNA 512 (vector and accumulation registers; AMD Instinct instruction set, "Vector
# registers"); both 1,024 threads in a block. AMD's profiler writes whatever lies in memory.
MOST_REGISTERS: Final = 512
MOST_THREADS: Final = 1024

FACTS: Final = ("correlation_id", "kernel_details", "memcpy_details", "memset_details", "cuda_graph_id")
COLUMNS: Final = {
    "device": pl.Int32,
    "stream": pl.Int64,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
    "kind": pl.String,
    "name": pl.Categorical,
    "correlation": pl.Int64,
    "bytes": pl.Int64,
    "pageable": pl.Boolean,
    "blocks": pl.Int64,
    "block_threads": pl.Int64,
    "registers": pl.Int64,
    "occupancy": pl.Float64,
    "from_graph": pl.Boolean,
}


def device_number(plane: Plane) -> int | None:
    """The number of the device that a plane is of; None for other planes."""
    match = _DEVICE_PLANE.match(plane.name)
    return int(match[2]) if match else None


def device_events(plane: Plane, device: int) -> Iterator[tuple[pl.DataFrame, int]]:
    """What ran on a device (`COLUMNS`), some at a time, and how many kernels of it have an impossible shape. Rows that XProf derives from
    streams are not read.
    """
    lines, has_streams = list(plane.lines()), False
    for line in lines:
        if match := _STREAM.match(line.name):
            for piece in line.pieces():
                has_streams = True
                yield _events(piece, device, int(match[1]))
    for line in lines if not has_streams else ():
        if line.name in TPU_LINES and (found := [_events(piece, device, TPU_LINES[line.name]) for piece in line.pieces()]):
            yield _innermost(pl.concat([frame for frame, _ in found])), sum(doubtful for _, doubtful in found)


def device_facts(plane: Plane, device: int) -> dict[str, Any]:
    """One row of `trace_devices`, and the vendor."""
    facts = plane.facts
    vendor = str(facts.get("device_vendor") or "").lower() or None
    major, minor = facts.get("compute_cap_major"), facts.get("compute_cap_minor")
    # AMD writes its own numbers into the same fields.
    capability = major + minor / 10 if vendor == "nvidia" and isinstance(major, int) and isinstance(minor, int) else None
    return {
        "device": device,
        "name": facts.get("device_type_string") if isinstance(facts.get("device_type_string"), str) else None,
        "memory_bytes": _positive(facts.get("memory_size")),
        "multiprocessors": _positive(facts.get("core_count")),
        "compute_capability": capability,
        "vendor": vendor,
    }


def steps_of_device(plane: Plane) -> list[tuple[int, int, int]]:
    """Number, begin and end of the steps that a TPU marks itself."""
    rows: list[tuple[int, int, int]] = []
    # Only a TPU writes this row itself; a look for it costs reading all of the plane's lines once more.
    for line in plane.lines() if "TPU" in plane.name else ():
        for piece in line.pieces() if line.name == TPU_STEPS else ():
            named = zip(piece.names().to_list(), piece.start_ns.tolist(), piece.end_ns.tolist(), strict=True)
            rows += [(int(name), start, end) for name, start, end in named if name.isdecimal() and len(name) < 16]
    return rows


def garbage(count: int) -> list[Health]:
    """What is said of kernels whose numbers no device could have."""
    return [IMPOSSIBLE_KERNEL_SHAPES(count)] if count else []


def _positive(value: Any) -> int | None:
    return value if isinstance(value, int) and 0 < value < 2**63 else None


def _events(piece: Piece, device: int, stream: int) -> tuple[pl.DataFrame, int]:
    facts, names = piece.facts(*FACTS), piece.names()
    length = len(piece)
    columns: dict[str, list[Any]] = {
        name: [None] * length for name in ("correlation", "bytes", "pageable", "blocks", "block_threads", "registers", "occupancy", "kind")
    }
    doubtful = 0
    for at, value in facts["correlation_id"].items():
        columns["correlation"][at] = value if isinstance(value, int) and value < 2**63 else None
    read: dict[str, dict[str, Any]] = {}
    for at, details in facts["kernel_details"].items():
        parts = read.get(details) or read.setdefault(details, kernel_details(str(details)))
        doubtful += parts["doubtful"]
        for name in ("blocks", "block_threads", "registers", "occupancy"):
            columns[name][at] = parts[name]
    for fact in ("memcpy_details", "memset_details"):
        for at, details in facts[fact].items():
            parts = read.get(f"{fact} {details}") or read.setdefault(f"{fact} {details}", copy_details(str(details)))
            columns["bytes"][at], columns["pageable"][at] = parts["bytes"], parts["pageable"]
            columns["kind"][at] = "memset" if fact == "memset_details" else parts["kind"]
    by_name = {name: kind_of(name) for name in names.unique().to_list()}
    columns["kind"] = [kind or by_name[name] for kind, name in zip(columns["kind"], names.to_list(), strict=True)]
    times = {"start_ns": piece.start_ns, "end_ns": piece.end_ns}
    given = {name: pl.Series(values, dtype=COLUMNS[name]) for name, values in columns.items()}
    events = pl.DataFrame({**times, **given, "name": names}).select(
        *(pl.lit(number, dtype=COLUMNS[name]).alias(name) for name, number in (("device", device), ("stream", stream))),
        *(name for name in COLUMNS if name not in ("device", "stream", "from_graph")),
        pl.Series("from_graph", [bool(facts["cuda_graph_id"].get(at)) for at in range(length)], dtype=pl.Boolean),
    )
    return events, doubtful


def kind_of(name: str) -> str:
    """The kind of a device event by its name. AMD copies and fills by kernels of its runtime (`__amd_rocclr_...`)."""
    lowered = name.lower()
    if lowered.startswith(("memset", "__amd_rocclr_fillbuffer")):
        return "memset"
    for kind, words in _COPY_WORDS.items():
        if lowered.startswith(tuple(f"memcpy{word}" for word in words)):
            return kind
    return "d2d" if lowered.startswith(("memcpy", "__amd_rocclr_copy")) else "kernel"


_COPY_WORDS: Final = {
    "h2d": ("h2d", "htod", " h2d", " htod"),
    "d2h": ("d2h", "dtoh", " d2h", " dtoh"),
    "p2p": ("p2p", "ptop", " p2p", " ptop"),
}


def kernel_details(text: str) -> dict[str, Any]:
    """Grid, block, registers and occupancy of "regs:32 ... grid:16,1,1 block:512,1,1 occ_pct:50"; None is unknown or impossible."""
    parts = _parts(text)
    registers = _whole(parts.get("regs", parts.get("registers_per_thread")))
    blocks, threads = _product(parts.get("grid")), _product(parts.get("block"))
    occupancy = _whole(parts.get("occ_pct"))
    bad_registers = registers is not None and registers > MOST_REGISTERS
    bad_threads = threads is not None and not 1 <= threads <= MOST_THREADS
    return {
        "registers": None if bad_registers else registers,
        "block_threads": None if bad_threads else threads,
        "blocks": blocks if blocks and blocks < 2**63 else None,
        # Always 0 on AMD: not measured.
        "occupancy": occupancy / 100 if occupancy and occupancy <= 100 else None,
        "doubtful": int(bad_registers or bad_threads),
    }


def copy_details(text: str) -> dict[str, Any]:
    """Bytes, pageable and direction of "kind_src:pinned kind_dst:device size:1024 dest:0 async:1" or "kind:HtoD size:1024 ..."."""
    parts = _parts(text)
    source, target = parts.get("kind_src", ""), parts.get("kind_dst", "")
    size = _whole(parts.get("size"))
    host_side = next((side for side in (source, target) if side in ("pageable", "pinned")), None)
    return {
        "bytes": size if size else None,  # 0 is what is written where it is not known
        "pageable": None if host_side is None else host_side == "pageable",
        "kind": _direction(source, target),
    }


def _direction(source: str, target: str) -> str | None:
    on_host = [side in ("pageable", "pinned") for side in (source, target)]
    on_device = [side.startswith(("device", "array")) for side in (source, target)]
    if on_host[0] and on_device[1]:
        return "h2d"
    return "d2h" if on_device[0] and on_host[1] else None


def _parts(text: str) -> dict[str, str]:
    return dict(part.split(":", 1) for part in text.split() if ":" in part)


def _whole(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and len(text) < 19 else None


def _product(text: str | None) -> int | None:
    numbers = [_whole(part) for part in text.split(",")] if text else [None]
    result = 1
    for number in numbers:
        if number is None:
            return None
        result *= number
    return result


def _innermost(events: pl.DataFrame) -> pl.DataFrame:
    """The operations without the loops and calls that hold others, whose time would count twice."""
    ordered = events.sort("start_ns", -pl.col("end_ns"), maintain_order=True)
    return ordered.filter((pl.col("start_ns").shift(-1) >= pl.col("end_ns")).fill_null(True))
