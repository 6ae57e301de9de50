"""What is read of a model in DistributedDataParallel before a backward pass."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from slowstep.frameworks.torch.inside._gradient_sync import SharedModels
from slowstep.record.writing.format import SYNC_UNKNOWN, SYNCED, SYNCED_ANEW, UNSYNCED


class Model:
    """Has what DistributedDataParallel keeps."""

    def __init__(self, *, prepared: Any = True, has_gradient: bool = False) -> None:
        self.require_forward_param_sync = prepared
        self._module_parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(3)]
        if has_gradient:
            self._module_parameters[-1].grad = torch.ones(2)


def _sync(*models: object) -> int:
    shared = SharedModels(None)  # type: ignore[arg-type]
    for model in models:
        shared.add(model)
    return shared.sync()


@pytest.mark.parametrize(
    ("model", "sync"),
    [
        (Model(), SYNCED_ANEW),
        (Model(has_gradient=True), SYNCED),
        (Model(prepared=False), UNSYNCED),
        (Model(prepared=None), SYNC_UNKNOWN),
    ],
    ids=["no gradient yet", "adds to one", "no_sync", "another torch"],
)
def test_a_pass_shares_as_its_forward_has_prepared(model: Model, sync: int) -> None:
    assert _sync(model) == sync


def test_of_a_model_that_tells_no_parameters_nothing_is_known_to_begin_anew() -> None:
    model = Model()
    del model._module_parameters

    assert _sync(model) == SYNCED


def test_of_several_models_and_of_none_it_is_not_known() -> None:
    several = Model(), Model()

    assert _sync(*several) == _sync() == SYNC_UNKNOWN
