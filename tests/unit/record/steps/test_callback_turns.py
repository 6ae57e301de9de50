"""A list of callbacks that is walked through, whatever becomes of the recording of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from slowstep.record.steps.callback_turns import CallbackTurns
from slowstep.record.steps.named_spans import place_of_method


class Refusing:
    """A callback that will not be looked at."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_each_callback_is_told_when_its_turn_has_ended() -> None:
    ended: list[Any] = []
    turns = CallbackTurns(SimpleNamespace(fault=ended.append), SimpleNamespace(callbacks=[1, 2]), lambda each, _: ended.append(each))  # type: ignore[arg-type]

    walked = [(each, list(ended)) for each in turns.callbacks]

    assert (walked, ended) == ([(1, []), (2, [1])], [1, 2])


def test_what_fails_in_telling_is_counted_and_every_callback_has_its_turn() -> None:
    faults: list[Exception] = []
    turns = CallbackTurns(SimpleNamespace(fault=faults.append), SimpleNamespace(callbacks=[1, 2]), lambda each, _: {}[each])  # type: ignore[arg-type]

    walked = list(turns.callbacks)

    assert (walked, [type(fault) for fault in faults]) == ([1, 2], [KeyError, KeyError])


def test_all_else_is_the_lists_own() -> None:
    handler = SimpleNamespace(callbacks=[], logs=3)
    turns = CallbackTurns(SimpleNamespace(), handler, lambda *_: None)  # type: ignore[arg-type]

    turns.told = turns.logs + 1

    assert (handler.told, vars(handler).keys()) == (4, {"callbacks", "logs", "told"})


def test_the_place_of_what_will_not_be_looked_at_is_not_known() -> None:
    assert place_of_method(Refusing(), "on_log") == (None, 0)
    assert place_of_method(SimpleNamespace(on_log=test_all_else_is_the_lists_own), "on_log")[0] == __file__
