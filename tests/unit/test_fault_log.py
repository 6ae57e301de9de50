"""What the log of a fault of slowstep's own says to whoever looks for it."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from slowstep.errors import DiscoveryError
from slowstep.faults import Fault
from slowstep.report import fault_log
from slowstep.report.fault_log import keep_log

FAULT = Fault("the test", ZeroDivisionError("made to fail"))


def _libraries(folder: Path) -> list[str]:
    """What the log in a folder says of installed libraries."""
    log = keep_log([FAULT], folder)
    assert log is not None
    return log.read_text(encoding="utf-8").splitlines()[1].split(", ")


def test_it_names_the_installed_frameworks_once_each_by_what_they_are_installed_as(tmp_path: Path) -> None:
    named = _libraries(tmp_path)

    installed = {name: metadata.version(name) for name in ("numpy", "torch", "jax", "keras", "lightning")}
    assert {f"{name} {version}" for name, version in installed.items()} <= set(named)
    assert len(set(named)) == len(named)


def test_a_framework_may_be_installed_under_another_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "packages_distributions", lambda: {"tensorflow": ["tensorflow_of_somebody"]})
    monkeypatch.setattr(fault_log, "_version", lambda name: "1.2" if name == "tensorflow_of_somebody" else None)

    assert _libraries(tmp_path) == ["tensorflow_of_somebody 1.2"]


def test_one_that_is_broken_costs_its_name_and_not_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise DiscoveryError("made to fail")

    monkeypatch.setattr(fault_log, "known_frameworks", broken)

    assert f"numpy {metadata.version('numpy')}" in _libraries(tmp_path)
