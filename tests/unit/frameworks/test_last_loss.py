"""The loss of one step, kept where it is wanted, and asked of a device without waiting for it."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._answers.last_loss import are_finite, losses_in
from slowstep.record.device.last_loss import LastLoss

torch = pytest.importorskip("torch")


def asked(*passes: Any) -> Any:
    loss = LastLoss()
    loss.are_finite = are_finite
    loss.starters.append(lambda: None)
    loss.want()
    for tensors in passes:
        loss.keep(losses_in(tensors))
    return loss.take()


@pytest.mark.parametrize(
    ("passes", "finite"),
    [([1.0], True), ([float("nan")], False), ([1.0, float("inf")], False), ([float("nan"), *[1.0] * 8], True)],
)
def test_of_several_passes_the_last_ones_say_whether_all_are_finite(passes: list[float], finite: bool) -> None:
    assert asked(*(torch.tensor(value) for value in passes))() is finite


def test_what_is_no_loss_is_not_kept() -> None:
    assert asked() is None
    assert asked(torch.ones(3), [object()]) is None
    assert asked((torch.tensor(float("nan")), torch.ones(2)))() is False


def test_without_anybody_who_sees_backward_passes_nothing_is_wanted() -> None:
    loss = LastLoss()
    loss.want()

    assert not loss.is_wanted


def test_a_device_says_it_when_its_work_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done = [False, False, True]
    device = torch.device("cuda", 0)

    class Tensor:
        def __init__(self, value: bool) -> None:
            self.value, self.device = value, device

        def numel(self) -> int:
            return 1

        def __bool__(self) -> bool:
            return self.value

        def copy_(self, other: Tensor, *, non_blocking: bool) -> None:
            assert non_blocking
            self.value = other.value

        detach = double = all = lambda self: self

        def reshape(self, shape: tuple[int, ...]) -> Tensor:
            return self

    cuda = SimpleNamespace(
        is_current_stream_capturing=lambda: False,
        device=lambda which: nullcontext(),
        Event=lambda: SimpleNamespace(record=lambda: None, query=lambda: done.pop(0)),
    )
    made = SimpleNamespace(
        cuda=cuda, no_grad=nullcontext, bool=bool, isfinite=lambda t: t, stack=lambda parts: parts[0], empty=lambda *_, **how: Tensor(True)
    )
    monkeypatch.setitem(sys.modules, "torch", made)  # type: ignore[arg-type]

    answer = asked(Tensor(False))

    assert [answer(), answer(), answer()] == [None, None, False]
    cuda.is_current_stream_capturing = lambda: True
    assert asked(Tensor(False)) is None
