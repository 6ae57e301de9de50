from __future__ import annotations

import sys

import pytest

from slowstep.workflow.sessions.place import Prompt, find_session_place


def test_a_script_is_a_place_without_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(sys, "ps1", raising=False)

    place = find_session_place()

    assert (place.words, place.is_interactive, place.cells()) == ("a script", False, {})


def test_a_prompt_tells_when_it_is_shown_and_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", "? ", raising=False)
    shown: list[int] = []

    place = find_session_place()
    assert isinstance(place, Prompt)
    place.enter(lambda: shown.append(1))
    assert (str(sys.ps1), str(sys.ps1), len(shown)) == ("? ", "? ", 2)
    place.leave()
    place.leave()

    assert sys.ps1 == "? "


def test_a_prompt_survives_what_goes_wrong_in_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", "? ", raising=False)
    place = Prompt()

    place.enter(lambda: 1 // 0)  # type: ignore[arg-type, return-value]

    assert str(sys.ps1) == "? "
    place.leave()


def test_a_prompt_that_the_user_has_changed_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", "? ", raising=False)
    place = Prompt()
    place.enter(lambda: None)
    sys.ps1 = "mine "

    place.leave()

    assert sys.ps1 == "mine "
