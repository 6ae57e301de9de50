"""One lever by name: its change is made by whoever trains, or by whoever's loader feeds the training."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from set_aside import all_set_aside
from slowstep import frameworks, levers
from slowstep.errors import DiscoveryError
from slowstep.record import living
from slowstep.record.experiment import implementations
from slowstep.record.experiment.arms import Arms
from slowstep.record.experiment.implementations import broken_levers, can_be_made, can_build, find_lever, known_levers, prepared
from slowstep.record.experiment.lever import COUNTERS, Implementation, Lever, LeverSpec, NotApplicable
from slowstep.record.framework import NO_FRAMEWORK, Framework
from slowstep.record.living import TooManyObjects

WORKERS = Lever(name="workers", takes="N")


class Known(Framework):
    """A framework of a name, that is imported where it has a module; `loop` is its trainer."""

    def __init__(self, name: str, *, loop: object = None, module: str | None = "sys") -> None:
        self.name, self.module, self._loop = name, module, loop

    def trainer(self) -> Any:
        return self._loop


def made(says: str | Exception, **more: Any) -> Implementation:
    """Gives what it says as the change, or raises it."""

    def prepare(training: Any, spec: Any) -> Any:
        if isinstance(says, Exception):
            raise says
        return says

    return Implementation(lever=WORKERS, prepare=prepare, **more)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Has these frameworks and no others, each with its implementation of the lever."""

    def know(**frameworks: tuple[Framework, Implementation]) -> None:
        monkeypatch.setattr(implementations, "known_frameworks", lambda: tuple(framework for framework, _ in frameworks.values()))
        monkeypatch.setattr(implementations, "implementations", lambda name: {framework: how for framework, (_, how) in frameworks.items()})

    return know


def ask(trains: Framework, lever: Lever = WORKERS, loads: Framework = NO_FRAMEWORK) -> object:
    training: Any = SimpleNamespace(recorder=SimpleNamespace(framework=trains), loader_framework=loads)
    return prepared(lever, training, LeverSpec(name="workers", value="2"))


def test_of_two_frameworks_the_one_that_trains_makes_the_change(known: Any) -> None:
    first, second = Known("first"), Known("second")
    known(first=(first, made("of first")), second=(second, made("of second")))

    assert (ask(first), ask(second)) == ("of first", "of second")


def test_a_trainer_whose_loop_runs_goes_before_what_it_stands_on(known: Any) -> None:
    beneath, above = Known("beneath"), Known("above", loop=object(), module=None)
    known(beneath=(beneath, made("of beneath")), above=(above, made("of above")))

    assert ask(beneath) == "of above"


def test_what_changes_a_loader_goes_before_a_trainer_that_is_fed_by_it(known: Any) -> None:
    trains, loads = Known("trains", loop=object()), Known("loads")
    known(trains=(trains, made("of trains")), loads=(loads, made("of loads", acts_on_loader=True)))

    assert (ask(trains, loads=loads), ask(trains)) == ("of loads", "of trains")


@pytest.mark.parametrize("module", ["sys", "no_such_module", None])
def test_a_loader_may_feed_another_frameworks_training(known: Any, module: str | None) -> None:
    trains, loads = Known("trains"), Known("loads", module=module)
    known(loads=(loads, made("of loads", acts_on_loader=True)))

    if module == "sys":
        assert ask(trains) == "of loads"
    else:
        with pytest.raises(NotApplicable, match="slowstep cannot make this change in a training with trains"):
            ask(trains)


def test_what_does_not_act_on_a_loader_is_left_to_who_trains(known: Any) -> None:
    known(other=(Known("other"), made("of other")))

    with pytest.raises(NotApplicable, match="slowstep cannot make this change"):
        ask(Known("trains"))


def test_where_nothing_makes_a_change_its_hint_says_what_to_do_instead(known: Any) -> None:
    known(other=(Known("other"), made("of other")))

    with pytest.raises(NotApplicable, match=r"^slowstep cannot make this change in a training with trains: use another$"):
        ask(Known("trains"), Lever(name="workers", hint="use another"))


def test_the_reason_is_that_of_the_first_where_none_can(known: Any) -> None:
    trains, loads = Known("trains"), Known("loads")
    known(trains=(trains, made(NotApplicable("first"))), loads=(loads, made(NotApplicable("second"), acts_on_loader=True)))

    with pytest.raises(NotApplicable, match=r"^first$"):
        ask(trains)


@pytest.mark.parametrize("second", ["of second", NotApplicable("no second")])
def test_one_that_cannot_search_all_objects_leaves_the_change_to_others_and_says_why(known: Any, second: Any) -> None:
    first = Known("first")
    known(first=(first, made(TooManyObjects())), second=(Known("second"), made(second, acts_on_loader=True)))

    if second == "of second":
        assert ask(first, loads=Known("second")) == second
    else:
        with pytest.raises(NotApplicable, match=r"gc\.freeze"):
            ask(first, loads=Known("second"))


