"""The records of one process: claims a slot, packs the record into it, and keeps the whole below its limit."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from slowstep.record.writing.fastpath import ASKING, build_fast_path
from slowstep.record.writing.format import CLOCK, COLLECTION, END, RECORD, RECORD_BYTES, TOTALS, WAIT
from slowstep.record.writing.storage import FLUSH_RECORDS, AppendFile, MappedFile
from slowstep.record.writing.threads import Fields, PerThread

now: Final = time.monotonic_ns

_NEVER: Final = 1 << 62
# Positions in a record's fields.
_KIND, _SAMPLES, _FLAGS = 8, 4, 6
# Once a recording grows big only blocks of so many steps keep their details, out of ever more, at random distances.
BLOCK_STEPS: Final = 256


class Writer:
    """Takes records from any thread. Idle until `open_files` gives it a file; closed for good by `close`.

    `mapped` is where records go if the folder allows it, else `appended`. Raises OSError where the disk is full, from the slow path only.
    """

    def __init__(self, local: PerThread, fault: Callable[[Exception], None], *, limit_bytes: int) -> None:
        self.local, self._fault, self._limit_bytes = local, fault, limit_bytes
        # Its own generator: the training's random numbers are its own.
        self._uniform = random.Random().uniform
        self.event, self.write_ended, self.release, self._bind = build_fast_path(local, self.place, fault)
        self.open_files: Callable[[], bool] = lambda: False
        self.when_closed: Callable[[], None] = lambda: None
        self.forget()

    def forget(self) -> None:
        """Let go of everything without touching any file: this process is a fork of the one that wrote."""
        self._bind(ASKING)
        self._state = ASKING
        # Reentrant, and guarded by `_placing`: a signal handler may save a checkpoint in the middle of our slow path.
        self._lock = threading.RLock()
        self._placing = False
        self._counter: Any = None
        self._mapped: MappedFile | None = None
        self._appended: AppendFile | None = None
        self._buffer: list[bytes] = []
        self._appended_bytes = 0
        self._totals: Totals | None = None
        self._totals_slot: tuple[Any, int] | None = None
        self._steps, self._block_end, self._details_from = 0, BLOCK_STEPS, 0
        self.closed = self._is_full = False
        self.thinned = self.lost = self.counted = 0

    def use_mapped(self, file: MappedFile) -> None:
        """Write into a reserved, mapped file from now on. Raises OSError where not even its first chunk can be had."""
        if not self._next_chunk(file):
            raise OSError(28, "no room for a first chunk", file.path)
        self._mapped = file

    def use_appended(self, file: AppendFile) -> None:
        """Write through a small buffer from now on."""
        self._appended = file

    def place(self, fields: Fields) -> None:
        """Write one record by the slow path: the first one, the one after a full chunk, or one while details are left out."""
        with self._lock:
            if self._placing:
                # Garbage that is collected in the middle of our own work is a part of that, and nothing of the training's.
                self.lost += fields[_KIND] != COLLECTION
                return
            if self.closed:
                self.when_closed()
                return
            self._placing = True
            try:
                if self._mapped is None and self._appended is None and not self.open_files():
                    return
                if self._totals is not None and fields[_KIND] != CLOCK:
                    self._count(self._totals, fields)
                else:
                    self._write(fields)
            finally:
                self._placing = False

    def step(self, steps: int = 1) -> None:
        """So many steps have ended: details are kept or left out by whole blocks of steps."""
        self._steps += steps
        if self._steps >= self._block_end:
            with self._lock:
                if not self.closed and (self._mapped is not None or self._appended is not None):
                    self._end_block()

    def flush(self) -> None:
        """Write what is buffered. Raises OSError where the disk is full."""
        with self._lock:
            if self._buffer and self._appended is not None:
                data = b"".join(self._buffer)
                self._buffer.clear()
                self._appended.write(data)
                self._appended_bytes += len(data)

    def close(self) -> None:
        """Write what is left, give back what was reserved. Records that come later are dropped. Raises OSError where the disk is full."""
        with self._lock:
            if self.closed:
                return
            self._write_totals(now())
            self.closed = True
            self._bind(ASKING)
            if self._mapped is not None:
                used_bytes = self.used_bytes
                # Unmapped first: a thread that still holds the chunk then gets an error, not the signal of a page that is gone.
                self._state[2].close()
                self._mapped.trim(used_bytes)
            if self._appended is not None:
                self.flush()
                self._appended.close()

    @property
    def used_bytes(self) -> int:
        """Bytes of records written so far."""
        if self._mapped is not None:
            end = self._state[1]
            return self._mapped.base + (end + RECORD_BYTES if self._is_full else min(_peek(self._counter), end))
        return self._appended_bytes + len(self._buffer) * RECORD_BYTES

    @property
    def events(self) -> int:
        """How many events hooks have sent, those that were only counted included."""
        return self.records + self.counted + self.lost

    @property
    def records(self) -> int:
        """How many records were written so far, those that are buffered included."""
        return self.used_bytes // RECORD_BYTES

    def _write(self, fields: Fields) -> None:
        slot = self._claim()
        if slot is not None:
            RECORD.pack_into(*slot, *fields)
        elif self._appended is not None and self.used_bytes < self._limit_bytes:
            self._buffer.append(RECORD.pack(*fields))
            if len(self._buffer) >= FLUSH_RECORDS:
                self.flush()
        else:
            if self._totals is None:
                self._leave_out(_NEVER)
            assert self._totals is not None
            self._count(self._totals, fields)

    def _claim(self) -> tuple[Any, int] | None:
        """A slot in the mapped file; None where there is no such file or it has reached its limit."""
        if self._mapped is None:
            return None
        while True:
            claim, end, buffer = self._state
            offset = claim()
            if offset < end:
                return buffer, offset
            if not self._next_chunk(self._mapped):
                return None

    def _next_chunk(self, file: MappedFile) -> bool:
        chunk = file.chunk()
        if chunk is None:
            return False
        self._counter = itertools.count(0, RECORD_BYTES)
        end = file.end - file.base - (RECORD_BYTES if file.is_last else 0)
        self._state = (self._counter.__next__, end, chunk)
        if self._totals is None:
            self._bind(self._state)
        return True

    def _count(self, totals: Totals, fields: Fields) -> None:
        self.counted += 1
        if fields[_KIND] == WAIT and not fields[_FLAGS] & END:
            totals.add_batch(fields[_SAMPLES])

    def _end_block(self) -> None:
        at_ns = now()
        self._block_end = self._steps + BLOCK_STEPS
        if self._totals is None:
            keep_one_in = one_in(self.used_bytes, self._limit_bytes)
            if keep_one_in > 1:
                # Never as long as the last time: a checkpoint every 1024 steps would be seen always or never.
                blocks_left_out = (keep_one_in - 1) * self._uniform(0.5, 1.5)
                self._leave_out(self._steps + int(blocks_left_out * BLOCK_STEPS))
            return
        if self._steps < self._details_from:
            self._update_totals(at_ns)
            return
        self._write_totals(at_ns)
        if self._mapped is not None:
            self._bind(self._state)

    def _leave_out(self, details_from: int) -> None:
        self._bind(ASKING)
        self.thinned += 1
        # Claimed at once and rewritten at every block: a killed process then loses at most one block's count.
        self._totals_slot = self._claim()
        if self._totals_slot is None and self._mapped is not None:
            # The last chunk's last slot, which is nobody else's: there is room for one more stretch, and for no details.
            _, end, buffer = self._state
            self._totals_slot, self._is_full = (buffer, end), True
            details_from = _NEVER
        self._totals = Totals(now(), self._steps)
        self._details_from = details_from

    def _totals_record(self, totals: Totals, at_ns: int) -> Fields:
        steps = self._steps - totals.first_step
        return (totals.begin_ns, at_ns, steps, totals.samples_or_unknown, 0, self.local.me.thread, 0, 0, TOTALS)

    def _update_totals(self, at_ns: int) -> None:
        if self._totals is not None and self._totals_slot is not None:
            RECORD.pack_into(*self._totals_slot, *self._totals_record(self._totals, at_ns))

    def _write_totals(self, at_ns: int) -> None:
        """End a stretch of steps that were only counted."""
        if self._totals is None:
            return
        if self._totals_slot is not None:
            self._update_totals(at_ns)
        else:
            self._buffer.append(RECORD.pack(*self._totals_record(self._totals, at_ns)))
        self._totals = self._totals_slot = None


def one_in(used_bytes: int, limit_bytes: int) -> int:
    """Keep the details of one block in so many: 1 below half the limit, 2 up to three quarters, 4 up to seven eighths ..."""
    left = max(limit_bytes - used_bytes, 1)
    return max(1 << ((limit_bytes // left).bit_length() - 1), 1)


class Totals:
    """What is known of steps whose details are left out."""

    __slots__ = ("begin_ns", "first_step", "samples", "unknown")

    def __init__(self, begin_ns: int, first_step: int) -> None:
        self.begin_ns = begin_ns
        self.first_step = first_step
        self.samples = 0
        self.unknown = False

    def add_batch(self, samples: int) -> None:
        """Count one batch of so many samples (-1: unknown)."""
        if samples < 0:
            self.unknown = True
        else:
            self.samples += samples

    @property
    def samples_or_unknown(self) -> int:
        """Samples so far, -1 when some batch did not tell."""
        return -1 if self.unknown else self.samples


def _peek(counter: Any) -> int:
    # itertools.count tells its next value only in its repr: "count(96, 48)".
    return int(repr(counter)[6:].split(",", 1)[0].rstrip(")"))
