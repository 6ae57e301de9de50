"""Of a backward pass it is known which embedding tables it goes through, how many of their rows it takes, and what their gradients take."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._autograd import node_timer  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.embedding_tables import TableLooks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_size import nodes_until  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.steps.held_parameters import ParameterHolders  # noqa: E402

IDS = torch.arange(12).view(3, 4)


class Watched:
    """What a recorder is told of passes, with the optimizer number 5 that holds some parameters."""

    def __init__(self, *held: Any) -> None:
        self.notes: list[dict[str, Any]] = []
        holders = ParameterHolders()
        holders.has(list(held), 5)
        self.looks = TableLooks(cast(Recorder, SimpleNamespace(note=self.notes.append, shared=lambda kind: holders)))

    def passes(self, loss: Any) -> list[dict[str, Any]]:
        """A pass that is looked at; the tables that are noted, the largest first."""
        self.looks.look(nodes_until(loss, 1000)[0])
        loss.backward()
        self.looks.ended()
        return sorted(self.notes[-1]["tables"], key=lambda table: -table["rows"])


def test_of_a_table_its_rows_and_those_that_are_taken_are_known_with_who_holds_it_and_what_its_gradient_takes() -> None:
    table, other = torch.nn.Embedding(200, 8), torch.nn.Embedding(50, 4)
    watched = Watched(table.weight)

    found, unheld = watched.passes(table(IDS).sum() + table(IDS[0]).sum() + other(IDS).sum())

    assert found.pop("backward_ns") > 0
    kinds = {"is_sparse": False, "is_dense_anyway": False, "item_bytes": 4}
    assert found == {"rows": 200, "width": 8, "ids": 12 + 4, "lookups": 2, "seen": 1, "optimizer": 5, **kinds}
    assert (unheld["rows"], unheld["optimizer"]) == (50, None)


def test_of_a_bag_each_id_counts_and_not_each_bag() -> None:
    bag = torch.nn.EmbeddingBag(100, 8, mode="mean")

    (found,) = Watched().passes(bag(IDS.view(-1), torch.tensor([0, 6])).sum())

    assert (found["ids"], found["is_dense_anyway"]) == (12, False)


@pytest.mark.parametrize(
    "use",
    [
        lambda table: (table(IDS) @ table.weight.T).sum(),
        lambda table: table(IDS).sum() + table.weight.pow(2).sum(),
        lambda table: torch.nn.functional.embedding(IDS, table.weight, scale_grad_by_freq=True).sum(),
        lambda table: torch.nn.functional.embedding_bag(IDS, table.weight, mode="max").sum(),
    ],
    ids=["an output layer", "a penalty", "by frequency", "the largest of a bag"],
)
def test_a_table_whose_gradient_is_dense_by_itself_is_told(use) -> None:
    (found,) = Watched().passes(use(torch.nn.Embedding(100, 8)))

    assert found["is_dense_anyway"]


def test_a_sparse_gradient_is_told_and_a_frozen_table_is_none() -> None:
    sparse, frozen = torch.nn.Embedding(100, 8, sparse=True), torch.nn.Embedding(300, 8)
    frozen.requires_grad_(requires_grad=False)

    found = Watched().passes(sparse(IDS).sum() + frozen(IDS).sum())

    assert [(table["rows"], table["is_sparse"]) for table in found] == [(100, True)]


def test_hooks_on_saved_tensors_are_not_called_and_leave_what_a_bag_takes_unknown() -> None:
    bag, unpacked = torch.nn.EmbeddingBag(100, 8), []

    def unpack(tensor: Any) -> Any:
        unpacked.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        loss = bag(IDS).sum()
    watched = Watched()
    watched.looks.look(nodes_until(loss, 1000)[0])

    assert not unpacked
    watched.looks.ended()
    assert [table["ids"] for table in watched.notes[-1]["tables"]] == [None]


def test_gradients_are_those_of_a_pass_that_nobody_looked_at_and_nothing_stays_on_the_graph(monkeypatch) -> None:
    table, asked = torch.nn.Embedding(100, 8), []
    monkeypatch.setattr(node_timer, "cpu_ns", lambda: asked.append(1) or len(asked))
    watched = Watched(table.weight)
    loss = table(IDS).pow(2).sum()
    loss.backward(retain_graph=True)
    plain = table.weight.grad.clone()
    table.weight.grad = None

    watched.looks.look(nodes_until(loss, 1000)[0])
    loss.backward(retain_graph=True)
    watched.looks.ended()
    assert torch.equal(table.weight.grad, plain)
    assert len(asked) == 2
    loss.backward()

    assert len(asked) == 2


def test_notes_are_written_after_twice_as_many_passes() -> None:
    table = torch.nn.Embedding(100, 8)
    watched = Watched()

    for _ in range(9):
        watched.passes(table(IDS).sum())

    assert [note["looks"] for note in watched.notes] == [1, 2, 4, 8]
    assert watched.notes[-1]["tables"][0]["seen"] == 8


def test_a_pass_that_goes_through_no_table_is_told_and_one_that_failed_times_nothing() -> None:
    watched, table = Watched(), torch.nn.Embedding(100, 8)

    assert watched.passes(torch.ones(2, requires_grad=True).sum()) == []
    watched.looks.look(nodes_until(table(IDS).sum(), 1000)[0])
    watched.looks.ended()

    assert watched.notes[-1]["tables"][0]["backward_ns"] is None
