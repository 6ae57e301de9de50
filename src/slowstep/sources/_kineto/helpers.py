"""Processes that read a large file together with this one: making columns of events holds the interpreter's lock, so threads cannot.

This process cuts the file into chunks. A helper gets a chunk as a file of its own, tells when it has read it, and leaves its columns when
told that there are no more. A chunk that a helper cannot read ends all of them: what a damaged file holds depends on what stands around
the damage, so the file is read once more, by this process alone.
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

from slowstep.record.apart import environment_apart, words_apart
from slowstep.record.facts import cores_allowed, cpu_quota
from slowstep.sources._kineto.columns import Columns
from slowstep.sources._kineto.events import DECODERS, Decode
from slowstep.sources._kineto.share import join_share

# Chunks after which helpers are started: to import what they need takes one some 20 of them (0.3 s), in which it takes nothing off.
CHUNKS_ALONE = 32
# Cutting and unpacking take a fourth to a third of reading (benchmarks/README.md): more helpers than that would wait for chunks.
MOST_HELPERS: Final = 3
# One is read, one waits.
MOST_WAITING: Final = 2
# Two chunks and the writing of some hundred MB.
END_WITHIN_S: Final = 60.0

_CODE: Final = "from slowstep.sources._kineto.helping import main; main(sys.argv[2])"


class HelperLost(Exception):
    """A helper ended early: what it had read is lost."""


class Helpers:
    """At most `most` helpers, started when they are worth it; with none, `hand_over` takes nothing. Leaves no process and no file."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._stack = ExitStack()
        self._helpers: list[_Helper] = []
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
        """Give the text of a list of events to a helper that has time for it. Raises HelperLost."""
        if not self._most:
            return False
        self._chunks += 1
        if self._chunks == CHUNKS_ALONE:
            self._start()
        for helper in self._helpers:
            if helper.has_time():
                helper.give(text, self.turn(), DECODERS.index(decode))
                return True
        return False

    def join(self, columns: Columns, counts: Counter[str]) -> None:
        """Add what the helpers have read; their files stay until this object is left. Raises HelperLost."""
        for helper in self._helpers:
            helper.finish()
        for helper in self._helpers:
            join_share(columns, counts, helper.ended())

    def _start(self) -> None:
        try:
            folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="slowstep-")))
            for number in range(self._most):
                own = folder / str(number)
                own.mkdir()
                helper = _Helper(own)
                self._stack.callback(helper.kill)
                self._helpers.append(helper)
        except OSError:
            # No room, or no more processes: those that were started are enough.
            return


class _Helper:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._waiting = 0
        self._process = subprocess.Popen(
            words_apart(_CODE, str(folder)),
            env=environment_apart(),
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
            raise HelperLost
        self._waiting -= len(said or b"")
        return self._waiting < MOST_WAITING

    def give(self, text: bytes, turn: int, decoder: int) -> None:
        try:
            (self._folder / str(turn)).write_bytes(text)
            self._to.write(b"%d %d\n" % (turn, decoder))
        except OSError as error:
            raise HelperLost from error
        self._waiting += 1

    def finish(self) -> None:
        try:
            self._to.write(b"end\n")
        except OSError as error:
            raise HelperLost from error

    def ended(self) -> Path:
        """Its folder, once it has left its share there."""
        try:
            if self._process.wait(END_WITHIN_S):
                raise HelperLost
        except subprocess.TimeoutExpired as error:
            raise HelperLost from error
        return self._folder

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._to.close()
        self._from.close()


def helpers_here() -> int:
    """How many helpers this process's cores allow."""
    cores = min(cores_allowed() or 1, int(cpu_quota() or MOST_HELPERS + 1))
    return max(0, min(cores - 1, MOST_HELPERS))
