"""What other ranks' traces change in a rank's diagnosis."""

from __future__ import annotations

from dataclasses import replace

import pytest

from slowstep.analyses.events.parts import COLLECTIVES, KERNELS
from slowstep.analyses.job.late_rank import RankComparison, Standing
from slowstep.diagnosis.among_ranks import (
    EVENING_OUT,
    IS_THE_LAST,
    LAST_IN_TURN,
    LAST_OFTEN,
    NONE_LATER,
    OTHER_IS_LATE,
    SETS_THE_PACE,
    THIS_IS_LATE,
    UNEVEN_AND_MORE,
    UNEVEN_IN_TURN,
    among_ranks,
    look_at,
    pace,
)
from slowstep.diagnosis.law import WAITS_FOR_RANK, Diagnosis, NextLimit
from slowstep.diagnosis.missing_ranks import LATE_ONE_MAY_BE_MISSING, LATER_ONE_MAY_BE_MISSING, RANKS_COMPARED
from slowstep.diagnosis.rules.sharing.exposed_communication import COMPARE_RANKS, NOT_SEEN, assumes
from slowstep.diagnosis.trace_view import LATE_ONE_NOT_SEEN
from slowstep.findings import Evidence, Finding, Fix, Gain, Verdict
from slowstep.reasons import Reason, Wording

OPEN = Wording("open", "it is not known")()


def standing(own: float, shared: float, waited: float = 0.0, *, waits: bool = False) -> Standing:
    return Standing(own_ns=own * 1e6, shared_ns=shared * 1e6, waited_ns=waited * 1e6, waits=waits)


def ranks(
    *standings: Standing, gain: float = 1.0, is_one: bool = True, size: int = 0, slowest: int = 1, last_in: int = 5
) -> RankComparison:
    return RankComparison(
        standings=dict(enumerate(standings)),
        size=size or len(standings),
        slowest=slowest,
        fastest=0,
        gain_at_most=gain,
        is_one=is_one,
        steps=5,
        last_in=last_in,
    )


SHARES = {"compute": 0.6, "gradient_sharing": 0.2, "preprocess": 0.2}
LATE = ranks(standing(36.5, 23.6, 21.6, waits=True), standing(58.1, 2.0), gain=1.56)


def finding(rule: str, share: float, predicted: float, *, stage: str = "gradient_sharing", also: tuple[str, ...] = ()) -> Finding:
    return Finding(
        rule=rule,
        stage=stage,
        title=f"{rule} is there",
        share=share,
        share_low=share,
        share_high=share,
        claims=(COLLECTIVES if stage == "gradient_sharing" else KERNELS,),
        evidence=(Evidence(name="seen", value=1, unit=""),),
        gain=Gain(predicted=predicted, low=predicted, high=predicted, assumes=assumes(NOT_SEEN)),
        fixes=(Fix(text="mend it"), COMPARE_RANKS),
        also=also,
    )


def diagnosis(*findings: Finding, state: str = "bottleneck", reason: Reason = OPEN) -> Diagnosis:
    first = findings[0] if findings and state == "bottleneck" else None
    verdict = Verdict(
        state=state,  # type: ignore[arg-type]
        stage=first.stage if first else "compute",
        healthy=state == "healthy" or (None if state == "undetermined" else False),
        rule=first.rule if first else None,
        reason=None if first else reason,
    )
    return Diagnosis(
        findings=findings, not_judged=(), verdict=verdict, next=NextLimit(stage="compute", predicted=OPEN) if findings else None
    )


def judged(before: Diagnosis, compared: RankComparison, rank: int) -> Diagnosis:
    return among_ranks(before, compared, rank, shares=SHARES)


def test_nothing_is_blamed_in_a_rank_that_waits_for_a_late_one() -> None:
    after = judged(diagnosis(finding("exposed-communication", 0.39, 1.32, also=("small-collectives",))), LATE, 0)

    assert (after.verdict.state, after.verdict.rule) == ("undetermined", None)
    assert after.verdict.reason == WAITS_FOR_RANK(rank=1, theirs_ns=58.1e6, own_ns=36.5e6, missing=None)
    assert after.findings == ()
    assert after.next is None
    assert [row.rule for row in after.not_judged] == ["exposed-communication", "small-collectives"]
    reason = after.not_judged[0].reason
    assert (reason.code, reason.values["shared_ns"], reason.values["waited_ns"]) == ("waits-in-collectives", 23.6e6, 21.6e6)
    assert look_at(LATE, 0) == 1


