from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.calls import CallTree, dominant_of_fetch, read_calls
from slowstep.timeline.schema import TABLE

FETCH = ("/x/site-packages/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 40)
LISTED = ("/x/site-packages/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch.<locals>.<listcomp>", 50)
COLLATE = ("/x/slowstep/record/fetches.py", "collate_fn", 90)
ITEM = ("/home/u/data.py", "Pictures.__getitem__", 10)
LOAD = ("/home/u/data.py", "load", 20)
AUGMENT = ("/home/u/data.py", "augment", 30)
RESIZE = ("/x/site-packages/PIL/Image.py", "Image.resize", 1)


def _tree(callees):
    total = {FETCH: sum(callees[FETCH].values())} | {callee: ns for edges in callees.values() for callee, ns in edges.items()}
    return CallTree(total_ns=total, callees=callees, stretches=3)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({LOAD: 30.0, AUGMENT: 60.0}, ("augment", ("Pictures.__getitem__", "augment"), 0.6)),
        ({LOAD: 40.0, AUGMENT: 45.0}, ("Pictures.__getitem__", ("Pictures.__getitem__",), 1.0)),
        ({RESIZE: 90.0}, ("Pictures.__getitem__", ("Pictures.__getitem__",), 1.0)),
    ],
    ids=["one function holds half", "none does", "a library's function is not the user's"],
)
def test_the_deepest_own_function_that_holds_half_of_making_samples_is_named(item, expected):
    tree = _tree({FETCH: {LISTED: 100.0, COLLATE: 300.0}, LISTED: {ITEM: 100.0}, ITEM: item})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert (found.name, found.path, found.share) == expected


def test_nothing_is_named_where_no_fetch_was_timed():
    assert dominant_of_fetch(CallTree(total_ns={}, callees={}, stretches=0), 0.5) is None
    assert dominant_of_fetch(CallTree(total_ns={FETCH: 0.0}, callees={}, stretches=1), 0.5) is None


def test_functions_that_call_each_other_end_the_descent():
    tree = _tree({FETCH: {ITEM: 100.0}, ITEM: {LOAD: 90.0}, LOAD: {ITEM: 80.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert found.name == "load"


def test_calls_of_several_processes_are_added_and_others_left_out():
    calls = pl.DataFrame(
        [(p, "fetch", n, *key, ns, 0, 2, None, None, None) for p in (1, 2, 9) for n, (key, ns) in enumerate([(FETCH, 100), (ITEM, 90)])],
        schema=TABLE["calls"].schema, orient="row",
    )  # fmt: skip
    edges = pl.DataFrame([(p, "fetch", 0, 1, 90) for p in (1, 2, 9)], schema=TABLE["call_edges"].schema, orient="row")

    tree = read_calls(calls, edges, "fetch", [1, 2])

    assert (tree.total_ns, tree.callees, tree.stretches) == ({FETCH: 200, ITEM: 180}, {FETCH: {ITEM: 180}}, 4)
