"""Which function holds most of making batches, where several loaders make them."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.calls import CallTree
from slowstep.analyses.fetch_function import dominant_of_loaders
from slowstep.analyses.made_by_loader import MadeByLoader

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
