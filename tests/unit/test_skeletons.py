"""What the pages beside the code tell a newcomer to begin with works as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.record.experiment.lever import LeverSpec, NotApplicable

ROOT = Path(__file__).parents[2] / "src" / "slowstep"


def skeleton(room: str) -> dict[str, Any]:
    """The names that the first code on the page of a package defines."""
    block = re.search(r"```python\n(.*?)```", (ROOT / room / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {"__name__": "skeleton"}
    exec(compile(block[1], room, "exec"), names)
    return names


def test_the_lever_leaves_calls_out_and_puts_back_what_was_there(monkeypatch):
    calls: list[int] = []
    framework = SimpleNamespace(thing=calls.append)
    monkeypatch.setitem(sys.modules, "framework", framework)
    before = framework.thing
    lever = skeleton("levers")["IMPLEMENTATION"]

    change = lever.prepare(None, LeverSpec(name=lever.name))
    change.on()
    framework.thing(1)
    change.off()
    framework.thing(2)

    assert (calls, change.effect) == ([2], 1)
    assert framework.thing == before


def test_the_lever_has_no_meaning_without_its_framework():
    lever = skeleton("levers")["IMPLEMENTATION"]

    with pytest.raises(NotApplicable):
        lever.prepare(None, LeverSpec(name=lever.name))
