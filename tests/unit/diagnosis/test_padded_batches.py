"""The rule on padding: what fires it, what is close and does not, and where nothing tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judged import answer_of, code_of, finding, unjudged
from made_measurements import measurements
from slowstep.analyses.input.padded_work import Exponents, PaddedWork
from slowstep.analyses.input.padding import Left, Padding, PaddingLook
from slowstep.analyses.measurements import Measurements
from slowstep.parts import BODY, OPTIMIZER

RULE = "padded-batches"
ALL = Exponents(linear=1.0, square=0.0)
HALF = Left(places=0.5, squares=0.25)
WHOLE = Left(places=1.0, squares=1.0)
FIXED_LENGTH = Padding(
    batches=24, length=128, longest=64, rows=16, padded=0.66, by_mask=True, value=0, to_longest=HALF,
    bucketed=Left(places=0.4, squares=0.2), partly=Left(places=0.45, squares=0.25), unpadded=Left(places=0.34, squares=0.15),
    work=PaddedWork(usual=ALL, least=Exponents(linear=0.8, square=0.0), most=ALL),
)  # fmt: skip
DYNAMIC = replace(FIXED_LENGTH, length=64, to_longest=WHOLE)


def _padded(*found: Padding, **changes: object) -> Measurements:
    return measurements(ledger={BODY: 30.0, OPTIMIZER: 1.0}, input={"padding": PaddingLook(looks=24, found=found)}, **changes)


def test_half_of_the_places_left_out_save_half_of_forward_and_backward() -> None:
    m = _padded(FIXED_LENGTH)
    passes = float(m.ledger.of_parts(*finding(RULE, m).claims).mean())

    gain = finding(RULE, m).gain

    assert gain.predicted == pytest.approx(m.mean_step_ns / (m.mean_step_ns - passes / 2), rel=0.01)
    assert gain.low is not None
    assert gain.predicted is not None
    assert gain.low < gain.predicted
    assert OPTIMIZER not in finding(RULE, m).claims


def test_batches_up_to_their_longest_come_first_and_change_nothing_where_a_mask_hides_padding() -> None:
    first, second = finding(RULE, _padded(FIXED_LENGTH)).fixes

    assert not first.changes_numerics
    assert second.changes_numerics
    assert finding(RULE, _padded(replace(FIXED_LENGTH, by_mask=False))).fixes[0].changes_numerics


def test_of_dynamic_padding_only_batches_by_length_gain() -> None:
    m = _padded(DYNAMIC)
    found = finding(RULE, m)
    passes = float(m.ledger.of_parts(*found.claims).mean())

    assert len(found.fixes) == 1
    assert found.gain.predicted == pytest.approx(m.mean_step_ns / (m.mean_step_ns - 0.6 * passes), rel=0.01)


def test_work_with_the_square_of_the_length_saves_more() -> None:
    square = PaddedWork(usual=Exponents(linear=0.5, square=0.5), least=ALL, most=Exponents(linear=0.0, square=1.0))
    plain, squared = (finding(RULE, _padded(replace(FIXED_LENGTH, work=work))).gain.predicted for work in (FIXED_LENGTH.work, square))

    assert plain is not None
    assert squared is not None
    assert squared > plain


def test_of_inputs_and_targets_each_saves_what_grows_with_it() -> None:
    half = PaddedWork(usual=Exponents(linear=0.5, square=0.0), least=Exponents(linear=0.4, square=0.0), most=ALL)
    one, both = (finding(RULE, _padded(*(replace(FIXED_LENGTH, work=half),) * count)).gain.predicted for count in (1, 2))

    assert one is not None
    assert both is not None
    assert both > one
    assert both == finding(RULE, _padded(FIXED_LENGTH)).gain.predicted


@pytest.mark.parametrize(
    "padding",
    [
        replace(FIXED_LENGTH, work=PaddedWork(usual=Exponents(linear=0.01, square=0.0), least=Exponents(linear=0.0, square=0.0), most=ALL)),
        replace(FIXED_LENGTH, to_longest=WHOLE, bucketed=Left(places=0.99, squares=0.98)),
    ],
    ids=["little grows with the length", "little is padding"],
)
def test_padding_that_costs_next_to_nothing_is_not_blamed(padding: Padding) -> None:
    assert answer_of(RULE, _padded(padding)) is None


def test_no_padding_is_clean() -> None:
    assert answer_of(RULE, _padded()) is None


def test_what_nobody_looked_at_leaves_no_verdict_in_doubt() -> None:
    answer = unjudged(RULE, measurements(input={"padding": None}))

    assert answer is not None
    assert answer.reason.code == "padding-not-looked-at"
    assert answer.advisory


def test_work_of_which_nothing_tells_how_it_grows_is_not_judged() -> None:
    assert code_of(RULE, _padded(replace(FIXED_LENGTH, work=None))) == "padded-work-unknown"


def test_on_an_accelerator_nothing_may_be_gained() -> None:
    on_processor, on_device = (finding(RULE, _padded(FIXED_LENGTH, device=device)) for device in ("cpu", "cuda"))

    assert on_device.gain.predicted == on_processor.gain.predicted
    assert on_device.gain.low is not None
    assert on_device.gain.low <= 1.0 < (on_processor.gain.low or 0.0)
