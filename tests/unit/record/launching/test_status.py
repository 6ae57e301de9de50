"""Where a terminal's title is left alone."""

from __future__ import annotations

import os

import pytest

from slowstep.record.launching import status
from slowstep.record.launching.status import has_title

TERMINAL = {"TERM": "xterm-256color"}


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status.os, "isatty", lambda _: True)


@pytest.mark.parametrize("more", [{}, {"CI": ""}, {"CI": "false"}, {"SLOWSTEP_NO_TITLE": "0"}])
def test_a_real_terminal_shows_the_progress_in_its_title(more: dict[str, str]) -> None:
    assert has_title(TERMINAL | more)


@pytest.mark.parametrize("more", [{"SLOWSTEP_NO_TITLE": "1"}, {"CI": "true"}, {"CI": "1"}, {"TERM": "dumb"}, {"TERM": "linux"}])
def test_a_title_that_nobody_sees_or_wants_is_left_alone(more: dict[str, str]) -> None:
    assert not has_title(TERMINAL | more)


def test_without_a_terminal_there_is_no_title(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status.os, "isatty", lambda _: False)

    assert not has_title(TERMINAL)


def test_the_option_leaves_the_title_alone_in_a_real_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.setenv("TERM", TERMINAL["TERM"])
    written: list[str] = []
    monkeypatch.setattr(status, "_write", lambda text, **_: written.append(text))
    monkeypatch.setattr(os, "environ", os.environ)

    for title in (False, True):
        told = status.Status(page=None, lines=False, title=title)  # type: ignore[arg-type]
        told.stop()
        assert bool(written) is title
