"""What torch.compile has made part of a graph is not touched."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from made_trainings import Script, loader, plan_of, walk
from slowstep.frameworks.torch.inside._answers import compiled as _compiled
from slowstep.levers._calls.targets import known_function
from slowstep.record.framework import is_compiled

HERE = __name__


def inside(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def outside() -> None:
    """Not called by the model."""


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(inside(x))  # type: ignore[no-any-return]


@pytest.fixture
def compiled() -> Iterator[Any]:
    """A model that is compiled and was called; the compiler has forgotten it afterwards."""
    torch._dynamo.reset()
    model = torch.compile(Net(), backend="eager")
    model(torch.zeros(4, 4))
    yield model
    torch._dynamo.reset()
    assert not is_compiled(inside)


@pytest.mark.slow
def test_functions_of_a_graph_are_known(compiled: Any) -> None:
    assert is_compiled(inside)
    assert is_compiled(Net.forward)
    assert not is_compiled(outside)
    assert not is_compiled(torch.save)


@pytest.mark.slow
def test_where_the_compiler_does_not_tell_every_function_may_be_one(compiled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Any:
        raise AttributeError("another version")

    monkeypatch.setattr(_compiled, "_look", fail)
    _compiled._known.clear()

    assert is_compiled(outside)
    assert known_function("json", "dumps") is None
    _compiled._known.clear()


@pytest.mark.slow
def test_a_function_of_a_graph_is_refused_and_another_one_is_not(compiled: Any, tmp_path: Path) -> None:
    frames = torch._dynamo.convert_frame.FRAME_COUNTER

    def train(script: Script) -> None:
        batches = loader()
        for batch in batches:
            compiled(batch)
            outside()
            if not script.step(batch):
                return

    walked = walk(tmp_path / "recording", plan_of([f"stub={HERE}:inside", f"stub={HERE}:outside"], [0, 1, 2]), train)

    assert walked.reason(1) == f"{HERE}:inside is part of a graph that was compiled"
    assert walked.effect(2)[0] == 6
    assert frames == torch._dynamo.convert_frame.FRAME_COUNTER