def test_objects_are_searched_for_once_by_all_who_may_make_the_change(known: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[object] = []
    monkeypatch.setattr(living, "_reached", lambda _: searches.append(None) or [])

    def searching(training: Any, spec: Any) -> Any:
        living.objects()
        raise NotApplicable("nothing was found")

    frameworks = {name: Known(name, loop=object()) for name in ("first", "second")}
    known(**{name: (framework, Implementation(lever=WORKERS, prepare=searching)) for name, framework in frameworks.items()})

    with all_set_aside(), pytest.raises(NotApplicable):
        ask(frameworks["first"])

    assert len(searches) == 1


def test_a_lever_for_all_of_them_is_made_where_who_trains_has_no_way_of_its_own(known: Any) -> None:
    trains, other = Known("trains"), Known("other")
    anywhere = Lever(name="workers", prepare=lambda training, spec: "of all")  # type: ignore[arg-type,return-value]
    known(other=(other, made("of other")))

    assert (ask(trains, anywhere), ask(other, anywhere)) == ("of all", "of other")


def test_what_is_made_for_all_of_them_reaches_the_workers_of_another_frameworks_loader(known: Any) -> None:
    trains, loads = Known("trains"), Known("loads")
    anywhere = Lever(name="workers", prepare=lambda training, spec: "of all")  # type: ignore[arg-type,return-value]
    known(loads=(loads, made("of loads", acts_on_loader=True)))

    assert ask(trains, anywhere, loads) == "of loads"
    assert ask(trains, anywhere) == "of all"


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Levers are looked for anew, and again after the test."""
    for looked_up in (find_lever, implementations.implementations, implementations._looked_up):
        looked_up.cache_clear()
    yield
    for looked_up in (find_lever, implementations._looked_up):
        looked_up.cache_clear()


@pytest.mark.usefixtures("forgotten")
def test_two_levers_of_one_name_are_an_error(known: Any) -> None:
    known(first=(Known("first"), made("of first")))

    with pytest.raises(DiscoveryError, match="first implements another lever 'workers'"):
        find_lever("workers")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a lever whose file cannot be imported, beside those that there are and a `whole-one`."""
    monkeypatch.setattr(levers, "__path__", [*levers.__path__, str(tmp_path)])
    (tmp_path / "half_done.py").write_text("1 / 0")
    imports = "from slowstep.record.experiment.lever import Change, Lever\n"
    (tmp_path / "whole_one.py").write_text(imports + "LEVER = Lever(name='whole-one', prepare=lambda training, spec: Change())\n")
    yield "half-done"
    sys.modules.pop("slowstep.levers.whole_one", None)


@pytest.mark.usefixtures("forgotten")
def test_a_broken_lever_is_named_and_costs_no_other(broken: str) -> None:
    assert known_levers().keys() >= {"stub", "workers"}
    assert broken not in known_levers()
    assert list(broken_levers()) == [broken]
    assert not can_build(broken)
    # An analysis goes on, and whoever tries it is told.
    assert can_be_made(broken, (), None)
    with pytest.raises(DiscoveryError, match=r"half_done\.py cannot be imported: ZeroDivisionError"):
        find_lever(broken)


@pytest.mark.usefixtures("forgotten")
def test_a_broken_lever_costs_its_own_arm_and_no_other(broken: str) -> None:
    notes = list[Any]()
    recorder: Any = SimpleNamespace(note=notes.append, framework=NO_FRAMEWORK)
    plan = [{"name": "as-is", "levers": []}] + [{"name": name, "levers": [{"name": name}]} for name in (broken, "whole-one")]

    arms = Arms(recorder, SimpleNamespace(recorder=recorder, loader_framework=NO_FRAMEWORK), plan)  # type: ignore[arg-type]

    assert [arms.is_alive(arm) for arm in range(3)] == [True, False, True]
    assert [(note["name"], note["state"]) for note in notes] == [(broken, "failed")]


def test_none_of_the_levers_that_there_are_is_broken() -> None:
    assert broken_levers() == {}


def test_levers_that_are_there_can_change_a_loader_as_it_is_built_or_not() -> None:
    assert can_build("workers")
    assert not can_build("stub")
    assert not can_build("no-such-lever")


def test_what_counts_up_in_what_levers_measure_is_measured_by_one_of_them():
    files = (path for package in (levers, frameworks) for path in Path(package.__path__[0]).rglob("*.py") if "levers" in path.parts)
    written = "".join(path.read_text() for path in files)

    assert [name for name in sorted(COUNTERS) if f'"{name}": ' not in written] == []
