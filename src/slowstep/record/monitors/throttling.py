"""The CPU quota of the control group, and how often it held the processes back."""

from __future__ import annotations

from typing import Final

from slowstep.record.monitors import Absent, KernelFile, Monitor, MonitoredCommand, Reader, Reading
from slowstep.record.system.cgroups import find_quota
from slowstep.record.writing import format as contract

_LOOK_AGAIN_NS: Final = 10_000_000_000
_US: Final = 1000


class ThrottlingReader(Reader):
    """Cumulative periods and time in which the group stood still because its quota was used up; the quota, when it changes."""

    def __init__(self, place: MonitoredCommand) -> None:
        self._place = place
        self._file: KernelFile | None = None
        self._folder: str | None = None
        self._quota_due_ns = 0
        self._said: int | None = None

    def read(self, now_ns: int) -> list[Reading]:
        """The quota where it is new, and periods, throttled periods and ns throttled where there is one."""
        readings: list[Reading] = []
        if now_ns >= self._quota_due_ns:
            self._quota_due_ns = now_ns + _LOOK_AGAIN_NS
            quota = find_quota(self._place.root, proc=self._place.proc, sys=self._place.sys)
            allowed = -1 if quota is None else round(quota.cores * 1000)
            self._watch(None if quota is None else quota.folder)
            if allowed != self._said:
                self._said = allowed
                readings.append((contract.READING_QUOTA, allowed, 0, 0, 0))
        if self._file is not None:
            readings.append((contract.READING_THROTTLE, *parse_throttling(self._file.read()), 0))
        return readings

    def close(self) -> None:
        """Close the kept file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _watch(self, folder: str | None) -> None:
        if folder == self._folder:
            return
        # The command has ended: its group says nothing any more.
        if folder is None and self._file is not None:
            return
        self.close()
        self._folder = folder
        self._file = None if folder is None else KernelFile(f"{folder}/cpu.stat", usual=True)


def parse_throttling(text: bytes) -> tuple[int, int, int]:
    """Periods, throttled periods and ns throttled of cpu.stat, of either version. Raises ValueError where they are not there."""
    fields = dict(zip((words := text.split())[::2], map(int, words[1::2]), strict=False))
    try:
        throttled_ns = fields[b"throttled_time"] if b"throttled_time" in fields else fields[b"throttled_usec"] * _US
        return fields[b"nr_periods"], fields[b"nr_throttled"], throttled_ns
    except KeyError as missing:
        raise ValueError(f"no {missing}") from None


def open_throttling(place: MonitoredCommand) -> Reader:
    """Begin reading; where no quota is set that is what is said, and nothing else. Raises Absent where throttling is not counted."""
    quota = find_quota(place.root, proc=place.proc, sys=place.sys)
    if quota is not None:
        file = KernelFile(f"{quota.folder}/cpu.stat", usual=True)
        try:
            parse_throttling(file.read())
        except (OSError, ValueError) as error:
            raise Absent(f"{quota.folder}/cpu.stat: {error}", usual=True) from None
        finally:
            file.close()
    return ThrottlingReader(place)


MONITOR = Monitor(name="throttling", open=open_throttling)
