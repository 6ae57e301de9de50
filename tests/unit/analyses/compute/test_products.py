"""What the usual backward pass multiplies, by what looks at graphs have noted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_recordings import SCRIPT, Training, make_recording
from slowstep.analyses.compute.products import Multiplying, PassProducts, WhyUnknown
from slowstep.analyses.measure_recording import measure_recording
from slowstep.sources.recording import SOURCE

# Kind, shape, how many; products and elements moved, forward and backward; the longest backward, and all.
WIDE = ["convolution", [8, 4], 1, 100, 200, 30, 60, 5_000_000, 5_000_000]
HEADS = ["matrices", [8, 2], 2, 10, 20, 3, 6, 1_000_000, 1_500_000]
UNTIMED = ["attention", [], 1, -1, -1, -1, -1, -1, -1]
HOOK = (SCRIPT, "History.log_stats", 60, 62)


def _products(folder: Path, *rows: list[Any], **changes: Any) -> PassProducts | WhyUnknown:
    usual = {"workers": 2, "fixed_ms": 10, "batch_size": 8, "engine_calls": (), "work": {}, "products": rows}
    return measure_recording(SOURCE.read(make_recording(folder, Training(**{**usual, **changes})))).compute.products


def test_operations_are_told_with_what_each_multiplies_and_how_long_it_takes(tmp_path):
    found = _products(tmp_path, WIDE, HEADS)

    assert isinstance(found, PassProducts)
    wide, heads = found.operations
    assert wide == Multiplying(
        kind="convolution", shape=(8, 4), count=1, products=100, backward=200, moved=30, moved_back=60, longest_ns=5e6
    )
    assert (heads.count, heads.longest_ns) == (2, 1e6)
    assert found.all_products == 300 + 2 * 30


def test_of_all_nothing_is_known_where_one_is_not(tmp_path):
    found = _products(tmp_path / "shapes", WIDE, UNTIMED)
    unknown = _products(tmp_path / "names", WIDE, work={"unknown": ["Mine"]})

    assert isinstance(found, PassProducts)
    assert isinstance(unknown, PassProducts)
    assert (found.operations[0].products, found.operations[0].longest_ns) == (None, None)
    assert (found.all_products, unknown.all_products) == (None, None)
    assert unknown.unknown == ("Mine",)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"products": ()}, WhyUnknown.NOT_LOOKED),
        ({"noted_looks": (0, 1)}, WhyUnknown.NOT_LOOKED),
        ({"engine_calls": (HOOK,)}, WhyUnknown.CALLS_PYTHON),
        ({"engine_calls": None}, WhyUnknown.CALLS_PYTHON),
        ({"more_nodes": 30}, WhyUnknown.PASSES_DIFFER),
    ],
    ids=["older", "before the training", "a hook", "not known what the engine calls", "more operations later"],
)
def test_where_a_pass_may_do_more_or_not_the_same_it_is_said_why_nothing_is_known(tmp_path, changes, why):
    assert _products(tmp_path, WIDE, **changes) is why


@pytest.mark.parametrize(("every", "is_told"), [(40, True), (12, False)], ids=["a few", "many"])
def test_passes_of_another_size_may_be_few(tmp_path, every, is_told):
    found = _products(tmp_path, WIDE, stall=(every, 0.0), stall_values=500)

    assert (found is not WhyUnknown.PASSES_DIFFER) is is_told
