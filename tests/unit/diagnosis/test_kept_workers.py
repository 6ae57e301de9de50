"""Advice that would have workers read other data than the script says so, or is not given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from judged import finding, unjudged
from made_measurements import MS, fed, measurements, per_step
from slowstep.analyses.measurements import Measurements
from slowstep.findings import Fix
from slowstep.parts import Part, PartKind


def restarted(starts: int = 8, **loader: Any) -> Measurements:
    """Workers that are started again in each of some epochs, which takes a tenth of a second and more."""
    begun = np.zeros(200)
    begun[np.linspace(0, 199, starts).astype(int)] = 800 / starts
    made = {"count": starts, "with_workers": starts, "used_up": starts, "cut_short": 0, "batches_each": 25, "start_ns": per_step(begun)}
    return measurements(ledger={Part("preprocess", PartKind.LOADER_START): begun}, over_time={"restarts": made}, loader=loader)


def serial(**loader: Any) -> Fix:
    return finding("serial-loader", measurements(**fed(0, cpu_ms=40.0, loader=loader))).fixes[0]


@pytest.mark.parametrize(
    ("changed", "lever", "said"),
    [(None, "persistent-workers", "do not see"), ((), "persistent-workers", ""), (("epoch",), None, "epoch")],
    ids=["one pass seen", "nothing changes", "set_epoch"],
)
def test_workers_are_kept_by_a_lever_where_the_data_set_stays_as_it_was(changed: Any, lever: str | None, said: str) -> None:
    fix = finding("worker-restart", restarted(changed=changed)).fixes[0]

    assert fix.lever == lever
    assert fix.text.startswith("DataLoader(..., persistent_workers=True)")
    assert said in fix.text


@pytest.mark.parametrize(("changed", "lever"), [((), "persistent-workers"), (("epoch",), None)])
def test_of_too_few_starts_no_lever_would_tell_where_it_trains_on_other_data(changed: Any, lever: str | None) -> None:
    answer = unjudged("worker-restart", restarted(2, changed=changed))

    assert answer is not None
    assert answer.lever == lever


@pytest.mark.parametrize(("changed", "kept"), [(None, True), ((), True), (("epoch", "scale"), False)])
def test_new_workers_are_kept_where_the_data_set_stays_as_it_was(changed: Any, kept: bool) -> None:
    fix = serial(changed=changed)

    assert ("persistent_workers=True" in fix.text) is kept
    assert fix.lever is not None


@pytest.mark.parametrize(("name", "said"), [(None, False), ("rng", True)])
def test_a_generator_of_which_each_worker_has_a_copy_is_named(name: str | None, said: bool) -> None:
    assert ("rng" in serial(generator=name).text) is said


@pytest.mark.parametrize(
    ("length", "drop_last", "said"),
    [(64_001, False, "drop_last"), (64_000, False, None), (64_001, True, None), (20, True, "no batch"), (None, False, None)],
    ids=["one is left", "none is left", "it is dropped", "all would be dropped", "length unknown"],
)
def test_a_last_batch_of_one_sample_is_said_with_a_larger_batch(length: int | None, drop_last: bool, said: str | None) -> None:
    cost = {"value_ns": 15 * MS, "likely_ns": 15 * MS, "low_ns": 14 * MS, "high_ns": 16 * MS, "step_ns": 19.5 * MS, "samples": 4.0}
    m = measurements(fixed_cost=cost, samples=4.0, loader={"drop_last": drop_last}, input={"facts": {"dataset_length": length}})

    text = finding("small-batch", m).fixes[0].text

    assert (said in text) if said is not None else ("drop_last" not in text)
