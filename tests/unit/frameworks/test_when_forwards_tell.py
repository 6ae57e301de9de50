"""Forwards are recorded late only where that compiles nothing again, and it is said where they are missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded import make_folder
from slowstep.record.recorder import Recorder

pytest.importorskip("torch")

import torch

from slowstep.frameworks.torch.inside import module


@pytest.mark.parametrize("is_compiled", [True, False])
def test_forwards_are_recorded_from_then_on_or_it_is_said_that_they_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_compiled: bool
) -> None:
    recorder, told = Recorder(make_folder(tmp_path / "recording")), []
    monkeypatch.setattr(module, "has_compiled", lambda: is_compiled)
    monkeypatch.setattr(recorder, "health", lambda kind: told.append(kind))
    before = torch.nn.Module.__call__
    undo = module.install(recorder)

    assert recorder.when_forwards_tell is not None
    assert torch.nn.Module.__call__ is before
    recorder.when_forwards_tell()

    assert (torch.nn.Module.__call__ is before) == is_compiled
    assert told == ([module.FORWARD_NOT_RECORDED] if is_compiled else [])
    undo()
    assert torch.nn.Module.__call__ is before
    recorder.stop("exit")
