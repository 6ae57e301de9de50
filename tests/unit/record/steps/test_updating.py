"""Of several frameworks in one process the one with most updates trains, and their optimizers have numbers of their own."""

from __future__ import annotations

from typing import Any

from recorded import make_folder, only
from slowstep.record.framework import NO_FRAMEWORK, Framework
from slowstep.record.recorder import Recorder
from slowstep.record.steps.updates import Updates
from slowstep.record.steps.updating import UpdatingFrameworks


class Named(Framework):
    """A framework of a name, whose calls return at once or not."""

    def __init__(self, name: str, *, asynchronous: bool = False) -> None:
        self.name, self._asynchronous = name, asynchronous

    def facts(self) -> dict[str, Any]:
        return super().facts() | {"asynchronous": self._asynchronous}


class Trains:
    """What updates; it takes weak references."""


def test_the_one_with_most_updates_trains(tmp_path):
    recorder = Recorder(make_folder(tmp_path / "recording"))
    first, second = Named("first"), Named("second")
    frameworks = recorder.shared(UpdatingFrameworks)
    try:
        assert recorder.framework is NO_FRAMEWORK

        said = [frameworks.is_most(*each) for each in ((first, 0), (second, 0), (first, 5), (second, 3), (second, 6), (first, 7))]

        assert said == [True, True, True, False, True, True]
        assert recorder.framework is first
    finally:
        recorder.stop("test")


def test_optimizers_are_numbered_together_and_each_framework_speaks_for_itself(tmp_path):
    recorder = Recorder(make_folder(tmp_path / "recording"))
    begun: list[int] = []
    recorder.when_training.append(lambda: begun.append(1))
    updates = [Updates(recorder, Named("first")), Updates(recorder, Named("second", asynchronous=True))]
    trainers = [Trains(), Trains()]

    for number in range(6):
        for each, trainer in zip(updates, trainers, strict=True):
            each.called(trainer, number, number + 1)
    recorder.stop("test")

    ran = only(recorder.folder)
    assert [(note["id"], note["framework"]) for note in ran.noted("optimizer")] == [(1, "first"), (2, "second")]
    assert [(note["framework"], note["asynchronous"]) for note in ran.noted("facts") if "asynchronous" in note] == [
        ("first", False),
        ("second", True),
    ]
    assert begun == [1]
