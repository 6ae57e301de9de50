"""Accelerators over the window: how busy those of the training were, at which clocks, and who else used them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from slowstep.analyses.machine.window import Window
from slowstep.timeline.timeline import Timeline

# A device under this has next to nothing to do: then it saves power, and low clocks are right.
WORKING_FROM_PERCENT = 10
# nvmlClocksEventReasons of NVIDIA's public header nvml.h, those that take speed from a device that has work.
LOWERED_BY = {
    0x02: "clocks set by an administrator",
    0x04: "power limit",
    0x08: "hardware slowdown",
    0x20: "heat (driver)",
    0x40: "heat (hardware)",
    0x80: "power brake",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceUse:
    """One device over the window; shares are of its readings, `working` ones where named so. None is not measured."""

    device: int
    name: str | None
    readings: int
    busy_share: float | None  # mean share of the time in which some kernel ran
    working: int  # readings in which it had work
    state: int | None  # median performance state of those: 0 the fastest, 15 the slowest
    sm_mhz: float | None  # median clock of those
    most_sm_mhz: int | None
    lowered: dict[str, float]  # share of those in which clocks were lowered, by reason
    power_w: float | None
    power_limit_w: float | None
    default_power_limit_w: float | None
    temperature_c: float | None  # highest
    memory_share: float | None  # highest, of its memory, everybody's
    shared: float | None  # share of readings with a process of the training and one of somebody else
    others_bytes: float | None  # that those held, median
    link: tuple[int, int] | None  # PCIe generation and lanes while working
    most_link: tuple[int, int] | None  # that device and slot have


def find_devices(timeline: Timeline, window: Window) -> tuple[DeviceUse, ...]:
    """The devices on which processes of the training were seen; the only device where processes could not be distinguished."""
    readings = window.readings(timeline.table("device_readings"))
    mine = readings.filter(pl.col("own_processes") > 0)["device"].unique().sort().to_list()
    present = readings["device"].unique().to_list()
    if not mine and len(present) == 1:
        mine = present
    described = {row["device"]: row for row in timeline.table("devices").iter_rows(named=True)}
    return tuple(_use(device, readings.filter(pl.col("device") == device), described.get(device, {})) for device in mine)


def _use(device: int, readings: pl.DataFrame, about: dict[str, object]) -> DeviceUse:
    working = readings.filter(pl.col("busy_percent") >= WORKING_FROM_PERCENT)
    tenants = readings.drop_nulls("own_processes")
    shared = tenants.filter(pl.col("own_processes") > 0, pl.col("other_processes") > 0)
    memory = about.get("memory_bytes")
    most_used = _number(readings["used_bytes"].max())
    state = _number(working["state"].median())
    return DeviceUse(
        device=device,
        name=_text(about.get("name")),
        readings=readings.height,
        busy_share=_scaled(readings["busy_percent"].mean(), 0.01),
        working=working.height,
        state=None if state is None else round(state),
        sm_mhz=_number(working["sm_mhz"].median()),
        most_sm_mhz=_whole(about.get("most_sm_mhz")),
        lowered=_lowered(working["lowered_by"].drop_nulls()),
        power_w=_scaled(working["power_mw"].median(), 1e-3),
        power_limit_w=_scaled(about.get("power_limit_mw"), 1e-3),
        default_power_limit_w=_scaled(about.get("default_power_limit_mw"), 1e-3),
        temperature_c=_number(readings["temperature_c"].max()),
        memory_share=most_used / memory if most_used is not None and isinstance(memory, int) and memory else None,
        shared=_share_shared(tenants, shared),
        others_bytes=_number(shared["others_bytes"].median()),
        link=_pair(working["link_generation"].max(), working["link_lanes"].max()),
        most_link=_pair(about.get("link_generation"), about.get("link_lanes")),
    )


def _share_shared(tenants: pl.DataFrame, shared: pl.DataFrame) -> float | None:
    # In a container the driver may list processes by numbers of the host: then nobody's own is known, nor is anybody else.
    known = tenants.filter(pl.col("own_processes") > 0).height
    return shared.height / known if known else None


def _lowered(bits: pl.Series) -> dict[str, float]:
    if not len(bits):
        return {}
    values = bits.to_numpy()
    shares = {reason: float(((values & bit) != 0).mean()) for bit, reason in LOWERED_BY.items()}
    return {reason: share for reason, share in shares.items() if share > 0}


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) else None


def _scaled(value: object, factor: float) -> float | None:
    number = _number(value)
    return None if number is None else number * factor


def _whole(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _pair(first: object, second: object) -> tuple[int, int] | None:
    one, two = _whole(first), _whole(second)
    return None if one is None or two is None else (one, two)
