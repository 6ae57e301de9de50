"""When batches are looked at for padding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from slowstep.frameworks.torch.inside._loader import padding_looks
from slowstep.frameworks.torch.inside._loader.padding_looks import (
    FRUITLESS,
    MOST_AT_A_TIME,
    MOST_LOOKS,
    NEVER,
    PASSES,
    ROUNDS,
    PaddingLooks,
)

PADDED = torch.arange(5, 45).repeat(8, 1) * (torch.arange(40) < torch.arange(10, 18)[:, None])
FULL = torch.randint(5, 90, (8, 40))


class Recorder:
    """Keeps what is noted."""

    level, once_ns = 1, 0

    def __init__(self) -> None:
        self.forgetters: list[Any] = []
        self.notes: list[dict[str, Any]] = []
        self.note = self.notes.append


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> PaddingLooks:
    monkeypatch.setattr(padding_looks, "now", lambda: 0)
    return PaddingLooks(Recorder())  # type: ignore[arg-type]


def _ask(looks: PaddingLooks, *batches: tuple[int, Any]) -> list[int]:
    """Steps that ask these iterators for a batch each, when a look is due; returns which were looked at."""
    for k in range(200):
        for iterator, batch in batches:
            if looks.due_ns < NEVER:
                looks.look(batch, iterator, k, 0)
    return [note["iterator"] for note in looks._recorder.notes]  # type: ignore[attr-defined]


def test_each_of_the_loaders_that_a_step_asks_is_looked_at(looks: PaddingLooks) -> None:
    assert sorted(_ask(looks, (1, FULL), (2, PADDED))) == [1] * MOST_LOOKS + [2] * MOST_LOOKS


def test_of_short_epochs_no_more_than_a_few_are_looked_at_at_a_time(looks: PaddingLooks) -> None:
    for iterator in range(MOST_AT_A_TIME):
        assert looks.due_ns == 0
        looks.look(PADDED, iterator, 0, 0)

    looks.look(PADDED, MOST_AT_A_TIME, 0, 0)

    assert looks.due_ns > 0
    assert len(looks._recorder.notes) == MOST_AT_A_TIME  # type: ignore[attr-defined]


def test_where_nothing_has_an_end_looking_ends_soon(looks: PaddingLooks) -> None:
    assert _ask(looks, (1, FULL)) == [1] * FRUITLESS
    assert looks.passes == 0


def test_graphs_are_wanted_after_the_first_looks_alone(looks: PaddingLooks) -> None:
    wanted = []
    looks.starters.append(lambda: wanted.append(looks.passes))

    _ask(looks, (1, PADDED))

    assert wanted == [PASSES] * ROUNDS


def test_what_a_look_takes_is_the_recorders_own_cost(looks: PaddingLooks) -> None:
    _ask(looks, (1, PADDED))

    assert looks._recorder.once_ns > 0
