"""What a Kineto file says of itself, of its devices and of its rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from slowstep.timeline.schema import TABLE

Metadata = Mapping[str, Any]
# Of what is counted one by one: devices, multiprocessors, ranks.
_MOST_SMALL = 2**31


def devices_table(metadata: Metadata, device_events: pl.DataFrame, vendor: str | None) -> pl.DataFrame:
    """The devices that the file describes or that something ran on, by number."""
    listed = metadata.get("deviceProperties")
    described = (
        {row["id"]: row for row in listed if isinstance(row, dict) and _whole(row.get("id"), _MOST_SMALL) is not None}
        if isinstance(listed, list)
        else {}
    )
    numbers = sorted({*described, *device_events["device"].unique().to_list()})
    rows = [_device(number, described.get(number, {}), vendor) for number in numbers]
    return TABLE["trace_devices"].of(rows)


def _device(number: int, row: Mapping[str, Any], vendor: str | None) -> tuple[Any, ...]:
    major, minor = _whole(row.get("computeMajor"), _MOST_SMALL), _whole(row.get("computeMinor"), _MOST_SMALL)
    capability = None if major is None or minor is None or vendor == "amd" else major + minor / 10
    name = row.get("name")
    memory_bytes, multiprocessors = _whole(row.get("totalGlobalMem")), _whole(row.get("numSms"), _MOST_SMALL)
    return number, name if isinstance(name, str) else None, memory_bytes, multiprocessors, capability


def rank_of(metadata: Metadata) -> tuple[int | None, int | None]:
    """(rank, ranks of the job); None where the file does not say."""
    info = metadata.get("distributedInfo")
    return (_whole(info.get("rank"), _MOST_SMALL), _whole(info.get("world_size"), _MOST_SMALL)) if isinstance(info, dict) else (None, None)


def base_of(metadata: Metadata) -> int:
    """The time, ns since 1970, from which the file's times count; 0 where it says none (before PyTorch 2.3 they counted from 1970)."""
    return _whole(metadata.get("baseTimeNanoseconds")) or 0


def host_of(metadata: Metadata) -> str | None:
    """The machine's name; None where the file does not say."""
    for key in ("host_name", "hostname"):
        if isinstance(name := metadata.get(key), str):
            return name
    return None


def vendor_of(metadata: Metadata, names: list[str]) -> str | None:
    """Who made the devices: by the runtime's versions, the products' names, else by the names of the runtime's calls."""
    if any(key.startswith(("hip_", "roctracer", "rocprofiler")) for key in metadata):
        return "amd"
    if any(key.startswith(("cuda_", "cupti")) for key in metadata):
        return "nvidia"
    listed = metadata.get("deviceProperties")
    products = " ".join(str(row.get("name")) for row in listed if isinstance(row, dict)) if isinstance(listed, list) else ""
    for vendor, words in (("amd", ("AMD", "Radeon", "Instinct")), ("nvidia", ("NVIDIA", "Tesla", "GeForce", "Quadro"))):
        if any(word in products for word in words):
            return vendor
    calls = [name for name in names if name.startswith(("hip", "cuda", "cuLaunch", "cuMem"))]
    return None if not calls else "amd" if calls[0].startswith("hip") else "nvidia"


def asked_for(metadata: Metadata, tables: Mapping[str, pl.DataFrame]) -> frozenset[str]:
    """What the profiler was asked for and gave, beyond what events tell by their kind; see `TraceFacts`."""
    hosts = tables["host_events"]
    found = {
        "shapes": metadata.get("record_shapes") == 1,
        "stacks": hosts["stack"].null_count() < len(hosts),
        "memory": metadata.get("profile_memory") == 1 or len(tables["allocations"]) > 0,
        "annotations": len(tables["marked_steps"]) > 0,
    }
    return frozenset(name for name, is_there in found.items() if is_there)


def _whole(value: Any, most: int = 2**62) -> int | None:
    """A whole number from 0 on that a table can hold; None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < most else None
