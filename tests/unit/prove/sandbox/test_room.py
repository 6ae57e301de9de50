"""The room that an experiment may take."""

from __future__ import annotations

from pathlib import Path

from slowstep.prove.sandbox.room import Room


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.cost_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.cost_s
        return self.now_s


def test_what_was_there_before_does_not_count(tmp_path: Path):
    (tmp_path / "before").write_bytes(bytes(1_000_000))
    room = Room([str(tmp_path)], limit_bytes=500_000)

    assert room.problem() is None


def test_more_than_the_limit_is_a_problem(tmp_path: Path):
    clock = Clock()
    room = Room([str(tmp_path)], limit_bytes=500_000, now=clock)
    assert room.problem() is None

    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_bytes(b"x" * 600_000)

    assert room.problem() is None  # not looked at again yet
    clock.now_s = 2.0
    said = str(room.problem())
    assert "more than half of what the disk had free (488 KiB)" in said
    assert "--out" in said


def test_looking_takes_no_more_than_a_hundredth_of_the_time(tmp_path: Path):
    clock = Clock()
    room = Room([str(tmp_path)], limit_bytes=0, now=clock)
    clock.cost_s = 1.0
    assert room.problem() is None  # an empty folder
    (tmp_path / "file").write_bytes(b"x" * 10_000)

    clock.now_s = 90.0
    assert room.problem() is None
    clock.now_s = 110.0
    assert room.problem() is not None


def test_a_place_that_is_gone_holds_nothing(tmp_path: Path):
    room = Room([str(tmp_path / "gone")])

    assert room.used_bytes() == 0
    assert room.limit_bytes > 0
    assert room.problem() is None
