"""What a capture shows of the stages that hooks cannot see goes out of the compute, and the account still sums to the steps."""

from __future__ import annotations

import numpy as np
import pytest

from made_measured_traces import made_measured
from made_measurements import MS, measurements
from slowstep.analyses.events.parts import COLLECTIVES, COPIES, KERNELS
from slowstep.analyses.ledger.captured_ledger import with_captured_ledger
from slowstep.parts import BACKWARD, BODY, OPTIMIZER, Part, PartKind

LOADING = Part("preprocess", PartKind.TRANSPORT)
NO_MORE = {BACKWARD: 0.0, OPTIMIZER: 0.0}
FROM_CAPTURE = Part("h2d", PartKind.FROM_CAPTURE)
CAPTURED = made_measured(ledger={KERNELS: 60.0, COPIES["h2d"]: 30.0, COLLECTIVES: 10.0}).ledger


def test_stages_that_hooks_cannot_see_take_their_shares_out_of_every_steps_compute() -> None:
    own = measurements(steps=2, ledger={LOADING: 2.0, BODY: [2.0, 6.0], BACKWARD: 4.0, OPTIMIZER: 0.0}).ledger

    found = with_captured_ledger(own, CAPTURED)

    assert found.share("h2d") == pytest.approx(0.3)
    assert found.share("gradient_sharing") == pytest.approx(0.1)
    assert found.share("compute") == pytest.approx(0.4)
    assert found.share("preprocess") == own.share("preprocess")
    # 3 of 8 parts of the compute: of 6 ms in the first step, of 10 in the second.
    assert found.of_parts(FROM_CAPTURE) == pytest.approx([2.25 * MS, 3.75 * MS])
    assert found.of_parts(BODY) == pytest.approx([1.0 * MS, 3.0 * MS])
    assert found.ns.sum(axis=0) == pytest.approx(own.ns.sum(axis=0))


def test_what_hooks_have_seen_stays_and_none_gets_more_than_there_is() -> None:
    sharing = Part("gradient_sharing", PartKind.COLLECTIVES)
    own = measurements(ledger=NO_MORE | {LOADING: 6.0, sharing: 2.0, BODY: 2.0}).ledger

    found = with_captured_ledger(own, CAPTURED)

    assert found.share("gradient_sharing") == own.share("gradient_sharing")
    assert found.share("h2d") == pytest.approx(0.2)
    assert found.share("compute") == pytest.approx(0.0)


def test_of_a_stage_that_the_capture_has_nothing_of_it_is_known_that_it_takes_no_time() -> None:
    own = measurements().ledger

    found = with_captured_ledger(own, made_measured(ledger={KERNELS: 60.0}).ledger)

    assert found.parts_of("h2d", PartKind.FROM_CAPTURE) == (FROM_CAPTURE,)
    assert found.total("h2d") == 0.0
    assert found.total("compute") == own.total("compute")


def test_bounds_of_the_compute_shrink_with_it() -> None:
    own = measurements(steps=1, ledger=NO_MORE | {LOADING: 2.0, BODY: 8.0}).ledger
    bounded = type(own)(parts=own.parts, ns=own.ns, low=own.ns * 0.5, high=own.ns * 1.0)

    found = with_captured_ledger(bounded, CAPTURED)

    assert found.bounds(BODY)[0] == pytest.approx(2.0 * MS)
    assert np.all(found.low <= found.ns)
