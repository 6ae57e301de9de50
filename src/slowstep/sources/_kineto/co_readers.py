"""Processes that read a large file together with this one: making columns of events holds the GIL, so threads cannot.

This process cuts the file into chunks. A co-reader gets a chunk as a file of its own, tells when it has read it, and leaves its columns
when told that there are no more. A chunk that a co-reader cannot read ends all of them: what a damaged file holds depends on what stands
around the damage, so the file is read once more, by this process alone.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from slowstep.record.launching.isolated import isolated_argv, isolated_environment
from slowstep.record.system.facts import cores_allowed, cpu_quota
from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.events import DECODERS, Decode
from slowstep.sources._kineto.share import join_share

# Chunks after which co-readers are started: to import what they need takes one some 20 of them (0.3 s), in which it takes nothing off.
CHUNKS_ALONE = 32
# Cutting and unpacking take a fourth to a third of reading (benchmarks/README.md): more co-readers than that would wait for chunks.
MOST_CO_READERS: Final = 3
# One is read, one waits.
MOST_WAITING: Final = 2
# Two chunks and the writing of some hundred MB.
END_WITHIN_S: Final = 60.0

_CODE: Final = "from slowstep.sources._kineto.co_reader import main; main(sys.argv[2])"


class CoReaderLost(Exception):
    """A co-reader ended early: what it had read is lost."""


class CoReaders:
    """At most `most` co-readers, started when they are worth it; with none, `hand_over` takes nothing. Leaves no process and no file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._stack = ExitStack()
        self._readers: list[_CoReader] = []
        self._chunks = 0
        self._turns = count()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()

    def turn(self) -> int:
        """The number of the next chunk."""
        return next(self._turns)

    def hand_over(self, text: bytes, decode: Decode) -> bool:
        """Give the text of a list of events to a co-reader that has time for it. Raises CoReaderLost."""
        if not self._most:
            return False
        self._chunks += 1
        if self._chunks == CHUNKS_ALONE:
            self._start()
        for reader in self._readers:
            if reader.has_time():
                reader.give(text, self.turn(), DECODERS.index(decode))
                return True
        return False

    def join(self, columns: Columns, counts: Counter[str]) -> None:
        """Add what the co-readers have read; their files stay until this object is left. Raises CoReaderLost."""
        for reader in self._readers:
            reader.finish()
        for reader in self._readers:
            join_share(columns, counts, reader.ended())

    def _start(self) -> None:
        try:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slowstep-")))
            for number in range(self._most):
                own = folder / str(number)
                own.mkdir()
                reader = _CoReader(own)
                self._stack.callback(reader.kill)
                self._readers.append(reader)
        except OSError:
            # No room, or no more processes: those that were started are enough.
            return


class _CoReader:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting = 0
        self._process = subprocess.Popen(
            isolated_argv(_CODE, str(folder)),
            env=isolated_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin, self._process.stdout
        os.set_blocking(self._from.fileno(), False)

    def has_time(self) -> bool:
        said = self._from.read()
        if said == b"":
            raise CoReaderLost
        self._waiting -= len(said or b"")
        return self._waiting < MOST_WAITING

    def give(self, text: bytes, turn: int, decoder: int) -> None:
        try:
            (self._folder / str(turn)).write_bytes(text)
            self._to.write(b"%d %d\n" % (turn, decoder))
        except OSError as error:
            raise CoReaderLost from error
        self._waiting += 1

    def finish(self) -> None:
        try:
            self._to.write(b"end\n")
        except OSError as error:
            raise CoReaderLost from error

    def ended(self) -> Path:
        """Its folder, once it has left its share there."""
        try:
            if self._process.wait(END_WITHIN_S):
                raise CoReaderLost
        except subprocess.TimeoutExpired as error:
            raise CoReaderLost from error
        return self._folder

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._to.close()
        self._from.close()


def co_readers_here() -> int:
    """How many co-readers this process's cores allow."""
    cores = min(cores_allowed() or 1, int(cpu_quota() or MOST_CO_READERS + 1))
    return max(0, min(cores - 1, MOST_CO_READERS))
