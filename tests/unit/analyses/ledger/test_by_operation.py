"""Operations that are done one by one count where the device idles meanwhile, for the user's line that they are beneath."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from slowstep.analyses.ledger.by_operation import find_by_operation
from slowstep.analyses.python.functions import Path, Stacks
from slowstep.parts import UPDATES, Part, PartKind
from slowstep.timeline.timeline import Frame

PACKAGES = "/env/lib/python3.11/site-packages"
LOOP = Frame(file="/home/train.py", function="<module>", first_line=1, line=40)
UPDATE = replace(LOOP, function="update", first_line=8, line=9)
UNNAMED = replace(UPDATE, function="update.<locals>.<lambda>")
JNP = Frame(file=f"{PACKAGES}/jax/_src/numpy/ufunc_api.py", function="ufunc.__call__", first_line=170, line=182)
TREE = Frame(file=f"{PACKAGES}/jax/_src/tree_util.py", function="tree_map", first_line=387, line=399)
OPTAX = Frame(file=f"{PACKAGES}/optax/_src/combine.py", function="chain.<locals>.update_fn", first_line=80, line=90)
ASARRAY = Frame(file=f"{PACKAGES}/jax/_src/numpy/lax_numpy.py", function="asarray", first_line=1, line=2)
FLAX = Frame(file=f"{PACKAGES}/flax/nnx/transforms/compilation.py", function="JitWrapped.__call__", first_line=1, line=2)
LINES, PLOT = Part("compute", PartKind.LINES), Part("output", PartKind.LINES)
COMPILING = Part("compute", PartKind.COMPILATION, "step")


def stacks(*rows: tuple[Path, int]) -> Stacks:
    numbers = np.arange(len(rows))
    return Stacks(
        time_ns=numbers,
        weight_ns=np.ones(len(rows)),
        stack=numbers,
        frames=dict(enumerate(path for path, _ in rows)),
        blocked=np.zeros(len(rows), np.bool_),
        device_idle=np.array([idle for _, idle in rows], np.int8),
    )


def test_stacks_of_an_idle_device_in_single_operations_count_for_the_line_above_them():
    rows = [((LOOP, UPDATE, OPTAX), 1)] * 30 + [((LOOP, UPDATE, JNP), 0)] * 10 + [((LOOP,), 1)] * 5 + [((LOOP, UPDATE, JNP), -1)] * 5

    found = find_by_operation(stacks(*rows), [LINES] * 30 + [UPDATES] * 20)

    assert found is not None
    assert (found.idled, found.worked, found.of, found.frame, found.most) == (30, 10, 45, UPDATE, 30)
    assert found.share == pytest.approx(30 / 45)
    # Clopper and Pearson, 90 %.
    assert (found.low, found.high) == pytest.approx((0.535, 0.782), abs=0.01)
    # Of 40 of them.
    assert found.high_of_all == pytest.approx(0.955, abs=0.01)


def test_what_a_tree_is_mapped_with_has_the_name_of_the_function_that_hands_it_over():
    found = find_by_operation(stacks(((LOOP, UPDATE, TREE, UNNAMED, JNP), 1)), [LINES])

    assert found is not None
    assert found.frame == UPDATE


@pytest.mark.parametrize(
    ("path", "idle", "part"),
    [
        ((LOOP, UPDATE, JNP), 0, LINES),
        ((LOOP, UPDATE, JNP), 1, PLOT),
        ((LOOP, UPDATE, JNP), 1, COMPILING),
        ((LOOP, UPDATE, JNP), 1, None),
        ((LOOP, ASARRAY, JNP), 1, LINES),
        ((LOOP, FLAX), 1, LINES),
        ((LOOP, UPDATE), 1, LINES),
        ((), 1, LINES),
    ],
    ids=["the device works", "a callback's", "compiling", "a wait", "a batch is brought", "a jitted call", "Python", "unknown"],
)
def test_all_else_is_nobodys_single_operation(path, idle, part):
    assert find_by_operation(stacks((path, idle)), [part]) is None
