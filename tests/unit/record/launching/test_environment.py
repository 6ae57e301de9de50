from __future__ import annotations

import os

import pytest

from slowstep.record.launching.own_process import OwnEnvironment

OURS = {"PYTHONPATH": "/inject:/there", "SLOWSTEP_RECORDING": "/run", "SLOWSTEP_STEPS": None}


@pytest.fixture(autouse=True)
def _before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/there")
    # Set first, so that it is gone again afterwards: what was not there when it was deleted is not put back.
    monkeypatch.setenv("SLOWSTEP_RECORDING", "/earlier")
    monkeypatch.delenv("SLOWSTEP_RECORDING")
    monkeypatch.setenv("SLOWSTEP_STEPS", "5")


def test_what_is_set_is_put_back_exactly() -> None:
    before = dict(os.environ)

    ours = OwnEnvironment(OURS, inject="/inject")
    assert (os.environ["PYTHONPATH"], os.environ["SLOWSTEP_RECORDING"], "SLOWSTEP_STEPS" in os.environ) == ("/inject:/there", "/run", False)
    ours.restore()

    assert dict(os.environ) == before


def test_what_the_user_has_set_meanwhile_stays() -> None:
    ours = OwnEnvironment(OURS, inject="/inject")
    os.environ["PYTHONPATH"] = "/more:/inject:/there"
    os.environ["SLOWSTEP_RECORDING"] = "/another"
    ours.restore()

    assert (os.environ["PYTHONPATH"], os.environ["SLOWSTEP_RECORDING"]) == ("/more:/there", "/another")


def test_a_path_that_the_user_has_removed_stays_removed() -> None:
    ours = OwnEnvironment(OURS, inject="/inject")
    del os.environ["PYTHONPATH"]
    ours.restore()

    assert "PYTHONPATH" not in os.environ