def test_a_rank_that_waits_for_a_late_one_is_told_that_a_missing_one_may_be_later_still() -> None:
    of_five = replace(LATE, size=5)

    reason = judged(diagnosis(state="healthy"), of_five, 0).verdict.reason

    assert reason == WAITS_FOR_RANK(rank=1, theirs_ns=58.1e6, own_ns=36.5e6, missing=LATER_ONE_MAY_BE_MISSING(others=3))


def test_a_late_rank_is_not_healthy_and_says_what_evening_out_would_gain() -> None:
    after = judged(diagnosis(state="healthy"), LATE, 1)

    assert (after.verdict.state, after.verdict.healthy) == ("undetermined", None)
    sets_the_pace = SETS_THE_PACE(who="this rank", often=None, own_ns=58.1e6, fastest=0, fastest_ns=36.5e6, gain=EVENING_OUT(gain=1.56))
    assert after.verdict.reason == THIS_IS_LATE(pace=sets_the_pace)
    assert look_at(LATE, 1) is None


def test_a_late_rank_of_which_something_else_is_not_known_says_both() -> None:
    after = judged(diagnosis(state="undetermined", reason=OPEN), LATE, 1)

    assert after.verdict.reason == UNEVEN_AND_MORE(pace=pace(LATE, 1), reason=OPEN)
    assert after.verdict.reason.of(SETS_THE_PACE)


def test_a_late_rank_keeps_the_bottleneck_that_makes_it_late() -> None:
    before = diagnosis(finding("input-wait", 0.4, 1.5, stage="preprocess"))

    assert judged(before, LATE, 1) == before


def test_a_rank_beside_a_late_one_is_not_healthy_either() -> None:
    three = ranks(standing(36, 24, 22, waits=True), standing(58, 2), standing(55, 5, 3), gain=1.5)

    reason = judged(diagnosis(state="healthy"), three, 2).verdict.reason

    assert reason == OTHER_IS_LATE(pace=pace(three, 2))
    assert reason.values["pace"].values["who"] == "rank 1"


def test_collectives_count_for_what_remains_beside_the_waiting() -> None:
    uneven = ranks(standing(70, 30, 12), standing(74, 26))

    after = judged(diagnosis(finding("exposed-communication", 0.30, 1.40)), uneven, 0)

    assert after.verdict.rule == "exposed-communication"
    found = after.findings[0]
    assert round(found.share, 2) == 0.18
    assert found.gain.predicted is not None
    assert round(found.gain.predicted, 3) == round(1 / (1 - 0.18), 3)
    assert "for 12 % of it this rank waits" in found.title
    assert found.evidence[-1].value == 12.0


def test_where_waiting_leaves_too_little_of_the_collectives_the_next_finding_is_the_bottleneck() -> None:
    uneven = ranks(standing(80, 20, 12), standing(84, 16))
    before = diagnosis(finding("exposed-communication", 0.20, 1.25), finding("launch-bound", 0.3, 1.2, stage="compute"))

    assert judged(before, uneven, 0).verdict.rule == "launch-bound"
    alone = judged(diagnosis(finding("exposed-communication", 0.20, 1.25)), uneven, 0)
    doubtful = judged(diagnosis(finding("exposed-communication", 0.20, 1.25), state="undetermined"), uneven, 0)
    assert alone.verdict == doubtful.verdict
    assert alone.verdict.state == "undetermined"
    assert (alone.verdict.reason.code, alone.verdict.reason.values["rule"]) == ("rule-not-judged", "exposed-communication")
    assert alone.verdict.reason.holds(alone.not_judged[0].reason)


def test_a_finding_that_is_smaller_than_what_nothing_explains_does_not_take_the_place_of_the_collectives() -> None:
    uneven = ranks(standing(80, 20, 12), standing(84, 16))
    before = diagnosis(finding("exposed-communication", 0.20, 1.25), finding("input-wait", 0.12, 1.13, stage="preprocess"))

    after = among_ranks(before, uneven, 0, shares={"compute": 0.4, "preprocess": 0.12, "unattributed": 0.28})

    assert (after.verdict.reason.code, after.verdict.reason.values["unattributed"]) == ("unknown-is-larger", 0.28)


