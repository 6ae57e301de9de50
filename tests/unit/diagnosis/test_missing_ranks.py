"""A rank whose job lacks others is judged knowing that."""

from __future__ import annotations

import pytest

from made_measurements import measurements
from slowstep.analyses.sharing.sharing import MissingRanks
from slowstep.diagnosis.engine import diagnose
from slowstep.diagnosis.unseen_time import SEE_WHY
from slowstep.parts import Part, PartKind
from slowstep.units import format_ranks

SHARING = Part("gradient_sharing", PartKind.COLLECTIVE)


@pytest.mark.parametrize(
    ("missing", "apart", "code"),
    [
        ((), False, "overlap-not-known"),
        ((3,), False, "late-one-not-recorded"),
        ((3, 5), False, "late-one-not-recorded"),
        ((3,), True, "sharing-with-others"),
    ],
    ids=["none", "one", "two", "recorded elsewhere"],
)
def test_a_rank_that_shares_much_may_wait_for_one_that_left_no_recording(missing: tuple[int, ...], apart: bool, code: str) -> None:
    sharing = {"rank": 0, "ranks": 8, "seen": True, "missing": MissingRanks(numbers=missing, count=len(missing)), "apart": apart}

    found = diagnose(measurements(ledger={SHARING: 10.0}, sharing=sharing))

    assert found.verdict.reason is not None
    assert (found.verdict.state, found.verdict.reason.code) == ("undetermined", code)
    if code == "late-one-not-recorded":
        assert found.verdict.reason.values["missing"] == format_ranks(missing)
        assert found.change == SEE_WHY


def test_where_little_is_shared_a_missing_rank_leaves_nothing_open() -> None:
    sharing = {"rank": 0, "ranks": 8, "seen": True, "missing": MissingRanks(numbers=(3,), count=1)}

    assert diagnose(measurements(ledger={SHARING: 0.5}, sharing=sharing)).verdict.state == "healthy"
