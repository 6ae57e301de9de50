"""Runs of which nothing is kept: nothing is, even where somebody presses Ctrl-C while one ends."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slowstep.prove.own_runs import OwnRuns
from slowstep.record.launching.command import Command

COMMAND = Command(words=("train.py",), path="/usr/bin/python", argv=("python", "train.py"), stem="train")


class Sandbox:
    """One in which Ctrl-C is pressed while it is removed."""

    closed = 0

    def close(self) -> None:
        signal.raise_signal(signal.SIGINT)
        self.closed += 1


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Heard, also where the tests run in the background of a shell, which has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_while_a_run_ends_is_heard_when_nothing_of_it_is_left(tmp_path: Path) -> None:
    sandbox: Any = Sandbox()
    before = signal.getsignal(signal.SIGINT)
    run: Any = OwnRuns(COMMAND, os.environ, tmp_path / "runs", lambda folder: sandbox).made({}, 1.0)
    assert run.folder.exists()

    with pytest.raises(KeyboardInterrupt):
        run.end()

    assert (sandbox.closed, run.folder.exists()) == (1, False)
    assert signal.getsignal(signal.SIGINT) is before
    # All that is asked later is how it ended.
    assert run.end().exit_code is None
    assert sandbox.closed == 1
