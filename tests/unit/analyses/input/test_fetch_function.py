"""Which function holds most of making batches, where several loaders make them."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.input.fetch_function import dominant_of_collate, dominant_of_loaders
from slowstep.analyses.python.calls import CallTree

FETCH = ("/x/site-packages/torch/utils/data/_utils/fetch.py", "_MapDatasetFetcher.fetch", 40)
SLOW, FAST = ("/home/u/train.py", "Tokenised.__getitem__", 10), ("/home/u/train.py", "Pictures.__getitem__", 20)
TOKENISE = ("/home/u/train.py", "Tokenised.tokenise", 15)
# Of the batches that were timed most are of the fast loader: they took as long as the few of the slow one.
TIMED = {FETCH: {SLOW: 50.0, FAST: 50.0}, SLOW: {TOKENISE: 45.0}}


def _tree(callees=TIMED):
    total = {FETCH: sum(callees[FETCH].values())} | {callee: ns for edges in callees.values() for callee, ns in edges.items()}
    return CallTree(total_ns=total, callees=callees, stretches=20)


def _loader(dataset: str | None, ns: float) -> MadeByLoader:
    return MadeByLoader(batches=100, ns=np.array([ns / 2, ns / 2]), each_ns=ns / 100, dataset=dataset)


COLLATE = ("/opt/slowstep/record/fetches.py", "Fetches._timed_collate.<locals>.collate_fn", 190)
MASKING, MASK = ("/home/u/train.py", "Masking.__call__", 40), ("/home/u/train.py", "Masking.mask_tokens", 30)
TENSOR = ("<built-in>", "built-in method torch.tensor", 0)


def _with_collate(mask_ns: float) -> CallTree:
    return _tree({FETCH: {SLOW: 50.0, COLLATE: 100.0}, COLLATE: {MASKING: 100.0}, MASKING: {MASK: mask_ns, TENSOR: 95.0 - mask_ns}})


def _collated_by(collate: str | None, file: str | None = "/home/u/train.py") -> Loader:
    return Loader(
        num_workers=0,
        prefetch_factor=None,
        batch_size=32,
        dataset="Tokens",
        collate=collate,
        collate_file=file,
        collate_where="train.py:40",
        collate_is_default=False,
        read_together=1,
        waited_share=1.0,
        iterators=(0,),
        other_loaders=(),
        is_named=True,
    )


def test_of_a_collate_function_the_function_that_holds_most_of_it_is_known():
    found = dominant_of_collate(_with_collate(80.0), _collated_by("__main__.Masking.__call__"))

    assert found is not None
    assert (found.name, found.line, found.share) == ("Masking.mask_tokens", 30, pytest.approx(0.8))


@pytest.mark.parametrize(
    ("mask_ns", "loader"),
    [
        (80.0, None),
        (80.0, _collated_by(None, None)),
        (80.0, _collated_by("__main__.Padding.__call__")),
        (80.0, _collated_by("other.Masking.__call__", "/home/u/other.py")),
        (40.0, _collated_by("__main__.Masking.__call__")),
    ],
    ids=["no loader", "an unknown one", "another loader's was timed", "another file's", "most of it is its own"],
)
def test_a_collate_function_without_one_that_holds_most_of_it_has_none(mask_ns, loader):
    assert dominant_of_collate(_with_collate(mask_ns), loader) is None


def test_a_function_of_the_slow_loader_holds_its_share_of_what_all_batches_take():
    found = dominant_of_loaders(_tree(), [_loader("Pictures", 10.0), _loader("Tokenised", 190.0)])

    assert found is not None
    assert (found.name, found.path) == ("Tokenised.tokenise", ("Tokenised.__getitem__", "Tokenised.tokenise"))
    assert found.share == pytest.approx(0.9 * 0.95)


def test_of_loaders_that_take_as_long_none_has_a_function_that_holds_most():
    loaders = [_loader("Pictures", 90.0), _loader("Tokenised", 100.0), _loader("Masks", 90.0)]

    assert dominant_of_loaders(_tree(), loaders) is None


@pytest.mark.parametrize(
    "loaders",
    [
        [],
        [_loader("Tokenised", 190.0)],
        [_loader("Tokenised", 10.0), _loader("Tokenised", 190.0)],
        [_loader("Pictures", 10.0), _loader(None, 190.0)],
        [_loader("Pictures", 10.0), _loader("Waveforms", 190.0)],
    ],
    ids=["no loader", "one loader", "data sets of one name", "a data set without a name", "one that was not timed"],
)
def test_by_timed_batches_alone_where_the_slow_loader_is_not_told_from_the_others(loaders):
    found = dominant_of_loaders(_tree({FETCH: {SLOW: 60.0, FAST: 40.0}, SLOW: {TOKENISE: 55.0}}), loaders)

    assert found is not None
    assert (found.name, found.share) == ("Tokenised.tokenise", 0.55)
