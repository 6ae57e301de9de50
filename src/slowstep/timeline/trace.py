"""What a profiler's trace says of itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceFacts:
    """The facts of one trace, of one rank; None is unknown.

    `recorded` are the kinds of rows that the profiler was asked for and gave: of "operators", "runtime", "device", "shapes", "stacks",
    "python", "memory", "annotations". What is not in it is unknown, not absent.
    """

    format: str  # in words: "Kineto trace", "Nsight Systems export", "XPlane"
    files: tuple[str, ...]
    bytes: int  # that were read, as they lie on disk
    events: int  # that were kept
    recorded: frozenset[str]
    framework: str | None = None  # whose profiler it was, or whose operators are in it
    profiler: str | None = None  # which it was, where it is no framework's: "nsys"
    schema_version: str | None = None
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    vendor: str | None = None  # "nvidia" or "amd"
    complete: bool = True  # False where the file was cut off
    clock_ns: tuple[int, int] | None = None  # its first and last instant by the clock of the day, ns since 1970, where it tells them
    tells_users_names: bool = False  # its "annotations" are ranges that somebody has named; the framework's own names are of other kinds
    costs_its_threads: bool = False  # it writes each event on the thread whose event that is, at the cost that calibration/observing.py has
    gradients: bool | None = None  # whether a program that ran computes gradients, where the trace holds the programs
