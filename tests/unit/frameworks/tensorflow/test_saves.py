"""Checkpoints that a loop of the script's own writes with TensorFlow are recorded as such, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

tf: Any = pytest.importorskip("tensorflow", reason="needs tensorflow-cpu")

from recorded import make_folder, only  # noqa: E402
from slowstep.frameworks.tensorflow.inside import saves  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

pytestmark = pytest.mark.slow


def test_each_write_is_one_and_a_manager_that_waits_for_its_interval_writes_none(tmp_path: Path) -> None:
    names = [(tf.train.Checkpoint, "save"), (tf.train.Checkpoint, "write"), (tf.train.CheckpointManager, "save"), (tf.saved_model, "save")]
    before = [getattr(owner, name) for owner, name in names]
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    undo = saves.HOOK.install(recorder)
    step, state = tf.Variable(0), tf.Module()
    state.weight = tf.Variable(tf.ones((8, 8)))
    checkpoint = tf.train.Checkpoint(state=state)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path / "kept"), 2, step_counter=step, checkpoint_interval=10)

    checkpoint.save(str(tmp_path / "saved"))
    checkpoint.write(str(tmp_path / "written"))
    assert manager.save() is not None
    assert manager.save() is None
    tf.saved_model.save(state, str(tmp_path / "model"))
    undo()
    checkpoint.write(str(tmp_path / "unseen"))
    recorder.stop("exit")

    found = only(tmp_path / "recording")
    texts = {note["id"]: note["text"] for note in found.noted("text")}
    assert [texts[record.b] for record in found.of("SAVE")] == [
        "tf.train.Checkpoint.save",
        "tf.train.Checkpoint.write",
        "tf.train.CheckpointManager.save",
        "tf.saved_model.save",
    ]
    # Files are named for the prefix, and a folder is no file.
    assert {record.a for record in found.of("SAVE")} == {-1}
    assert [getattr(owner, name) for owner, name in names] == before
