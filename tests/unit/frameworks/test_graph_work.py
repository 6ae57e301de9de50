"""What a backward pass computes that grows with the samples, and what tells a loop over them from other repetitions."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._autograd import graph_looks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_looks import PASSES, GraphLooks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_repeats import Repeats, find_repeats  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_size import MOST_NODES, nodes_below  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_work import GraphWork, graph_work  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402

from torch import nn  # noqa: E402  # isort: skip


def _work(loss: Any) -> GraphWork:
    return graph_work(nodes_below(loss, MOST_NODES) or set())


def _repeats(loss: Any) -> Repeats:
    return find_repeats(nodes_below(loss, MOST_NODES) or set())


def test_products_of_layers_are_of_each_sample_with_each_weight():
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    work = _work(net(torch.ones(5, 8)).sum())

    assert work.products == 5 * (8 * 16 + 16 * 4)
    assert work.unknown == ()
    # Given, and read: the sum, the second product with what it multiplies, the first value twice, and the input.
    assert work.elements == (1 + 20) + (20 + 80 + 80) + (80 + 80) + (80 + 40)
    assert work.dear == work.scattered == 0


@pytest.mark.parametrize(
    ("layer", "shape", "products"),
    [
        (nn.Conv2d(3, 4, 3, padding=1), (2, 3, 8, 8), 2 * 64 * 27 * 4),
        (nn.Conv2d(4, 4, 3, groups=4, padding=1), (2, 4, 8, 8), 2 * 64 * 9 * 4),
        (nn.Linear(6, 10), (2, 7, 6), 2 * 7 * 6 * 10),
    ],
    ids=["convolution", "by channel", "of sequences"],
)
def test_products_are_told_by_shapes(layer, shape, products):
    assert _work(layer(torch.ones(shape)).sum()).products == products


def test_attention_multiplies_queries_with_keys_and_scores_with_values():
    query, key, value = (torch.ones(2, 3, length, 8, requires_grad=True) for length in (5, 7, 7))

    work = _work(nn.functional.scaled_dot_product_attention(query, key, value).sum())

    assert work.unknown == ()
    assert work.products == 2 * (2 * 3 * 5 * 7 * 8)


@pytest.mark.parametrize(("width", "products"), [(7, 0), (8, 3 * 8**3)], ids=["by a plain loop", "as of larger ones"])
def test_products_of_many_small_matrices_are_elements_that_take_longer(width, products):
    first, second = (2 * torch.ones(3, width, width, requires_grad=True) for _ in range(2))

    work = _work(torch.bmm(first, second).sum())

    assert work.products == products
    assert work.dear == (3 * 2048 if products else 3 * width**2 * 4 + 3 * width**3)


@pytest.mark.parametrize("samples", [8, 300], ids=["few", "more than a cache holds"])
def test_what_wants_no_gradient_is_read_for_that_of_what_it_is_multiplied_with(samples):
    weights, features = 2 * torch.ones(samples, 1, 16, requires_grad=True), torch.ones(samples, 16, 64)

    work = _work(torch.bmm(weights, features).sum())

    # Besides the sum and the product of weights with two: what the product gave, and the weights twice.
    read, of_matrices = samples * 16 * 64, samples * 2048
    assert work.elements == (1 + samples * 64) + samples * 16 + samples * 64 + 2 * samples * 16 + read + of_matrices
    assert (work.dear > of_matrices) == (read > 1 << 15)


@pytest.mark.parametrize("window", [2, 5])
def test_an_average_is_given_to_each_place_of_its_window(window):
    given = 2 * torch.ones(2, 3, 8, 8, requires_grad=True)

    averages = nn.functional.avg_pool2d(given, window, stride=1)

    assert _work(averages.sum()).dear == given.numel() + averages.numel() * (1 + window**2)


def test_rows_of_a_table_are_scattered():
    assert _work(nn.Embedding(100, 8)(torch.zeros(2, 3, dtype=torch.int64)).sum()).scattered == 4 * 6


def test_what_takes_longer_is_told_apart():
    given = torch.ones(2, 64, requires_grad=True)

    assert _work((given**1.5).sum()).dear == 2 * 64
    assert _work((given * 1.5).sum()).dear == 0
    assert _work((torch.ones(512, 65, requires_grad=True) * 1.5).sum()).dear > 512 * 65


@pytest.mark.parametrize(("row", "dear"), [(15, 4 * 2 * 15), (16, 0)], ids=["short", "long"])
def test_places_of_short_rows_take_as_long_as_several(row, dear):
    assert _work(torch.ones(2, row, requires_grad=True).softmax(-1).sum()).dear == dear


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, given):
        return 2 * given


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda x: _Double.apply(x), "_DoubleBackward"),
        (lambda x: x.double(), "ToCopy"),
        (lambda x: nn.LSTM(4, 4)(x)[0], "MkldnnRnnLayer"),
        pytest.param(
            lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=True),
            "CheckpointFunctionBackward",
            # It imports torch's compiler.
            marks=pytest.mark.slow,
        ),
    ],
    ids=["the script's", "another type", "fused cells", "checkpoint"],
)
def test_an_operation_whose_work_no_shape_tells_is_named(make, name):
    assert name in _work(make(torch.ones(2, 4, requires_grad=True)).sum()).unknown


def _net() -> Any:
    return nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))


def test_a_batch_as_a_whole_repeats_nothing():
    assert _repeats(_net()(torch.ones(6, 8)).sum()) == Repeats(whole=1, parts=(), weights=())


def test_a_loop_over_samples_uses_weights_as_often():
    net = _net()

    assert _repeats(sum(net(sample).sum() for sample in torch.ones(6, 8))).weights == ((6, 1),)


def test_a_loop_over_some_samples_at_a_time_uses_weights_for_so_many():
    net = _net()

    assert _repeats(sum(net(some).sum() for some in torch.ones(6, 8).split(3))).weights == ((2, 3),)


@pytest.mark.parametrize(
    ("losses", "parts"),
    [
        (lambda given: [given[at].sum() for at in range(6)], ((6,),)),
        (lambda given: [each.sum() for each in given], ((6,),)),
        (lambda given: [each.sum() for each in given.split(2)], ((6,),)),
        (lambda given: [given[:, at].sum() for at in range(8)], ((6, 8),)),
        (lambda given: [given.select(-1, at).sum() for at in range(8)], ((6, 8),)),
        (lambda given: [given[torch.tensor([at])].sum() for at in range(6)], ((0,),)),
        (lambda given: [given[0].sum()], ()),
    ],
    ids=["by index", "one by one", "some at a time", "columns", "from the end", "by a tensor", "one alone"],
)
def test_a_value_that_is_taken_apart_is_told_by_its_shape(losses, parts):
    assert _repeats(sum(losses(_net()(torch.ones(6, 8))))).parts == parts


def test_a_value_that_is_used_whole_again_and_again_is_counted():
    given = _net()(torch.ones(6, 8))

    assert _repeats(sum((given - at).square().sum() for at in range(6))).whole == 6


def test_rows_of_samples_of_several_lengths_are_counted():
    given, ends = _net()(torch.ones(13, 8)), (0, 2, 3, 7, 9, 12, 13)

    assert _repeats(sum(given[first:end].mean() for first, end in itertools.pairwise(ends))).whole == 6


def test_first_rows_of_samples_of_several_lengths_are_counted():
    given = _net()(torch.ones(13, 8))

    assert _repeats(sum(given[first].sum() for first in (0, 2, 3, 7, 9, 12))).whole == 6


def test_all_columns_one_by_one_are_told_by_their_number_alone():
    given = _net()(torch.ones(6, 8))

    assert _repeats(sum(given[:, at].sum() for at in range(8))).whole == 1


def test_places_of_a_recurrence_use_weights_for_the_whole_batch():
    cell, state = nn.GRUCell(4, 4), torch.zeros(6, 4)
    for place in torch.ones(3, 6, 4):
        state = cell(place, state)

    assert {length for _, length in _repeats(state.sum()).weights} == {6}


class Looked:
    """Rounds of looks, between which time passes, and what they note. `elapsed_ns` is between two of them, `cost_ns` that of a look."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, elapsed_ns: int = 10**9, cost_ns: int = 0) -> None:
        self.noted: list[dict[str, Any]] = []
        self.at_ns, self._elapsed_ns, self._passes = 1, elapsed_ns, 0
        self.looks = GraphLooks(cast(Recorder, SimpleNamespace(event=lambda *_: None, note=self.noted.append, spent_ns=0)))
        monkeypatch.setattr(graph_looks, "now", lambda: self.at_ns)
        clock = itertools.count(1, cost_ns)
        monkeypatch.setattr(graph_looks, "cpu_ns", lambda: next(clock))

    def round(self, *losses: Any) -> None:
        """Of passes that take turns, which go on where they were in the round before."""
        self.at_ns += self._elapsed_ns
        self.looks.want()
        for _ in range(PASSES):
            if self.looks.are_wanted:
                self.looks.look(losses[self._passes % len(losses)])
            self._passes += 1


