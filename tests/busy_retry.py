"""A failed test is tried once more where others kept the machine busy meanwhile, and the summary says so."""

from __future__ import annotations

import gc
import os
import resource
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.runner import runtestprotocol

from slowstep.analyses.machine.load import BUSY_FROM
from slowstep.record.system import processes

OUTCOME = "retried"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, kw_only=True)
class Load:
    """What has been used of a machine so far, in seconds; `waited_s` is None where the kernel does not show pressure."""

    at_s: float
    cores: int
    used_s: float
    own_s: float
    waited_s: float | None

    @classmethod
    def now(cls) -> Load:
        """Of this machine, with this process and its children as one's own."""
        cores, used_s = processors(Path("/proc/stat").read_text())
        pressure = Path("/proc/pressure/cpu")
        waited_s = waiting(pressure.read_text()) if pressure.exists() else None
        return cls(at_s=time.monotonic(), cores=cores, used_s=used_s, own_s=own_cpu(), waited_s=waited_s)

    def busy_since(self, before: Load) -> str | None:
        """How others kept the machine busy between two moments, in words; None where they did not.

        Both must be: they used as much as slowstep itself calls a busy machine, and for as large a part of the time something waited for a
        core. Where there are cores enough, others take nothing from a test; and its own processes may wait for each other.
        """
        wall_s = self.at_s - before.at_s
        others = ((self.used_s - before.used_s) - (self.own_s - before.own_s)) / (wall_s * self.cores)
        if others < BUSY_FROM:
            return None
        said = f"others used {others:.0%} of the cores"
        if self.waited_s is None or before.waited_s is None:
            return said
        waited = (self.waited_s - before.waited_s) / wall_s
        return f"{said}, and for {waited:.0%} of the time something waited for one" if waited >= BUSY_FROM else None


def processors(stat: str) -> tuple[int, float]:
    """How many there are, and the seconds in which they were not idle; what a hypervisor gave to others is among those."""
    rows = [line.split() for line in stat.splitlines() if line.startswith("cpu")]
    user, nice, system, _, _, irq, softirq, steal = map(int, rows[0][1:9])
    return len(rows) - 1, (user + nice + system + irq + softirq + steal) / TICKS_PER_S


def waiting(pressure: str) -> float:
    """The seconds in which anything waited for a core."""
    (total,) = [line.rpartition("total=")[2] for line in pressure.splitlines() if line.startswith("some")]
    return int(total) / 1e6


def own_cpu() -> float:
    """The CPU time of this process, of all children that have ended, and of those that live."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    living = [stat.cpu_ticks for pid in processes.tree(os.getpid()) if pid != os.getpid() and (stat := processes.read_stat(pid))]
    return sum(use.ru_utime + use.ru_stime for use in ended) + sum(living) / TICKS_PER_S


def drop_frames() -> None:
    """Let go of the frames of a failed try: what stayed open in them is no fault of the next one."""
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


class BusyRetry:
    """The plug-in."""

    def __init__(self) -> None:
        self._is_second = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Run a test; and once more, as pytest does and with a time limit of its own, where it failed on a busy machine."""
        if self._is_second:
            return None
        before = Load.now()
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        busy = Load.now().busy_since(before) if any(report.failed for report in reports) else None
        for report in reports:
            if busy and report.failed:
                report.outcome = OUTCOME  # type: ignore[assignment]
                report.busy = busy
            if not busy or report.outcome == OUTCOME:
                item.ihook.pytest_runtest_logreport(report=report)
        if busy:
            self._again(item, nextitem)
        else:
            item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    def _again(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        drop_frames()
        self._is_second = True
        try:
            item.ihook.pytest_runtest_protocol(item=item, nextitem=nextitem)
        finally:
            self._is_second = False

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """A first try counts as neither passed nor failed."""
        return (OUTCOME, "R", "RETRIED") if report.outcome == OUTCOME else None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A line for each test that was tried again: how busy the machine was, and what went wrong the first time."""
        retried = terminalreporter.getreports(OUTCOME)
        if retried:
            terminalreporter.section("tried once more: failed on a busy machine")
        for report in retried:
            crash = getattr(report.longrepr, "reprcrash", None)
            wrong = (crash.message if crash else report.longreprtext).strip().partition("\n")[0]
            terminalreporter.line(f"RETRIED {report.nodeid} ({report.when}): {report.busy}; {wrong}")
