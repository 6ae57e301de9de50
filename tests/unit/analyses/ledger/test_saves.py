from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from made_events import Events
from made_recordings import MS
from slowstep.analyses.ledger.saves import GrowingSaves, is_saving
from slowstep.analyses.measure_recording import measure_recording
from slowstep.analyses.measurements import Measurements
from slowstep.parts import Part, PartKind

# A file of a checkpoint: its bytes, the ms that it takes, what writes it and the script's line that asks.
File = tuple[int, float, str, int | None]
MODEL: File = (5_000_000, 6.0, "safetensors.torch.save_file", 40)
OPTIMIZER: File = (10_000_000, 12.0, "torch.save", 40)
STATES: File = (14_000, 0.5, "torch.save", 40)


def _measured(folder: Path, checkpoints: Sequence[Sequence[File]]) -> Measurements:
    """Steps of 20 ms, after each fifth of which one of the checkpoints is written."""
    events = Events(folder)
    events.loader()
    begin, left = 0.0, list(checkpoints)
    for k in range(5 * len(left)):
        events.wait(begin, begin + 1, k)
        events.backward(begin + 5, begin + 17)
        events.update(begin + 18, begin + 20)
        begin += 20
        for written, length, function, line in left[k // 5] if k % 5 == 4 else ():
            events.save(begin + 0.1, begin + 0.1 + length, written, function=function, line=line)
            begin += length + 0.2
    return measure_recording(events.timeline())


def test_without_checkpoints_nothing_is_known_of_them(tmp_path):
    saves = _measured(tmp_path, [[]] * 10).saves

    assert (saves.count, saves.every_steps, saves.writes_each, saves.bytes_each, saves.where) == (0, None, None, None, None)


def test_one_file_is_one_checkpoint(tmp_path):
    m = _measured(tmp_path, [[MODEL]] * 20)

    assert m.saves.every_steps == pytest.approx(5, rel=0.1)
    assert (m.saves.writes_each, m.saves.bytes_each) == (1, 5_000_000)
    assert m.saves.where == "train.py:40 (safetensors.torch.save_file)"


def test_all_that_a_step_writes_is_one_checkpoint(tmp_path):
    m = _measured(tmp_path, [[MODEL, OPTIMIZER, STATES]] * 20)

    event = m.over_time.event("checkpoint")
    assert event is not None
    assert (m.saves.count, event.every_steps) == (event.count, 5)
    assert m.saves.every_steps == pytest.approx(5, rel=0.1)
    assert (m.saves.writes_each, m.saves.bytes_each) == (3, 15_014_000)
    assert m.saves.where == "train.py:40 (safetensors.torch.save_file, torch.save)"


def test_without_the_users_line_what_writes_is_named(tmp_path):
    m = _measured(tmp_path, [[(1000, 5.0, "torch.save", None)]] * 20)

    assert m.saves.where == "torch.save"


TRAINERS = "checkpoint: Trainer.save_checkpoint"
ASKED = "checkpoint: ModelCheckpoint.on_train_batch_end"


def _by_a_trainer(folder: Path, *, writes_ms: float) -> Measurements:
    """Steps of 20 ms, each fifth with 12 ms of a framework's checkpoint, of which so many are a write; the others ask whether to save."""
    events = Events(folder)
    events.loader()
    begin = 0.0
    for k in range(100):
        events.wait(begin, begin + 1, k)
        events.backward(begin + 5, begin + 17)
        events.update(begin + 18, begin + 20)
        begin += 20
        if k % 5 < 4:
            events.span(begin + 0.01, begin + 0.05, ASKED, "store")
            begin += 0.1
            continue
        if writes_ms:
            events.save(begin + 3, begin + 3 + writes_ms)
        events.span(begin + 1, begin + 13, TRAINERS, "store")
        events.span(begin, begin + 14, ASKED, "store")
        begin += 14
    return measure_recording(events.timeline())


@pytest.mark.parametrize("writes_ms", [0, 6])
def test_what_a_trainer_does_around_a_write_is_the_checkpoint_too(tmp_path, writes_ms):
    m = _by_a_trainer(tmp_path, writes_ms=writes_ms)

    event, parts = m.over_time.event("checkpoint"), [part for part in m.ledger.parts if is_saving(part)]

    assert event is not None
    assert m.ledger.total_of(*parts) / m.saves.count / MS == pytest.approx(14.2, abs=0.05)
    assert m.ledger.share_of(*parts) == pytest.approx(14 / 114, rel=0.05)
    assert (event.every_steps, event.count) == (5, m.saves.count)
    assert [event.name for event in m.over_time.events] == ["checkpoint"]
    assert {Part("store", PartKind.CHECKPOINT, name) for name in ("Trainer.save_checkpoint", "ModelCheckpoint.on_train_batch_end")} <= set(
        parts
    )


@pytest.mark.parametrize("function", ["torch.save", "pickle.dump", "numpy.savez"])
def test_a_checkpoint_is_a_part_by_what_writes_it(function, tmp_path):
    m = _measured(tmp_path, [[(1000, 5.0, function, 40)]] * 20)

    assert [part for part in m.ledger.parts if is_saving(part)] == [Part("store", PartKind.SAVE, function)]


def test_a_file_of_unknown_size_leaves_the_checkpoints_size_unknown(tmp_path):
    m = _measured(tmp_path, [[MODEL, (-1, 5.0, "torch.save", 40)]] * 20)

    assert m.saves.bytes_each is None


def _history(k: int) -> File:
    """A file of another line that grows with each checkpoint, and takes as much longer."""
    return (100_000 * (k + 1), 1.0 * (k + 1), "torch.save", 52)


def _growing(m: Measurements) -> GrowingSaves:
    assert m.over_time.growing_saves is not None
    return m.over_time.growing_saves


def test_a_file_that_grows_is_found_beside_larger_ones_that_do_not(tmp_path):
    m = _measured(tmp_path, [[MODEL, _history(k), OPTIMIZER] for k in range(20)])

    growing = _growing(m)
    assert (growing.count, growing.parts) == (m.saves.count, (Part("store", PartKind.SAVE, "torch.save"),))
    assert growing.first_bytes < 1_000_000
    assert growing.last_bytes >= 1_500_000
    # Each is longer than the first by 1 ms more than the one before it.
    assert growing.above_ns.sum() == pytest.approx(sum(range(growing.count)) * MS)


@pytest.mark.parametrize(
    "checkpoints",
    [
        [[MODEL, OPTIMIZER, STATES]] * 20,
        [[STATES, MODEL, OPTIMIZER]] * 20,
        [[MODEL] if k < 10 else [MODEL, OPTIMIZER] for k in range(20)],
        [[MODEL, (OPTIMIZER[0], 12.0, "torch.save", 52)] if k % 3 == 2 else [MODEL] for k in range(20)],
    ],
    ids=["large, then small", "small, then large", "a file is added", "the best one too, now and then"],
)
def test_files_of_several_sizes_do_not_grow(tmp_path, checkpoints):
    assert _measured(tmp_path, checkpoints).over_time.growing_saves is None
