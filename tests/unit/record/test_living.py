"""Which objects are found, set aside or not."""

from __future__ import annotations

import gc
import sys
import types
import weakref
from collections.abc import Callable
from contextlib import nullcontext, suppress
from itertools import count
from typing import Any, NoReturn

import pytest

from few import few
from set_aside import all_set_aside
from slowstep.record import living
from slowstep.record.living import TooManyObjects, holders_of, is_of_a_class, objects, one_search


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


@pytest.mark.parametrize("hold", [list, tuple, set, lambda words: dict.fromkeys([*words, Thing])])
def test_what_leads_to_nothing_is_passed_over(module: types.ModuleType, hold: Callable[[list[str]], Any]) -> None:
    module.held = hold([str(number) for number in range(20_000)])  # type: ignore[attr-defined]

    with all_set_aside():
        found = objects()

    assert any(each is module.held for each in found)  # type: ignore[attr-defined]
    assert not any(type(each) is str for each in found)


@pytest.mark.parametrize(
    "hold", few([list, tuple, lambda things: dict(enumerate(things)), lambda things: dict.fromkeys(range(20_000), things[-1])], every=2)
)
def test_what_is_in_a_long_container_is_found(module: types.ModuleType, hold: Callable[[list[Any]], Any]) -> None:
    thing = Thing()
    module.held = hold([*map(str, range(20_000)), thing])  # type: ignore[attr-defined]

    with all_set_aside():
        holders = holders_of(thing)

    assert any(each is module.held for each in holders)  # type: ignore[attr-defined]


@pytest.mark.parametrize("bound", ["_MOST", "_LONGEST_S"])
@pytest.mark.parametrize("search", [objects, lambda: holders_of(Thing)])
def test_a_search_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch, bound: str, search: Callable[[], object]) -> None:
    monkeypatch.setattr(living, bound, -1)

    with all_set_aside(), pytest.raises(TooManyObjects):
        search()
    search()


@pytest.mark.parametrize("most", few([0, living._MOST], every=2))
def test_one_search_serves_all_who_ask_meanwhile(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    searches: list[object] = []
    monkeypatch.setattr(living, "_MOST", most)
    monkeypatch.setattr(living, "_classes", lambda all_of=living._classes: searches.append(None) or all_of())

    with all_set_aside():
        with one_search():
            for _ in range(3):
                with suppress(TooManyObjects):
                    holders_of(Thing)
        within = len(searches)
        with suppress(TooManyObjects):
            objects()

    assert (within, len(searches)) == (1, 2)
    assert (living._search.found, living._search.was_given_up) == (None, False)


def test_a_search_for_holders_is_given_up_though_all_objects_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    with all_set_aside(), one_search():
        objects()
        monkeypatch.setattr(living, "_LONGEST_S", -1)

        with pytest.raises(TooManyObjects):
            holders_of(Thing)
        assert objects()


@pytest.mark.parametrize("is_shared", few([True, False], every=2))
def test_searches_within_one_share_its_time(monkeypatch: pytest.MonkeyPatch, is_shared: bool) -> None:
    ticks = count()
    monkeypatch.setattr(living, "time", types.SimpleNamespace(monotonic=lambda: next(ticks)))
    monkeypatch.setattr(living, "_LONGEST_S", 1 << 60)

    with all_set_aside(), one_search() if is_shared else nullcontext():
        holders_of(Thing)
        # Enough for the same again, and for no more than that.
        monkeypatch.setattr(living, "_LONGEST_S", next(ticks) * 11 // 10)

        with pytest.raises(TooManyObjects) if is_shared else nullcontext():
            holders_of(Thing)
    assert living._search.spent_s == 0


def test_a_class_knows_its_own_dictionary() -> None:
    own = next(each for each in gc.get_referents(Thing) if type(each) is dict)

    assert is_of_a_class(own)
    assert not is_of_a_class(dict(own))
