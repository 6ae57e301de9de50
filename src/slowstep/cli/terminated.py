"""SIGTERM and SIGHUP while a sandboxed training runs: what is left is removed first, then the process ends by the signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_NUMBERS: Final = (signal.SIGTERM, signal.SIGHUP)


class Terminated(BaseException):
    """Somebody ends this process. Not an Exception: nothing but clean-up is to catch it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


@contextmanager
def cleaning_up() -> Iterator[None]:
    """Raise such a signal as an exception inside of the block, once, and end by it behind the block. A second one ends at once; what is
    left then, the guard of the training removes.
    """

    def end(number: int, _: FrameType | None) -> None:
        for each in _NUMBERS:
            signal.signal(each, signal.SIG_DFL)
        raise Terminated(number)

    # Who ignores them (nohup), or handles them, keeps that.
    mine = [number for number in _NUMBERS if signal.getsignal(number) is signal.SIG_DFL]
    for number in mine:
        signal.signal(number, end)
    try:
        yield
    except Terminated as ended:
        os.kill(os.getpid(), ended.number)
    finally:
        for number in mine:
            signal.signal(number, signal.SIG_DFL)
