"""Which loader's batches take most of the validations, and which function makes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import LIBRARY, LOOP, MS, SCRIPT, TRAINER_THREAD
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing.format import STACK

STEPS, EVERY = 100, 10
FETCH = (f"{LIBRARY}/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 40, 52)
ITEM = (SCRIPT, "Words.__getitem__", 20, 21)
TOKENISE = (SCRIPT, "Words.tokenise", 12, 14)
PARSE = (SCRIPT, "parse", 5, 7)
# Outside of the loader: what the script validates in.
VALIDATE = (SCRIPT, "validate", 60, 62)
A_HALF_EACH = (*[(ITEM, TOKENISE)] * 5, *[(ITEM, PARSE)] * 5)


def measured(folder: Path, *, slow_ms: float, fast_ms: float = 2, workers: int = 0, made_in: tuple[tuple, ...] = ((ITEM, TOKENISE),) * 10):
    """Every ten steps a validation of two loaders, one after the other, 5 ms of which are the model's; a stack in each slow batch."""
    events, now = Events(folder), 0.0
    events.loader()
    for number, (dataset, count) in enumerate((("Rows", 0), ("Words", workers)), 1):
        row = {
            "kind": "iterator",
            "id": number,
            "loader": number,
            "num_workers": count,
            "workers": [],
            "dataset": dataset,
            "batch_size": 16,
        }
        events.trainer.lines.append(row)
    for step in range(STEPS):
        now = events.step(now, batch=step)
        if (step + 1) % EVERY:
            continue
        events.wait(now + 0.1, now + 0.1 + fast_ms, 0, iterator=1)
        now += 0.1 + fast_ms
        events.wait(now, now + slow_ms, 0, iterator=2)
        functions = made_in[step // EVERY % len(made_in)]
        stack = events.trainer.stack([LOOP, VALIDATE, *((FETCH, *functions) if not workers else ())])
        events.trainer.event(STACK, at(now + slow_ms / 2), at(now + slow_ms / 2), stack, slow_ms * MS, 0, thread=TRAINER_THREAD)
        now += slow_ms + 5
        events.wait(now, now + 0.1, 1, iterator=2)
        now += 0.1
    return measure_recording(events.timeline(), warmup=0)


def test_the_slower_of_two_loaders_and_the_function_that_makes_its_batches_are_named(tmp_path):
    m = measured(tmp_path, slow_ms=100)

    batches = m.over_time.validations.batches
    assert batches is not None
    assert (batches.dataset, batches.function) == ("Words", "Words.tokenise (train.py:12)")
    assert batches.share == pytest.approx(100 / 107.2, abs=0.02)


def test_of_two_functions_that_hold_half_each_what_calls_both_is_named(tmp_path):
    m = measured(tmp_path, slow_ms=100, made_in=A_HALF_EACH)

    assert m.over_time.validations.batches.function == "Words.__getitem__ (train.py:20)"


@pytest.mark.parametrize("workers", [2, 0])
def test_where_no_stack_tells_the_function_the_loader_is_known(tmp_path, workers):
    batches = measured(tmp_path, slow_ms=100, workers=workers, made_in=((),)).over_time.validations.batches

    assert (batches.dataset, batches.num_workers, batches.function) == ("Words", workers, None)


def test_a_validation_whose_time_is_the_models_names_no_loader(tmp_path):
    m = measured(tmp_path, slow_ms=2, fast_ms=2)

    assert m.over_time.validations.batches is None
