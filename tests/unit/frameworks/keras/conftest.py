"""What the tests of Keras' levers share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from recorded import make_folder
from slowstep.frameworks.keras.inside import fit
from slowstep.record.recorder import Recorder


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """One that experiments, while `fit` is hooked."""
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.experiment = True
    recorder.fault = lambda error: pytest.fail(repr(error))  # type: ignore[method-assign]
    undo = fit.HOOK.install(recorder)
    yield recorder
    undo()
    recorder.stop("exit")
