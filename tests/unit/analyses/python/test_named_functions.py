"""Which of the user's functions run in a framework's callbacks."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from made_recordings import MS, SCRIPT, Training, make_recording
from slowstep.analyses.python.functions import read_stacks
from slowstep.analyses.python.named_functions import functions_in_callbacks
from slowstep.analyses.steps.trainer import find_trainer
from slowstep.sources.recording import SOURCE


@pytest.mark.parametrize(
    ("name", "first_ms", "found"),
    [
        ("callback: Plot.on_train_batch_end", 0, True),
        ("callback: Plot.on_train_batch_end", 14, False),
        ("metrics: self.log in f", 0, False),
    ],
    ids=["all of it", "its end", "a function that logs metrics is no callback"],
)
def test_a_function_that_a_callback_calls_is_known_by_its_stacks(tmp_path, name, first_ms, found):
    timeline = SOURCE.read(make_recording(tmp_path, Training(after_ms=20, steps=300)))
    trainer = find_trainer(timeline)
    ends = trainer.update_end_ns
    named = pl.DataFrame({"start_ns": ends + first_ms * MS, "end_ns": ends + 20 * MS}).with_columns(
        kind=pl.lit("span"), name=pl.lit(name), stage=pl.lit("output"), file=pl.lit(None, pl.String), line=pl.lit(None, pl.Int64)
    )
    trainer = replace(trainer, spans=named)

    functions = functions_in_callbacks(trainer, read_stacks(timeline, trainer.process, trainer.thread))

    assert ((SCRIPT, 80) in functions) == found


def test_without_a_callback_there_are_none(tmp_path):
    timeline = SOURCE.read(make_recording(tmp_path, Training(after_ms=20)))
    trainer = find_trainer(timeline)

    assert functions_in_callbacks(trainer, read_stacks(timeline, trainer.process, trainer.thread)) == frozenset()


def test_the_place_that_a_framework_tells_of_a_callback_is_its_functions(tmp_path):
    timeline = SOURCE.read(make_recording(tmp_path, Training()))
    trainer = find_trainer(timeline)
    named = pl.DataFrame({"start_ns": trainer.update_end_ns[:1], "end_ns": trainer.update_end_ns[:1] + MS}).with_columns(
        kind=pl.lit("span"), name=pl.lit("callback: Watch.on_train_batch_start"), stage=pl.lit("output"), file=pl.lit(SCRIPT), line=60
    )

    functions = functions_in_callbacks(replace(trainer, spans=named), read_stacks(timeline, trainer.process, trainer.thread))

    assert functions == {(SCRIPT, 60)}
