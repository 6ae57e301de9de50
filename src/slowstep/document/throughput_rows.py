"""The throughput of a report as plain data, and what slowstep itself cost it."""

from __future__ import annotations

from typing import Final, NotRequired, TypedDict


class Spread(TypedDict):
    """Milliseconds of a step without periodic events."""

    median: float | None
    p05: float | None
    p95: float | None


class Ends(TypedDict):
    """The ends of a 90 % interval."""

    low: float
    high: float


class Reach(TypedDict):
    """A factor of throughput, with the ends of its 90 % interval."""

    gain: float
    low: float
    high: float


class Throughput(TypedDict):
    """How fast the training went; the interval is that of another run like it on this machine. `reach` is what it would gain if input,
    output and store cost nothing.
    """

    samples_per_s: float | None
    steps_per_s: float | None
    steps_per_s_interval: NotRequired[Ends]
    reach: NotRequired[Reach]
    step_ms: Spread


NO_THROUGHPUT: Final[Throughput] = {"samples_per_s": None, "steps_per_s": None, "step_ms": {"median": None, "p05": None, "p95": None}}


class OverheadPart(TypedDict):
    """What a part of slowstep cost: hooks, stacks, monitors, or the profiler that `--capture` asks for."""

    name: str
    share: float


class Overhead(TypedDict):
    """What slowstep itself cost the training; `held` says whether recording, without the profiler, keeps to its limit."""

    us_per_step: float | None
    share: float | None
    once_ms: NotRequired[float]
    parts: NotRequired[list[OverheadPart]]
    limit_share: NotRequired[float]
    held: NotRequired[bool]
    call_timing_share_at_most: NotRequired[float | None]
    may_exceed: NotRequired[bool]
    """Whether recording, with all that timing calls may have taken, may cost more than its limit."""
