"""The rule slow-sampler: whose drawing of indices it names, what drawing at once gains, and that a quick one is none."""

from __future__ import annotations

import pytest

from judged import answer_of, finding, values
from made_measurements import SCRIPT, measurements
from slowstep.analyses.batches.sampler import SamplerTime
from slowstep.analyses.measurements import Measurements
from slowstep.parts import Part, PartKind
from slowstep.timeline.timeline import Frame

RULE = "slow-sampler"
DRAWING = Part("preprocess", PartKind.SAMPLER)
SAMPLER = Frame(file=SCRIPT, function="HardExamples.__iter__", first_line=12, line=14)
DRAWN_MS = 8.0


def drawing(ms: float = DRAWN_MS, *, held: float = 1.0, stacks: int = 200, gaps: int = 0, into: str | None = None) -> Measurements:
    """Steps of 19.5 ms in which drawing takes so many more, known by stacks or in timed gaps; `held` of it is the sampler's."""
    known = {"stacks": stacks, "of_stacks": stacks} if not gaps else {"gaps": gaps}
    sampler_time = SamplerTime(function=SAMPLER, share=1.0, held=held, into=into, **known)
    return measurements(ledger={DRAWING: ms}, sampler_time=sampler_time)


def test_a_sampler_in_python_is_named_and_what_drawing_at_once_gains():
    found = finding(RULE, drawing())

    assert values(found)["function"] == "HardExamples.__iter__"
    assert (found.stage, found.claims) == ("preprocess", (DRAWING,))
    assert found.share == pytest.approx(8 / 27.5, rel=0.01)
    assert found.gain.predicted == pytest.approx(27.5 / (27.5 - 0.95 * 8), rel=0.01)
    assert found.gain.low < found.gain.predicted < found.gain.high


def test_of_few_stacks_the_interval_is_wider_and_of_timed_calls_it_is_exact():
    few, many, timed = (finding(RULE, m) for m in (drawing(stacks=6), drawing(stacks=600), drawing(gaps=3)))

    assert few.share_low < many.share_low < timed.share_low
    assert values(few)["stack samples in it"] == 6
    assert values(timed)["timed in"] == 3


def test_the_loaders_own_work_around_it_is_not_the_samplers():
    assert finding(RULE, drawing(held=0.5)).share == pytest.approx(finding(RULE, drawing()).share / 2, rel=0.01)


@pytest.mark.parametrize("into", ["Column.__getitem__ (datasets)", None], ids=["a library's", "its own"])
def test_what_the_sampler_asks_a_library_for_is_named_and_to_be_taken_once(into):
    found = finding(RULE, drawing(into=into))

    assert values(found).get("most of it in") == into
    assert len(found.fixes) == (2 if into is None else 3)


@pytest.mark.parametrize(
    "m", [drawing(0.5), drawing(held=0.05), measurements(ledger={DRAWING: DRAWN_MS})], ids=["quick", "the loader's own", "nobody's"]
)
def test_a_quick_sampler_and_time_that_is_nobodys_are_none(m):
    assert answer_of(RULE, m) is None
