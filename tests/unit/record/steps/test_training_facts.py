"""Facts about a training: its parameters, accelerators beside it, and what makes its operations slower."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside._answers.parameters import describe_optimizer
from slowstep.frameworks.torch.inside.modes import torch_modes
from slowstep.record.device import accelerators
from slowstep.record.timing.modes import ANOMALY, FRAMEWORK_PROFILER, PLAIN_KERNELS, PROFILED, TRACED, python_modes


def parameter(elements: int, dtype: str, device: str) -> Any:
    return SimpleNamespace(numel=lambda: elements, shape=(elements,), dtype=f"torch.{dtype}", device=SimpleNamespace(type=device))


def test_parameters_are_counted_by_type_and_most_of_them_tell_the_device() -> None:
    groups = [
        {"params": [parameter(10, "float32", "cpu"), parameter(90, "float64", "cuda")]},
        {"params": [parameter(10, "float32", "cpu")]},
    ]

    told = describe_optimizer(SimpleNamespace(param_groups=groups))

    groups = {"fused": None, "momentum": None, "decays": None}
    assert told == {"params": 110, "tensors": 3, "shapes": 2, "dtypes": {"float32": 20, "float64": 90}, "device": "cuda", **groups}


@pytest.mark.parametrize(("choices", "told"), [((), None), ((None,), False), ((True, None), False), ((True, True), True)])
def test_whether_an_optimizer_is_fused_is_told_where_it_has_the_choice(choices: tuple[bool | None, ...], told: bool | None) -> None:
    groups = [{"params": [parameter(10, "float32", "cpu")], "fused": choice} for choice in choices]

    assert describe_optimizer(SimpleNamespace(param_groups=groups))["fused"] is told


@pytest.mark.parametrize(("values", "told"), [((0, 0.0), False), ((0.0, 0.9), True), ((0.0, "0.9"), None), ((0.0, None), None)])
def test_whether_weights_decay_is_told_where_all_groups_have_a_plain_number(values: tuple[object, ...], told: bool | None) -> None:
    groups = [{"params": [parameter(10, "float32", "cpu")], "weight_decay": value} for value in values]

    assert describe_optimizer(SimpleNamespace(param_groups=groups))["decays"] is told


@pytest.mark.parametrize("groups", [None, [{"params": [object()]}]], ids=["no groups", "lazy parameters"])
def test_an_optimizer_that_does_not_say_is_unknown(groups: Any) -> None:
    untold = {"params": None, "tensors": None, "shapes": None, "dtypes": None, "device": None, "fused": None}

    assert describe_optimizer(SimpleNamespace(param_groups=groups)) == untold


def test_accelerators_are_the_device_files_that_may_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"/dev": ["nvidia0", "nvidia1", "nvidia2", "nvidiactl", "null"], "/dev/dri": ["renderD128"]}
    monkeypatch.setattr(os, "listdir", lambda folder: files[folder])
    monkeypatch.setattr(os, "access", lambda path, mode: path != "/dev/nvidia1")
    monkeypatch.setattr(os.path, "exists", lambda path: False)

    assert accelerators.accelerators() == {"nvidia": 2}


def test_a_machine_without_device_files_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(folder: str) -> list[str]:
        raise PermissionError(folder)

    monkeypatch.setattr(os, "listdir", refuse)

    assert accelerators.accelerators() == {}


def test_modes_of_torch_are_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(is_anomaly_enabled=lambda: True, are_deterministic_algorithms_enabled=lambda: False)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace(_is_profiler_enabled=True))

    assert torch_modes() == ANOMALY | FRAMEWORK_PROFILER


@pytest.mark.parametrize(
    ("library", "is_told"),
    [
        (SimpleNamespace(enabled=False, is_available=lambda: True), True),
        (SimpleNamespace(enabled=True, is_available=lambda: True), False),
        (SimpleNamespace(enabled=False, is_available=lambda: False), False),
        (SimpleNamespace(), False),
    ],
    ids=["off", "on", "not there", "older"],
)
def test_fast_kernels_that_are_there_and_must_not_be_used_are_told(monkeypatch: pytest.MonkeyPatch, library: Any, is_told: bool) -> None:
    said = {"is_anomaly_enabled": lambda: False, "are_deterministic_algorithms_enabled": lambda: False}
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(backends=SimpleNamespace(mkldnn=library), **said))
    monkeypatch.setitem(sys.modules, "torch.autograd.profiler", SimpleNamespace())

    assert torch_modes() == PLAIN_KERNELS * is_told


def test_a_torch_that_does_not_say_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace())

    assert torch_modes() is None


def test_tools_of_sys_monitoring_count_where_python_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    tools = {0: None, 1: "coverage", 2: None}
    monitoring = SimpleNamespace(DEBUGGER_ID=0, COVERAGE_ID=1, PROFILER_ID=2, get_tool=tools.get)
    monkeypatch.setattr(sys, "monitoring", monitoring, raising=False)

    assert python_modes(traced=False, profiled=False) == TRACED
    assert python_modes(traced=False, profiled=True) == TRACED | PROFILED