def test_of_looks_at_one_graph_few_are_noted(monkeypatch):
    looked, loss = Looked(monkeypatch), _net()(torch.ones(1, 8)).sum()

    for _ in range(12):
        looked.round(loss)

    assert {note["kind"] for note in looked.noted} == {"work"}
    # Of 96.
    assert 8 <= len(looked.noted) <= 12


@pytest.mark.parametrize("period", range(2, PASSES + 1))
def test_of_passes_that_take_turns_each_is_noted(monkeypatch, period):
    looked = Looked(monkeypatch)

    for _ in range(4):
        looked.round(*(_net()(torch.ones(2**at, 8)).sum() for at in range(period)))

    assert len({note["elements"] for note in looked.noted}) == period


def test_a_pass_that_becomes_larger_is_noted_whenever_that_is(monkeypatch):
    looked, net = Looked(monkeypatch), _net()
    # After so many looks none is noted for its number.
    for _ in range(4096 // PASSES + 1):
        looked.round(net(torch.ones(2, 8)).sum())
    few = len(looked.noted)

    looked.round(net(torch.ones(4, 8)).sum())

    assert len(looked.noted) == few + 1


def test_of_a_graph_that_is_too_large_it_is_noted_that_nothing_is_known(monkeypatch):
    looked = Looked(monkeypatch)
    monkeypatch.setattr(graph_looks, "MOST_MEASURED", 4)

    looked.round(_net()(torch.ones(2, 8)).sum())

    assert [note["unknown"] for note in looked.noted[:1]] == [("large graph",)]


def test_looks_wait_for_the_time_that_a_note_takes(monkeypatch):
    # Of some ten nodes, each of which takes 15 us of a five-hundredth of the time.
    looked, loss = Looked(monkeypatch, elapsed_ns=50_000_000), _net()(torch.ones(2, 8)).sum()

    looked.round(loss)
    looked.round(loss)
    noted, are_wanted = len(looked.noted), looked.looks.are_wanted
    looked.round(loss)

    assert (noted, are_wanted) == (0, False)
    assert len(looked.noted) > 0


def test_looks_that_use_all_of_their_time_leave_some_for_notes(monkeypatch):
    # A look takes all the time that has passed since the last one.
    looked, loss = Looked(monkeypatch, elapsed_ns=500_000_000, cost_ns=1_000_000), _net()(torch.ones(2, 8)).sum()

    for _ in range(8):
        looked.round(loss)

    assert len(looked.noted) > 1
