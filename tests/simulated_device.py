"""A host and a device with streams, simulated by arithmetic: what a profiler would have recorded of a program of launches and waits.

Times are microseconds. A launch takes LAUNCH on the host and reaches an idle stream LATENCY after its begin; work follows other work of its
stream at once; a waiting call takes CALL itself and returns RETURN after what it awaits.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from made_traces import device, host, made_trace, step
from slowstep.analyses.events.tables import STEPS
from slowstep.timeline.timeline import Timeline

LAUNCH, LATENCY, CALL, RETURN = 5.0, 6.0, 4.0, 3.0


class Simulated:
    def __init__(self) -> None:
        self.now = 0.0
        self.free: dict[int, float] = {}
        self.hosts: list[dict[str, Any]] = []
        self.devices: list[dict[str, Any]] = []
        self.marks = [0.0]
        self._barrier: dict[int, float] = {}
        self._number = 0

    def work(self, us: float, name: str | None = None, kind: str = "annotation", thread: int = 0) -> None:
        """The host does something of its own, named or not."""
        if name is not None:
            self.hosts.append(host(name, self.now, self.now + us, kind, thread=thread))
        self.now += us

    def launch(
        self,
        us: float,
        stream: int = 7,
        kind: str = "kernel",
        name: str = "kernel",
        call: str = "cudaLaunchKernel",
        thread: int = 0,
        **more: Any,
    ) -> float:
        """Launch device work; returns when it will have ended."""
        self._number += 1
        begin = max(self.now + LATENCY, self.free.get(stream, 0.0), self._barrier.pop(stream, 0.0))
        self.free[stream] = begin + us
        self.devices.append(device(name, begin, begin + us, kind, stream=stream, correlation=self._number, **more))
        self.hosts.append(host(call, self.now, self.now + LAUNCH, "runtime", correlation=self._number, thread=thread))
        self.now += LAUNCH
        return begin + us

    def wait(self, stream: int | None = None, thread: int = 0) -> None:
        """Wait for a stream, or for the device."""
        done = max(self.free.values(), default=0.0) if stream is None else self.free.get(stream, 0.0)
        end = max(self.now + CALL, done + RETURN)
        name = "cudaDeviceSynchronize" if stream is None else "cudaStreamSynchronize"
        self.hosts.append(host(name, self.now, end, "runtime", thread=thread))
        self.now = end

    def copy_and_wait(self, us: float, kind: str, **more: Any) -> None:
        """A copy whose call returns when it is done."""
        done = self.launch(us, kind=kind, name=f"Memcpy {kind}", call="cudaMemcpyAsync", **more)
        begin = self.now - LAUNCH
        self.now = max(self.now, done + RETURN)
        self.hosts[-1] |= {"start": begin, "end": self.now}

    def after(self, stream: int, other: int) -> None:
        """Let what comes next on a stream wait for all that was launched on another."""
        self._barrier[stream] = max(self._barrier.get(stream, 0.0), self.free.get(other, 0.0))
        self.hosts.append(host("cudaStreamWaitEvent", self.now, self.now + 1.0, "runtime"))
        self.now += 1.0

    def step(self) -> None:
        self.marks.append(self.now)

    def trace(self, **facts: Any) -> Timeline:
        marks = [step(n, a, b) for n, (a, b) in enumerate(zip(self.marks, self.marks[1:], strict=False))]
        return made_trace(hosts=self.hosts, devices=self.devices, steps=marks, **facts)

    def steps(self) -> pl.DataFrame:
        return steps_of(self.trace())

    @property
    def length_us(self) -> float:
        """Of the last step: from when host and device were done with the one before."""
        steps = self.steps()
        return float(steps["end_ns"][-1] - steps["start_ns"][-1]) / 1000


def steps_of(timeline: Timeline) -> pl.DataFrame:
    """The table `steps` of marked steps: a step begins when the host has begun it and the device is done with those before."""
    marks = timeline.table("marked_steps")
    calls = timeline.table("host_events").filter(pl.col("correlation").is_not_null()).select("correlation", launched="start_ns")
    work = timeline.table("device_events").join(calls, on="correlation", how="left").with_columns(pl.col("launched").fill_null(-1))

    def done(at: int) -> int:
        last = work.filter(pl.col("launched") < at)["end_ns"].max()
        return max(at, last) if isinstance(last, int) else at

    begins = [done(at) for at in marks["start_ns"].to_list()]
    ends = begins[1:] + [done(at) for at in marks["end_ns"].to_list()[-1:]]
    rows = marks.select("number", "mark", "thread", host_start_ns="start_ns", host_end_ns="end_ns").with_row_index("step")
    rows = rows.with_columns(pl.Series("start_ns", begins, dtype=pl.Int64), pl.Series("end_ns", ends, dtype=pl.Int64))
    return rows.select(pl.col(column.name).cast(column.type) for column in STEPS.columns)
