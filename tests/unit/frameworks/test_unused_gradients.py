"""Gradients that are made of parameters which no optimizer holds: whether somebody takes them, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest

torch = pytest.importorskip("torch")

from recorded import make_folder  # noqa: E402
from slowstep.frameworks.torch.inside._autograd import graph_looks, unused_looks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.backwards import Backwards  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_looks import GraphLooks  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_size import nodes_until  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.graph_unused import find_unused  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.known_optimizers import KnownOptimizers  # noqa: E402
from slowstep.frameworks.torch.inside._autograd.unused_looks import UnusedLooks  # noqa: E402
from slowstep.frameworks.torch.inside.optimizer import install  # noqa: E402
from slowstep.record.recorder import Recorder  # noqa: E402
from slowstep.record.steps.held_parameters import ParameterHolders  # noqa: E402

from torch import nn  # noqa: E402  # isort: skip

MUCH_NS = 10**12
X = torch.ones(3, 4)


def net(*widths: int) -> Any:
    return nn.Sequential(*(nn.Linear(into, out) for into, out in pairwise(widths)))


class Watched:
    """What a recorder is told of passes, with optimizers that were built."""

    def __init__(self, *optimizers: Any) -> None:
        self.notes: list[dict[str, Any]] = []
        self.known, self.optimizers = KnownOptimizers(), optimizers
        for optimizer in optimizers:
            self.known.given(optimizer)
        shared = {KnownOptimizers: self.known, ParameterHolders: ParameterHolders()}
        self.looks = UnusedLooks(cast(Recorder, SimpleNamespace(note=self.notes.append, shared=shared.__getitem__, once_ns=0)))
        self._rounds = 0

    def passes(self, loss: Callable[[], Any], *, after: Callable[[], Any] = lambda: None, times: int = 4, **backward: Any) -> None:
        """A round of passes that are looked at, with what the loop does after each."""
        self._rounds += 1
        for _ in range(times):
            made = loss()
            self.looks.look(nodes_until(made, 1000)[0], 7, self._rounds, MUCH_NS)
            made.backward(**backward)
            self.looks.ended()
            after()

    @property
    def last(self) -> dict[str, Any]:
        return self.notes[-1]


def test_a_teacher_that_is_asked_with_its_graph_is_timed_in_each_of_its_operations() -> None:
    student, teacher = net(4, 5, 2), net(4, 50, 50, 2)
    optimizer = torch.optim.SGD(student.parameters())
    watched = Watched(optimizer)

    for _ in range(3):
        watched.passes(lambda: (student(X) - teacher(X)).square().mean(), after=optimizer.zero_grad)

    last = watched.last
    assert (last["state"], last["rounds"], last["found"], last["looks"]) == ("kept", 3, 12, 12)
    assert (last["parameters"], last["elements"]) == (6, sum(each.numel() for each in teacher.parameters()))
    # Products, turned weights and sums of each layer: its own two parameters, and nothing of the student or the loss.
    assert (last["alone"], last["halves"]) == (3 * 2 + 6, 0)
    assert last["alone_ns"] > 0


def test_nodes_are_left_as_they_were() -> None:
    student, teacher = net(4, 5), net(4, 5)
    watched = Watched(torch.optim.SGD(student.parameters()))
    called = []
    loss = (student(X) - teacher(X)).sum()
    watched.passes(lambda: (student(X) - teacher(X)).sum())

    nodes, _ = nodes_until(loss, 1000)
    watched.looks.look(nodes, 7, 1, MUCH_NS)
    watched.looks.ended()
    before = watched.last.get("alone_ns")
    node = next(iter(find_unused(nodes, {id(each) for each in teacher.parameters()}).alone))
    node.register_hook(lambda *_: called.append(1))
    loss.backward()

    assert (called, before) == ([1], None)


@pytest.mark.parametrize(
    "make",
    [
        lambda net: torch.optim.SGD(net.parameters()),
        lambda net: torch.optim.LBFGS(net.parameters()),
    ],
    ids=["called later", "of another kind"],
)
def test_an_optimizer_that_was_built_holds_its_parameters_though_it_was_never_called(make) -> None:
    first, second = net(4, 5), net(4, 5)
    optimizers = [torch.optim.SGD(first.parameters()), make(second)]
    watched = Watched(*optimizers)

    watched.passes(lambda: (first(X) - second(X)).square().mean())

    assert [note["state"] for note in watched.notes] == ["none"]


def test_a_group_that_is_added_later_is_held_from_then_on(monkeypatch) -> None:
    monkeypatch.setattr(unused_looks, "_MOST_EMPTY", 2)
    head, backbone = net(5, 2), net(4, 5)
    optimizer = torch.optim.SGD(head.parameters())
    watched = Watched(optimizer)

    watched.passes(lambda: head(backbone(X)).sum(), after=optimizer.zero_grad)
    state = watched.last["state"]
    optimizer.add_param_group({"params": list(backbone.parameters())})
    watched.passes(lambda: head(backbone(X)).sum(), after=optimizer.zero_grad)

    assert (state, watched.last["state"]) == ("kept", "none")


def test_a_generators_pass_through_a_discriminator_of_another_optimizer_is_left_alone() -> None:
    generator, discriminator = net(4, 5), net(5, 1)
    watched = Watched(torch.optim.SGD(generator.parameters()), torch.optim.SGD(discriminator.parameters()))

    watched.passes(lambda: discriminator(generator(X)).mean())

    assert [note["state"] for note in watched.notes] == ["none"]


def _by_hand(network: Any) -> None:
    with torch.no_grad():
        for parameter in network.parameters():
            parameter -= 0.1 * parameter.grad


def _past_versions(network: Any, step: float = 0.5) -> None:
    for parameter in network.parameters():
        parameter.data.mul_(step)


@pytest.mark.parametrize(
    "after",
    [
        lambda network: network.zero_grad(),
        lambda network: network.zero_grad(set_to_none=False),
        lambda network: nn.utils.clip_grad_norm_(network.parameters(), 0.01),
        _by_hand,
        _past_versions,
    ],
    ids=["cleared", "filled with zeros", "clipped", "updated by hand", "an average of others"],
)
def test_gradients_that_are_written_to_or_whose_parameters_change_are_somebodys(after) -> None:
    trained, other = net(4, 5), net(4, 5)
    optimizer = torch.optim.SGD(trained.parameters())
    watched = Watched(optimizer)

    def step() -> None:
        optimizer.zero_grad()
        after(other)

    for _ in range(3):
        watched.passes(lambda: (trained(X) - other(X)).square().mean(), after=step)

    assert watched.last["state"] == "touched"
    assert watched.last["alone_ns"] > 0


def test_what_a_hook_takes_is_of_use() -> None:
    trained, watched_one, other = net(4, 5), net(4, 5), net(4, 5)
    watched_one[0].weight.register_hook(lambda gradient: None)
    watched_one[0].bias.register_post_accumulate_grad_hook(lambda parameter: None)
    watched = Watched(torch.optim.SGD(trained.parameters()))

    watched.passes(lambda: (trained(X) + watched_one(X) - other(X)).sum())

    assert (watched.last["state"], watched.last["parameters"]) == ("kept", 2)


@pytest.mark.parametrize("held", [[], [nn.Parameter(torch.ones(1))]], ids=["no optimizer", "one of something else"])
def test_a_pass_that_is_no_optimizers_is_for_something_else(held) -> None:
    network = net(4, 5)
    optimizers = [torch.optim.SGD(held)] if held else []
    watched = Watched(*optimizers)

    watched.passes(lambda: network(X.clone().requires_grad_()).sum())

    assert [note["state"] for note in watched.notes] == ["none"]


def test_gradients_that_were_not_asked_for_are_none() -> None:
    head, backbone = net(5, 2), net(4, 5)
    watched = Watched(torch.optim.SGD(head.parameters()))

    watched.passes(lambda: head(backbone(X)).sum(), inputs=list(head.parameters()))

    assert "kept" not in [note["state"] for note in watched.notes]
    assert watched.last["state"] in ("none", "touched")


def _work(loss: Any, unused: Any) -> tuple[int, int, int]:
    work = find_unused(nodes_until(loss, 1000)[0], {id(each) for each in unused.parameters()})
    return len(work.alone), len(work.halves), work.passing


def test_of_a_network_that_passes_gradients_on_only_those_of_its_own_are_of_no_use() -> None:
    trained, fixed = net(4, 6), net(6, 7, 2)

    alone, halves, passing = _work(fixed(trained(X)).sum(), fixed)

    # Each layer's weight, turned, and its bias.
    assert (alone, halves, passing) == (2 * 3, 2, 2)


def test_of_a_frozen_part_below_what_is_trained_all_is_of_no_use_and_half_of_the_first_layer_above_it() -> None:
    backbone, head = net(4, 6), net(6, 2)

    assert _work(head(backbone(X)).sum(), backbone) == (2 + 2, 1, 0)


def test_a_convolutions_weights_are_half_of_it() -> None:
    trained, fixed = nn.Conv2d(2, 3, 3), nn.Conv2d(3, 4, 3)

    assert _work(fixed(trained(torch.ones(1, 2, 9, 9))).sum(), fixed) == (2, 1, 1)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient


def test_what_a_function_of_the_scripts_own_does_is_of_use() -> None:
    trained, fixed = net(4, 6), net(4, 6)

    above, _, _ = _work((trained(X) + Doubled.apply(fixed(X)).relu()).sum(), fixed)
    below, _, _ = _work((trained(X) + fixed(X).relu()).sum(), fixed)

    # The rectifier stands above it.
    assert below - above == 1


def test_where_hooks_would_cost_more_than_is_allowed_they_wait() -> None:
    student, teacher = net(4, 5), net(4, 5)
    watched = Watched(torch.optim.SGD(student.parameters()))
    watched.passes(lambda: (student(X) - teacher(X)).sum())
    timed = len([note for note in watched.notes if "alone_ns" in note])

    loss = (student(X) - teacher(X)).sum()
    watched.looks.look(nodes_until(loss, 1000)[0], 7, 1, 10)
    loss.backward()
    watched.looks.ended()

    assert watched.looks.owed_ns > 10
    assert len([note for note in watched.notes if "alone_ns" in note]) == timed


NAMED_TEACHER: Any = None
NAMED_MODEL: Any = None


def test_a_network_is_called_what_the_script_calls_it(monkeypatch) -> None:
    monkeypatch.setitem(globals(), "NAMED_TEACHER", net(4, 5))
    model = nn.Module()
    model.backbone, model.head = net(4, 6, 5), net(5, 5)
    monkeypatch.setitem(globals(), "NAMED_MODEL", model)
    watched = [Watched(torch.optim.SGD(model.parameters())), Watched(torch.optim.SGD(model.head.parameters()))]

    watched[0].passes(lambda: (model.head(model.backbone(X)) - NAMED_TEACHER(X)).sum())
    watched[1].passes(lambda: model.head(model.backbone(X)).sum())

    assert [each.last["name"] for each in watched] == ["NAMED_TEACHER", "NAMED_MODEL.backbone"]


def test_a_network_of_which_no_name_is_known_is_called_by_what_it_is_a_part_of() -> None:
    class Distilled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.student, self.teacher = net(4, 5), net(4, 5)

    kept = [Distilled()]
    watched = Watched(torch.optim.SGD(kept[0].student.parameters()))

    watched.passes(lambda: (kept[0].student(X) - kept[0].teacher(X)).sum())

    assert watched.last["name"] == "Distilled.teacher"


def test_an_optimizer_that_is_gone_holds_nothing_and_none_is_kept_alive() -> None:
    known, network = KnownOptimizers(), net(4, 5)
    optimizer = torch.optim.SGD(network.parameters())
    known.given(optimizer)
    held = known.held()
    del optimizer

    assert (held, known.held()) == ({id(each) for each in network.parameters()}, set())


def test_an_optimizer_is_known_from_when_it_is_built_and_nothing_is_left_of_that(tmp_path) -> None:
    recorder, network, of_torch = Recorder(make_folder(tmp_path / "recording"), level=0), net(4, 5), torch.optim.Optimizer.add_param_group
    undo = install(recorder)
    try:
        optimizer = torch.optim.SGD(network[0].parameters())
        with pytest.raises(TypeError):
            optimizer.add_param_group(None)
        held = recorder.shared(KnownOptimizers).held()
    finally:
        undo()
        recorder.stop("test")
        recorder.close()

    assert held == {id(each) for each in optimizer.param_groups[0]["params"]}
    assert torch.optim.Optimizer.add_param_group is of_torch


def test_backward_passes_are_looked_at_for_them(tmp_path) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    looks = Backwards(recorder)._looks
    recorder.stop("test")
    recorder.close()

    assert isinstance(looks._unused, UnusedLooks)


def test_of_looks_that_cost_too_much_one_more_is_taken_which_tells_whether_a_gradient_stays(monkeypatch) -> None:
    student, teacher = net(4, 5), net(4, 5)
    watched = Watched(torch.optim.SGD(student.parameters()))
    at = iter(range(10**9, 10**12, 6 * 10**6))
    monkeypatch.setattr(graph_looks, "now", lambda: next(at))
    monkeypatch.setattr(graph_looks, "cpu_ns", lambda: next(at))
    looks = GraphLooks(cast(Recorder, SimpleNamespace(event=lambda *_: None, note=watched.notes.append, spent_ns=0)), None, watched.looks)

    looks.want()
    looked = 0
    while looks.are_wanted:
        looked += 1
        loss = (student(X) - teacher(X)).sum()
        looks.look(loss)
        loss.backward()
        looks.ended()

    assert looked == 2
    assert [note["state"] for note in watched.notes if note["kind"] == "unused"] == ["none", "kept"]
