"""Which process of a job JAX says that this one is."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.jax.inside._framework import FRAMEWORK
from slowstep.record.experiment.in_step import LocalRank, find_local_rank


@pytest.mark.parametrize(
    ("distributed", "size", "place"),
    [
        (SimpleNamespace(is_initialized=lambda: True), 2, LocalRank(1, 2, is_whole=True)),
        (SimpleNamespace(is_initialized=lambda: True), 1, None),
        (SimpleNamespace(is_initialized=lambda: False), 2, None),
        # Older versions do not say whether it is.
        (SimpleNamespace(), 2, LocalRank(1, 2, is_whole=True)),
    ],
    ids=["one of two", "the only one", "not initialised", "of an older version"],
)
def test_a_process_knows_its_place(monkeypatch: pytest.MonkeyPatch, distributed: Any, size: int, place: LocalRank | None) -> None:
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    jax = SimpleNamespace(distributed=distributed, process_index=lambda: size - 1, process_count=lambda: size)
    monkeypatch.setitem(sys.modules, "jax", jax)

    assert find_local_rank(FRAMEWORK) == place
