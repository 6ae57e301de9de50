"""Graphs of backward passes are looked at now and then: how large they are, and what of them earlier steps have made."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from slowstep.frameworks.torch.inside._autograd import graph_looks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_looks import PASSES, GraphLooks  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.writing.format import GRAPH  # noqa: E402

Look = dict[str, int]


class Watched:
    """What a recorder is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cost_ns: int = 0) -> None:
        self.told: list[Look] = []
        self.at_ns, self._cost_ns = 1, cost_ns
        self.recorder = SimpleNamespace(event=self._event, note=lambda _: None, spent_ns=0)
        self.looks = GraphLooks(cast(Recorder, self.recorder))
        monkeypatch.setattr(graph_looks, "now", self._now)
        monkeypatch.setattr(graph_looks, "cpu_ns", self._now)

    def _now(self) -> int:
        self.at_ns += self._cost_ns
        return self.at_ns

    def _event(self, kind: int, t0: int, t1: int, *values: int) -> None:
        assert kind == GRAPH
        self.told.append(dict(zip(("nodes", "parameters", "values", "kept", "knows_kept"), values, strict=True)))

    def round(self, losses: Any) -> list[Look]:
        """What the looks of a round tell; `losses` makes the loss of a pass."""
        self.at_ns += 10**9
        seen = len(self.told)
        self.looks.want()
        for _ in range(PASSES):
            if self.looks.are_wanted:
                self.looks.look(losses())
        return self.told[seen:]


def model(layers: int) -> Any:
    return torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(layers)])


def test_a_round_tells_of_parameters_that_learn_and_not_of_inputs(monkeypatch):
    watched, net = Watched(monkeypatch), model(4)
    net[:3].requires_grad_(False)

    few = watched.round(lambda: net(torch.ones(2, 8)).sum())
    net.requires_grad_(True)
    many = watched.round(lambda: net(torch.ones(2, 8, requires_grad=True)).sum())

    assert len(few) == PASSES
    assert {look["parameters"] for look in few} == {72}
    assert {look["parameters"] for look in many} == {4 * 72}
    assert {look["kept"] for look in many} == {0}


def test_what_the_operations_give_grows_with_the_input_and_not_with_the_weights(monkeypatch):
    watched, net = Watched(monkeypatch), model(2)

    values = [watched.round(lambda size=size: net(torch.ones(size, 8)).sum())[0]["values"] for size in (2, 200)]

    # The sum's own value is the only one that stays.
    assert values[1] - 1 == 100 * (values[0] - 1)


def test_what_earlier_rounds_have_made_is_told_from_what_a_step_makes(monkeypatch):
    watched, net = Watched(monkeypatch), model(1)
    kept: list[Any] = []

    def loss() -> Any:
        kept.append(net(torch.ones(2, 8)).sum())
        return torch.stack(kept).sum()

    rounds = [watched.round(loss) for _ in range(4)]

    assert {look["knows_kept"] for look in rounds[0]} == {0}
    assert [looks[-1]["kept"] > 2 * PASSES * number for number, looks in enumerate(rounds[2:], start=1)] == [True, True]


def test_of_a_graph_that_is_too_large_only_its_size_is_told(monkeypatch):
    watched, net = Watched(monkeypatch), model(3)
    monkeypatch.setattr(graph_looks, "MOST_NODES", 4)

    (look, *_) = watched.round(lambda: net(torch.ones(2, 8)).sum())

    assert (look["nodes"] > 4, look["parameters"], look["values"]) == (True, -1, -1)


def test_looks_that_take_long_are_rare(monkeypatch):
    watched, net = Watched(monkeypatch, cost_ns=6_000_000), model(1)

    seen = [len(watched.round(lambda: net(torch.ones(2, 8)).sum())) for _ in range(10)]

    # Each takes a five-hundredth of some seconds, which is what recording costs.
    assert 1 <= sum(seen) <= 4
    assert watched.recorder.spent_ns >= sum(seen) * 6_000_000


def test_a_loss_without_a_graph_is_passed_over(monkeypatch):
    watched = Watched(monkeypatch)

    assert watched.round(lambda: torch.ones(1)) == []
