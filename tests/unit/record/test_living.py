"""Which objects are found, set aside or not."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from typing import Any, NoReturn

import pytest

from set_aside import all_set_aside
from slowstep.record.living import holders_of, objects


class Thing:
    """Lies about its class, and fails where it is compared."""

    @property
    def __class__(self) -> NoReturn:  # type: ignore[override]
        raise AssertionError("asked")

    def __eq__(self, _: object) -> NoReturn:
        raise AssertionError("asked")

    __hash__ = None  # type: ignore[assignment]


def are_found(*things: Any) -> list[bool]:
    known = set(map(id, objects()))
    return [id(thing) in known for thing in things]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    made = types.ModuleType("of_the_script")
    monkeypatch.setitem(sys.modules, "of_the_script", made)
    return made


@pytest.mark.parametrize("aside", [False, True])
def test_what_modules_lead_to_is_found(module: types.ModuleType, aside: bool) -> None:
    thing, kept = Thing(), Thing()
    module.kept = [{"thing": thing}]  # type: ignore[attr-defined]
    module.known = weakref.ref(kept)  # type: ignore[attr-defined]

    if aside:
        with all_set_aside():
            found = are_found(thing, kept)
    else:
        found = are_found(thing, kept)

    assert found == [True, True]


@pytest.mark.parametrize("aside", [False, True])
def test_who_holds_a_thing_is_told_by_identity(module: types.ModuleType, aside: bool) -> None:
    thing = Thing()
    held = module.held = [thing]  # type: ignore[attr-defined]
    module.another = [Thing()]  # type: ignore[attr-defined]

    if aside:
        with all_set_aside():
            holders = holders_of(thing)
    else:
        holders = holders_of(thing)

    assert [each is held for each in holders if type(each) is list] == [True]


def test_a_class_that_nothing_but_its_base_knows_is_found() -> None:
    class Local(Thing):
        pass

    with all_set_aside():
        assert are_found(Local) == [True]


def test_looking_leaves_what_is_set_aside() -> None:
    with all_set_aside():
        before = gc.get_freeze_count()
        objects()

        assert gc.get_freeze_count() >= before - 100