def test_ranks_that_are_late_in_turn_are_said_and_none_is_named() -> None:
    turns = ranks(standing(50, 12, 10), standing(50, 12, 10), gain=1.19, is_one=False, last_in=3)

    after = judged(diagnosis(finding("exposed-communication", 0.19, 1.2)), turns, 0)

    assert after.verdict.reason == UNEVEN_IN_TURN(pace=LAST_IN_TURN(here=None, gain=EVENING_OUT(gain=1.19)))
    assert look_at(turns, 0) is None


def test_of_a_whole_job_whose_ranks_are_even_the_collectives_are_the_bottleneck_and_no_late_rank_is_assumed_away() -> None:
    even = ranks(standing(70, 30), standing(70, 30))

    found = judged(diagnosis(finding("exposed-communication", 0.30, 1.40)), even, 1).findings[0]

    assert found.gain.predicted == 1.40
    assert "not seen" not in found.gain.assumes
    assert [fix.text for fix in found.fixes] == ["mend it"]
    assert judged(diagnosis(finding("exposed-communication", 0.30, 1.40)), even, 1).next is not None
    assert pace(even) is None


def test_two_of_many_ranks_prove_nothing_about_the_others() -> None:
    few = ranks(standing(70, 30), standing(70, 30), size=128)
    before = diagnosis(finding("exposed-communication", 0.30, 1.40))

    found = judged(before, few, 1).findings[0]

    assert found.gain.assumes.endswith("no other rank became late (126 were not compared)")
    _, others = found.fixes
    assert "the 126 other ranks" in others.text
    late = ranks(standing(36.5, 23.6, 21.6, waits=True), standing(58.1, 2.0), gain=1.56, size=128)
    reason = judged(diagnosis(state="healthy"), late, 1).verdict.reason
    assert reason.of(IS_THE_LAST)
    assert reason.holds(RANKS_COMPARED(seen=2, size=128))


def test_where_all_ranks_were_looked_at_nobody_is_sent_to_look_at_all_ranks() -> None:
    before = diagnosis(state="undetermined", reason=LATE_ONE_NOT_SEEN(share=0.12, stage="gradient_sharing"))

    even, few = ranks(standing(70, 10), standing(70, 10)), ranks(standing(70, 10), standing(70, 10), size=128)

    assert judged(before, even, 0).verdict.reason == NONE_LATER(share=0.12, stage="gradient_sharing")
    missing = LATE_ONE_MAY_BE_MISSING(share=0.12, stage="gradient_sharing", others=126)
    assert judged(before, few, 0).verdict.reason == missing


def test_a_rank_that_is_the_last_in_some_steps_only_is_said_to_be_so() -> None:
    often = ranks(standing(36.5, 23.6, 21.6, waits=True), standing(58.1, 2.0), gain=1.56, last_in=3)

    found = pace(often)

    assert found is not None
    assert (found.code, found.values["who"], found.values["often"]) == ("sets-the-pace", "rank 1", LAST_OFTEN(times=3, steps=5))


def test_a_little_waiting_takes_little_off_a_finding_and_leaves_it_where_it_is() -> None:
    even = ranks(standing(50.0, 5.0, 0.1), standing(50.1, 4.9))

    after = judged(diagnosis(finding("small-collectives", 0.045, 1.04), state="healthy"), even, 0)

    (left,) = after.findings
    assert left.rule == "small-collectives"
    # Half of the collectives' time is its own, and half of the waiting.
    assert 0.045 - left.share == pytest.approx(0.045 / (5 / 55) * 0.1 / 55)


def test_a_small_finding_that_is_waiting_for_the_most_part_is_not_judged() -> None:
    uneven = ranks(standing(50.0, 5.0, 4.0), standing(54.0, 1.0))

    after = judged(diagnosis(finding("small-collectives", 0.09, 1.08), state="healthy"), uneven, 0)

    assert after.findings == ()
    assert [row.rule for row in after.not_judged] == ["small-collectives"]
