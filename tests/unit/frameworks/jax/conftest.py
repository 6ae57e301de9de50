from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorded import make_folder
from slowstep.record.recorder import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """One whose faults fail the test."""
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    yield recorder
    recorder.stop("exit")
