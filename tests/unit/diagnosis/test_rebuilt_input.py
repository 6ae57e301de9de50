"""The rule rebuilt-input: what is built for the loader between epochs, what building it once gains, and that nobody else says so."""

from __future__ import annotations

import numpy as np
import pytest

from judged import answer_of, finding, named, values
from made_measurements import MS, changed, measurements
from made_parts import function_part, span_part
from slowstep.analyses.input.rebuilt import RebuiltInput
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.diagnosis.engine import diagnose

RULE = "rebuilt-input"
SAMPLER = function_part("preprocess", "Balanced.__init__", "train.py", 27)
EPOCH = 20


def built(ms: float, *parts, **changes):
    """200 steps of 19.5 ms, the last of each epoch of 20 steps longer by so many ms."""
    per_step = np.where(np.arange(200) % EPOCH == 0, ms, 0.0)
    rebuilt = RebuiltInput(parts=parts, ns=per_step * MS, delay_ns=np.zeros(200), every_steps=float(EPOCH))
    return measurements(ledger={parts[0]: per_step}, input={"rebuilt": rebuilt}, **changes)


def test_a_sampler_that_is_built_for_each_epoch_is_named_with_its_place_and_how_often():
    found = finding(RULE, built(390.0, SAMPLER, stacks={SAMPLER: 300}))

    assert (found.stage, found.claims) == ("preprocess", (SAMPLER,))
    assert "Balanced.__init__ (train.py:27)" in found.title
    assert "every 20 steps" in found.title
    assert found.share == pytest.approx(0.5, abs=0.01)
    assert found.gain.predicted == pytest.approx(2.0, rel=0.02)
    assert "once" in found.fixes[0].text
    assert values(found)["stack samples in it"] == 300


def test_of_few_stacks_the_interval_is_wider():
    other = function_part("output", "log", "train.py", 40)
    few, many = (finding(RULE, built(100.0, SAMPLER, stacks={SAMPLER: n, other: n})) for n in (6, 600))

    assert few.share_low < many.share_low
    assert few.share_high > many.share_high


def test_a_span_is_known_to_the_instant():
    hook = span_part("preprocess", "Pairs.train_dataloader")
    found = finding(RULE, built(390.0, hook))

    assert "Pairs.train_dataloader" in found.title
    assert "stack samples in it" not in values(found)


@pytest.mark.parametrize("m", [measurements(), built(8.0, SAMPLER)], ids=["nothing is built", "under 3 %"])
def test_without_it_there_is_no_finding(m):
    assert answer_of(RULE, m) is None


def test_the_rules_on_callbacks_and_periods_do_not_say_it_again():
    m = built(390.0, SAMPLER, stacks={SAMPLER: 300})
    event = OccasionalEvent(name=None, known=False, part=SAMPLER, every_steps=float(EPOCH), count=10, ns=m.input.rebuilt.ns)
    m = changed(m, events=(event,))

    verdict = diagnose(m).verdict
    assert (verdict.state, verdict.stage, verdict.rule) == ("bottleneck", "preprocess", RULE)
    assert named(m) == [RULE]
