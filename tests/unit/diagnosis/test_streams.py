"""Streams of which each worker gives all samples: nobody is told to start several workers without a word."""

from __future__ import annotations

import pytest

from judged import finding
from made_measurements import fed, measurements
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.lever_specs import of_its_loader
from slowstep.document.recorded_run import repeated_samples
from slowstep.findings import Finding


def _measured(workers: int, divides: bool | None, *, draws: bool = False) -> Measurements:
    return measurements(**fed(workers, cpu_ms=60, loader={"divides": divides, "draws": draws}))


def _fix(found: Finding) -> tuple[str | None, bool]:
    """Its lever, and whether it says how to divide the stream."""
    return found.fixes[0].lever, "get_worker_info" in found.fixes[0].text


@pytest.mark.parametrize("divides", [None, True])
def test_as_many_workers_as_are_needed_where_each_gives_its_part(divides):
    assert _fix(finding("serial-loader", _measured(0, divides))) == ("workers=4", False)
    assert _fix(finding("too-few-workers", _measured(1, divides))) == ("workers=4", False)
    assert repeated_samples(_measured(2, divides)) is None


@pytest.mark.parametrize(("rule", "workers"), [("serial-loader", 0), ("too-few-workers", 1)])
def test_of_one_that_draws_at_random_it_is_to_be_sure_of_before_there_are_several(rule, workers):
    found = finding(rule, _measured(workers, None, draws=True))

    assert _fix(found) == ("workers=4", True)
    assert "unless each worker draws its own" in found.fixes[0].text


def test_one_worker_gives_what_the_training_thread_gave_and_more_need_a_change_of_the_stream():
    assert _fix(finding("serial-loader", _measured(0, False))) == ("workers=1", True)


@pytest.mark.parametrize(
    ("lever", "divides", "is_made"),
    [("workers=3", False, False), ("workers=0", False, False), ("workers=3", True, True), ("prefetch=4", False, True)],
)
def test_no_rule_proposes_another_number_of_workers_for_it(lever, divides, is_made):
    assert of_its_loader(_measured(2, divides), lever) == (lever if is_made else None)


def test_no_lever_tries_more_workers_that_would_give_other_samples():
    assert _fix(finding("too-few-workers", _measured(1, False))) == (None, True)


@pytest.mark.parametrize(("workers", "is_said"), [(0, False), (1, False), (2, True)])
def test_that_samples_are_given_several_times_is_said(workers, is_said):
    assert (repeated_samples(_measured(workers, False)) is not None) == is_said
