"""Of each of the host's parts the device idled for as large a share as at the stacks that were taken there."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.ledger.probed_device import WAITING, charge_probed, was_asked
from slowstep.analyses.python.functions import Stacks
from slowstep.parts import NOT_ATTRIBUTED, UPDATES, CodePlace, Part, PartKind

PLOT = Part("output", PartKind.FUNCTION, "plot", CodePlace("train.py", 3))
SAMPLES, TRANSPORT = Part("preprocess", PartKind.SAMPLES), Part("preprocess", PartKind.TRANSPORT)
COMPILING = Part("compute", PartKind.COMPILATION, "train_step")
ROWS = {PLOT: np.array([40.0, 80.0]), SAMPLES: np.array([30.0, 0.0]), TRANSPORT: np.array([10.0, 0.0]), UPDATES: np.array([20.0, 20.0])}


def stacks(*idle: int) -> Stacks:
    count = len(idle)
    numbers = np.arange(count)
    return Stacks(
        time_ns=numbers,
        weight_ns=np.ones(count),
        stack=numbers,
        frames={},
        blocked=np.zeros(count, np.bool_),
        device_idle=np.array(idle, np.int8),
    )


def test_the_device_has_what_is_left_of_every_step():
    where = [PLOT] * 40 + [WAITING] * 20

    found = charge_probed(ROWS, stacks(*([1] * 10 + [0] * 30), *([1] * 20)), where, UPDATES)

    assert found.ns[PLOT] == pytest.approx([10.0, 20.0])
    # Parts of a wait are not told apart by time.
    assert found.ns[SAMPLES] == pytest.approx([30.0, 0.0])
    assert found.ns[TRANSPORT] == pytest.approx([10.0, 0.0])
    assert found.ns[UPDATES] == pytest.approx([50.0, 80.0])
    assert sum(found.ns.values()) == pytest.approx([100.0, 100.0])


def test_bounds_are_those_of_the_share_and_hold_together():
    found = charge_probed(ROWS, stacks(*([1] * 10 + [0] * 30)), [PLOT] * 40, UPDATES)

    assert found.low is not None
    assert found.high is not None
    # 10 of 40: 14 % to 39 % (Clopper and Pearson, 90 %).
    assert found.low[PLOT] / ROWS[PLOT] == pytest.approx([0.142, 0.142], abs=0.01)
    assert found.high[PLOT] / ROWS[PLOT] == pytest.approx([0.388, 0.388], abs=0.01)
    for part in found.ns:
        assert np.all(found.low[part] <= found.ns[part])
        assert np.all(found.ns[part] <= found.high[part])


def test_where_it_was_not_asked_it_idled_as_in_all_other_parts():
    found = charge_probed(ROWS | {NOT_ATTRIBUTED: np.array([10.0, 10.0])}, stacks(1, 0, 1, 0), [PLOT] * 4, UPDATES)

    assert found.ns[NOT_ATTRIBUTED] == pytest.approx([5.0, 5.0])
    assert found.low is not None
    assert found.high is not None
    assert (found.low[NOT_ATTRIBUTED] == 0).all()
    assert found.high[NOT_ATTRIBUTED] == pytest.approx([10.0, 10.0])


def test_stacks_at_which_nobody_knew_count_for_nothing():
    found = charge_probed(ROWS, stacks(1, -1, -1, 1), [PLOT] * 4, UPDATES)

    assert found.ns[PLOT] == pytest.approx(ROWS[PLOT])
    assert not was_asked(stacks(-1, -1))


def test_what_the_host_compiles_is_the_hosts():
    found = charge_probed(ROWS | {COMPILING: np.array([15.0, 0.0])}, stacks(0, 0, 0), [PLOT] * 3, UPDATES)

    assert found.ns[COMPILING] == pytest.approx([15.0, 0.0])


@pytest.mark.parametrize(("idle", "ns"), [((0, 0, 0), 0.0), ((1, 1, 1), 15.0), ((1, 0, 1), 10.0)])
def test_what_the_host_compiles_while_the_device_works_is_the_devices(idle, ns):
    found = charge_probed(ROWS | {COMPILING: np.array([15.0, 0.0])}, stacks(*idle), [COMPILING] * 3, UPDATES)

    assert found.low is not None
    assert found.high is not None
    assert found.ns[COMPILING] == pytest.approx([ns, 0.0])
    assert found.low[COMPILING][0] <= ns <= found.high[COMPILING][0]
