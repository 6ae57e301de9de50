from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.python.calls import CallTree, dominant_of_fetch, read_calls
from slowstep.timeline.schema import TABLE

FETCH = ("/x/site-packages/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 40)
LISTED = ("/x/site-packages/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch.<locals>.<listcomp>", 50)
COLLATE = ("/x/slowstep/frameworks/torch/inside/_fetches.py", "collate_fn", 90)
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


ADAPTER = ("/x/site-packages/keras/src/trainers/data_adapters/py_dataset_adapter.py", "PyDatasetAdapter.generator", 300)


@pytest.mark.parametrize(("own", "named"), [(80.0, "load"), (20.0, None)])
def test_of_requests_that_no_loader_makes_batches_for_it_is_named_from_what_they_call(own, named):
    callees = {ADAPTER: {ITEM: own}, ITEM: {LOAD: own}}
    tree = CallTree(total_ns={ADAPTER: 90.0, RESIZE: 10.0, ITEM: own, LOAD: own}, callees=callees, stretches=3)

    found = dominant_of_fetch(tree, 0.5)

    assert (None if found is None else (found.name, found.share)) == (None if named is None else (named, own / 100))


MNIST = ("/x/site-packages/torchvision/datasets/mnist.py", "MNIST.__getitem__", 130)
COMPOSE = ("/x/site-packages/torchvision/transforms/transforms.py", "Compose.__call__", 90)
TO_TENSOR = ("/x/site-packages/torchvision/transforms/transforms.py", "ToTensor.__call__", 120)
NORMALIZE = ("/x/site-packages/torchvision/transforms/transforms.py", "Normalize.forward", 270)
SUBSET = ("/x/site-packages/torch/utils/data/dataset.py", "Subset.__getitem__", 400)


def test_of_a_library_s_data_set_its_own_deepest_function_is_named_with_what_it_calls():
    item = {COMPOSE: 70.0, RESIZE: 20.0}
    tree = _tree({FETCH: {LISTED: 100.0}, LISTED: {SUBSET: 100.0}, SUBSET: {MNIST: 95.0}, MNIST: item})
    inside = {COMPOSE: {TO_TENSOR: 45.0, NORMALIZE: 20.0, RESIZE: 5.0}}

    found = dominant_of_fetch(CallTree(total_ns=tree.total_ns, callees=tree.callees | inside, stretches=3), 0.5)

    assert found is not None
    assert (found.name, found.path, found.share) == ("Compose.__call__", ("MNIST.__getitem__", "Compose.__call__"), 0.7)
    assert found.parts == (("ToTensor.__call__", 0.45), ("Normalize.forward", 0.2))
    assert found.of_library


FORMATTING = "/x/site-packages/datasets/formatting/torch_formatter.py"
ROWS = ("/x/site-packages/datasets/arrow_dataset.py", "Dataset.__getitem__", 2800)
FORMAT = (FORMATTING, "TorchFormatter.format_batch", 110)
MAP = ("/x/site-packages/datasets/utils/py_utils.py", "map_nested", 400)
TENSORIZE = (FORMATTING, "TorchFormatter._tensorize", 49)


def test_of_a_library_s_class_all_of_its_work_is_named_and_no_step_of_it():
    tree = _tree({FETCH: {ROWS: 100.0}, ROWS: {FORMAT: 90.0}, FORMAT: {MAP: 80.0}, MAP: {TENSORIZE: 60.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert (found.name, found.path, found.share) == (
        "TorchFormatter.format_batch",
        ("Dataset.__getitem__", "TorchFormatter.format_batch"),
        0.9,
    )


def test_beyond_the_package_of_a_library_s_data_set_nothing_is_named():
    tree = _tree({FETCH: {LISTED: 100.0}, LISTED: {MNIST: 95.0}, MNIST: {RESIZE: 90.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert (found.name, found.parts) == ("MNIST.__getitem__", ())


def test_a_function_of_the_user_s_is_named_and_no_library_s_around_it():
    tree = _tree({FETCH: {MNIST: 100.0}, MNIST: {COMPOSE: 90.0}, COMPOSE: {AUGMENT: 80.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert (found.name, found.of_library) == ("augment", False)


def test_nothing_is_named_where_no_fetch_was_timed():
    assert dominant_of_fetch(CallTree(total_ns={}, callees={}, stretches=0), 0.5) is None
    assert dominant_of_fetch(CallTree(total_ns={FETCH: 0.0}, callees={}, stretches=1), 0.5) is None


def test_functions_that_call_each_other_end_the_descent():
    tree = _tree({FETCH: {ITEM: 100.0}, ITEM: {LOAD: 90.0}, LOAD: {ITEM: 80.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert found.name == "load"


def test_generators_that_read_from_each_other_are_left_by_what_one_of_them_calls():
    stage, tuples = (("/x/site-packages/webdataset/filters.py", name, line) for name, line in (("_map", 10), ("_to_tuple", 20)))
    decode = ("/x/site-packages/webdataset/autodecode.py", "Decoder.__call__", 30)
    tree = _tree({FETCH: {stage: 100.0}, stage: {tuples: 75.0, decode: 70.0, AUGMENT: 20.0}, tuples: {stage: 74.0}, decode: {RESIZE: 60.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert (found.name, found.share, found.into) == ("Decoder.__call__", 0.7, (("Image.resize (PIL)", 0.6),))


@pytest.mark.parametrize(
    ("called", "into"),
    [
        (RESIZE, (("Image.resize (PIL)", 0.9),)),
        (("/usr/lib/python3.11/gzip.py", "open", 20), (("open (gzip)", 0.9),)),
        (("<frozen os>", "walk", 300), (("walk (os)", 0.9),)),
        (("/x/slowstep/record/timing/batches.py", "bytes_in", 20), ()),
        (("/x/site-packages/PIL/Image.py", "Image.resize.<locals>.<listcomp>", 20), ()),
    ],
    ids=["a package", "a module of Python's", "a frozen one", "slowstep's own", "a part of a function"],
)
def test_what_a_function_calls_of_libraries_is_named_with_the_library(called, into):
    tree = _tree({FETCH: {ITEM: 100.0}, ITEM: {called: 90.0}})

    found = dominant_of_fetch(tree, 0.5)

    assert found is not None
    assert found.into == into


def test_calls_of_several_processes_are_added_and_others_left_out():
    calls = pl.DataFrame(
        [(p, "fetch", n, *key, ns, 0, 2, None, None, None) for p in (1, 2, 9) for n, (key, ns) in enumerate([(FETCH, 100), (ITEM, 90)])],
        schema=TABLE["calls"].schema, orient="row",
    )  # fmt: skip
    edges = pl.DataFrame([(p, "fetch", 0, 1, 90) for p in (1, 2, 9)], schema=TABLE["call_edges"].schema, orient="row")

    tree = read_calls(calls, edges, "fetch", [1, 2])

    assert (tree.total_ns, tree.callees, tree.stretches) == ({FETCH: 200, ITEM: 180}, {FETCH: {ITEM: 180}}, 4)
