"""Forwards are recorded late only where that compiles nothing again, and it is said where they are missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded import make_folder
from slowstep.record.recorder import Recorder

pytest.importorskip("torch")

from slowstep.frameworks.torch.inside import module


@pytest.mark.parametrize(
    ("unfed", "said"), [(True, [module.FORWARD_NOT_RECORDED]), (False, [])], ids=["no loader", "several batches a step"]
)
def test_forwards_of_compiled_code_are_missed_only_where_no_loader_tells_the_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unfed: bool, said: list[object]
) -> None:
    recorder, told = Recorder(make_folder(tmp_path / "recording")), []
    monkeypatch.setattr(module, "has_compiled", lambda: True)
    monkeypatch.setattr(recorder, "health", lambda kind: told.append(kind))
    undo = module.install(recorder)
    recorder.local.me.unfed = unfed

    assert recorder.when_forwards_tell is not None
    recorder.when_forwards_tell()

    undo()
    recorder.stop("exit")
    assert told == said
