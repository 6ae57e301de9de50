"""What the operation that holds most of a step computes in its time, beside the rest of the model; and when that is not said."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from judged import finding, values
from made_measurements import measurements
from slowstep.analyses.compute.forward_line import ForwardCall, ForwardLine
from slowstep.analyses.compute.products import Multiplying, PassProducts, WhyUnknown
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.compute import arithmetic
from slowstep.findings import Evidence

# 6 of 19.5 ms are forward, 12 are backward: 15.3 ms are the call's, at least 6 of them backward.
CALL = ForwardCall(name="self.wide", operation="Conv2d", share=0.85, window_share=0.26, low=0.22, high=0.3, is_one=True)
WIDE = Multiplying(
    kind="convolution", shape=(8, 4, 9, 9), count=1, products=10**7, backward=2 * 10**7, moved=10**5, moved_back=2 * 10**5, longest_ns=9e6
)
NARROW = replace(WIDE, shape=(8, 2, 9, 9), longest_ns=1e6, products=3 * 10**7, backward=6 * 10**7)
HEAD = replace(WIDE, kind="matrices", shape=(8, 10), longest_ns=5e6, products=10**7, backward=2 * 10**7)


def _measured(*operations: Multiplying, unknown: tuple[str, ...] = (), call: ForwardCall = CALL, **changes: Any) -> Measurements:
    line = ForwardLine(
        function="Net.forward", where="a.py:3", operation="Conv2d", share=0.85, forward_share=0.31, stacks=60, lines=3, call=call
    )
    return measurements(work={"forward_line": line}, products=PassProducts(operations=operations, unknown=unknown), **changes)


def _row(m: Measurements, name: str) -> Evidence:
    return next(row for row in finding("dominant-module", m).evidence if row.name == name)


def test_an_operation_is_said_with_what_it_computes_in_its_time_beside_what_the_rest_does():
    m = _measured(WIDE, NARROW, HEAD)

    found, told = finding("dominant-module", m), values(finding("dominant-module", m))
    rest = 18 / 19.5 - found.share
    assert told["it computes"] == pytest.approx(2 * 0.03 / (found.share * 0.0195))
    assert told["the rest of the model computes"] == pytest.approx(2 * 0.12 / (rest * 0.0195))
    assert told["its share of the arithmetic"] == pytest.approx(3 / 15)
    assert (told["its arithmetic forward"], told["its arithmetic backward"]) == (pytest.approx(0.02), pytest.approx(0.04))
    assert told["it moves at least"] == pytest.approx(1.2)
    assert found.title.endswith("78 % of the time for 20 % of the arithmetic: 3.93 GFLOP/s, the rest 87.9 GFLOP/s")


def test_several_passes_of_a_step_compute_as_often(monkeypatch):
    once, twice = _measured(WIDE, HEAD), _measured(WIDE, HEAD)
    told = values(finding("dominant-module", once))
    monkeypatch.setattr(type(twice.trainer), "backwards_per_step", 2.0)

    assert values(finding("dominant-module", twice))["its arithmetic backward"] == pytest.approx(2 * told["its arithmetic backward"])


@pytest.mark.parametrize(
    ("name", "operation", "kind"),
    [
        ("F.conv2d", None, "convolution"),
        ("torch.nn.functional.conv_transpose1d", None, "convolution"),
        ("self.head", "Linear", "matrices"),
        ("@", None, "matrices"),
        ("torch.matmul", None, "matrices"),
        ("F.scaled_dot_product_attention", None, "attention"),
    ],
)
def test_a_function_is_one_operation_as_a_layer_is(name, operation, kind):
    m = _measured(replace(WIDE, kind=kind), call=replace(CALL, name=name, operation=operation))

    assert values(finding("dominant-module", m))["its arithmetic forward"] == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        ((), arithmetic.NO_NODE),
        ((NARROW, HEAD), arithmetic.NO_NODE),
        ((WIDE, replace(NARROW, longest_ns=6e6)), arithmetic.SEVERAL),
        ((WIDE, replace(NARROW, longest_ns=None)), arithmetic.SEVERAL),
        ((replace(WIDE, products=None, backward=None), NARROW), arithmetic.NO_SHAPES),
    ],
    ids=["none", "others", "as long", "not timed", "no shapes"],
)
def test_of_an_operation_that_is_not_surely_one_of_the_graphs_nothing_is_said_but_why(operations, why):
    m = _measured(*operations)

    row = _row(m, "its arithmetic")
    assert (row.value, row.where) == (None, why)
    assert finding("dominant-module", m).title.endswith("of the time")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"operation": "MultiheadAttention"}, arithmetic.OTHER_KIND),
        ({"operation": None, "name": None}, arithmetic.OTHER_KIND),
        ({"operation": None, "name": "torch.cdist"}, arithmetic.OTHER_KIND),
    ],
    ids=["several at once", "no name", "another function"],
)
def test_of_a_call_that_is_of_no_kind_nothing_is_said_but_why(change, why):
    assert _row(_measured(WIDE, call=replace(CALL, **change)), "its arithmetic").where == why


@pytest.mark.parametrize(("longest_ns", "is_told"), [(3.1e6, True), (2.9e6, False), (None, False)])
def test_with_few_stacks_it_is_what_takes_longer_than_all_others_could(longest_ns, is_told):
    # 3.2 times the 0.93 ms of others' forward, as far as is expected.
    m = _measured(replace(WIDE, longest_ns=longest_ns), NARROW, call=replace(CALL, low=0.11))

    assert ("it computes" in values(finding("dominant-module", m))) is is_told


def test_with_few_stacks_it_may_have_no_gradient():
    m = _measured(replace(WIDE, longest_ns=2.9e6), call=replace(CALL, low=0.11))

    assert _row(m, "its arithmetic").where == arithmetic.NO_BACKWARD


@pytest.mark.parametrize("why", list(WhyUnknown))
def test_where_nothing_is_known_of_passes_it_is_said_why(why):
    m = measurements(work=_measured().compute.work, products=why)

    assert _row(m, "its arithmetic").where == arithmetic.WHY_UNKNOWN[why]


@pytest.mark.parametrize(
    ("operations", "unknown", "why"),
    [
        ((WIDE, HEAD), ("MineBackward",), arithmetic.REST_UNKNOWN.format(names="MineBackward")),
        ((WIDE, replace(HEAD, products=None)), (), arithmetic.SHAPES_UNKNOWN),
        ((WIDE,), (), arithmetic.NO_OTHER),
    ],
    ids=["a function of the script's", "no shapes", "alone"],
)
def test_the_rest_is_not_said_where_not_all_of_it_is_known(operations, unknown, why):
    m = _measured(*operations, unknown=unknown)

    row = _row(m, "the rest of the model computes")
    assert (row.value, row.where) == (None, why)
    assert "the rest" not in finding("dominant-module", m).title
    assert values(finding("dominant-module", m))["it computes"] == pytest.approx(3.93, abs=0.01)


@pytest.mark.parametrize("is_one", [False, None])
def test_of_a_line_that_may_call_several_operations_it_is_said_that_nothing_is_known(is_one):
    m = _measured(WIDE, call=replace(CALL, is_one=is_one))

    assert finding("dominant-module", m).advisory
    assert _row(m, "its arithmetic").where == arithmetic.MAY_BE_SEVERAL


def _convolving(*, channels: int, given: int, side: int, kernel: tuple[int, ...], steps: int = 1, groups: int = 1) -> Multiplying:
    """As it is noted of one that keeps the side of what it takes, or divides it by the steps that it makes."""
    directions = len(kernel)
    places = (side // steps) ** directions
    own, weights = 8 * given * places, given * channels // groups * math.prod(kernel)
    products = own * channels // groups * math.prod(kernel)
    moved = own + 8 * channels * side**directions + weights
    shape = (8, given, *(side // steps,) * directions)
    return replace(WIDE, shape=shape, products=products, backward=2 * products, moved=moved, moved_back=2 * moved, kernel=kernel)


@pytest.mark.parametrize(("kernel", "low", "high"), [(11, 2.0, 4.4), (5, 1.2, 2.6)])
def test_a_large_kernel_gains_what_a_small_one_takes_less(kernel, low, high):
    found = finding("dominant-module", _measured(_convolving(channels=24, given=24, side=56, kernel=(kernel, kernel)), HEAD))

    assert values(found)["its kernel"] == pytest.approx(kernel**2)
    assert found.gain.predicted is not None
    assert low < found.gain.predicted < high
    assert found.gain.low < found.gain.predicted < found.gain.high
    assert found.fixes[0].changes_numerics


@pytest.mark.parametrize(
    "operation",
    [
        _convolving(channels=24, given=24, side=56, kernel=(3, 3)),
        _convolving(channels=8, given=64, side=64, kernel=(8, 8), steps=8),
        _convolving(channels=64, given=64, side=56, kernel=(11, 11), groups=64),
        _convolving(channels=8, given=8, side=1024, kernel=(25,)),
        _convolving(channels=8, given=8, side=64, kernel=(1, 64)),
        _convolving(channels=8, given=8, side=16, kernel=(3, 7, 7)),
        replace(_convolving(channels=24, given=24, side=56, kernel=(11, 11)), kernel=()),
    ],
    ids=["small", "patches", "of each channel", "of one direction", "of one of two directions", "of two of three", "not known"],
)
def test_of_another_convolution_it_is_not_known_what_it_could_take(operation):
    assert finding("dominant-module", _measured(operation, HEAD)).gain.predicted is None
