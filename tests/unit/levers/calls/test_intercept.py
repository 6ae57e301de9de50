"""Calls that are handled by somebody else: who is reached, what stays the same object, and that nothing is left."""

from __future__ import annotations

import builtins
import functools
import json
import math
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from set_aside import all_set_aside
from slowstep.levers._calls.holders import Holders
from slowstep.levers._calls.intercept import intercept, is_running, release_all
from slowstep.record.steps import spans
from slowstep.record.timing.stacks import Sampler
from slowstep.record.timing.tracebacks import PACKAGE
from slowstep.record.writing.notes import NoteWriter

Aside = Callable[[], AbstractContextManager[None]]


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    yield
    release_all()


def plain(a: int, b: int = 2, *rest: int, c: int = 3, **more: int) -> tuple[Any, ...]:
    return a, b, rest, c, more


def swapped(call: Any, args: Any, kwargs: Any) -> Any:
    return "handled", args, kwargs


def passing(seen: list[Any]) -> Callable[..., Any]:
    def handler(call: Any, args: Any, kwargs: Any) -> Any:
        seen.append(args)
        return call(*args, **kwargs)

    return handler


def everything(function: types.FunctionType) -> tuple[Any, ...]:
    state = function.__code__, function.__defaults__, function.__kwdefaults__, function.__closure__, function.__globals__
    return *state, dict(function.__dict__), function.__name__, function.__qualname__, function.__doc__, function.__module__


def test_every_call_goes_to_the_handler_and_afterwards_to_the_function_again() -> None:
    before = everything(plain)

    undo = intercept(plain, swapped)
    handled = plain(1, c=5)
    undo()

    assert handled == ("handled", (1,), {"c": 5})
    assert plain(1) == (1, 2, (), 3, {})
    assert all(a is b or a == b for a, b in zip(everything(plain), before, strict=True))
    assert plain.__code__ is before[0]
    assert plain.__kwdefaults__ is before[2]


def test_a_handler_may_call_the_function_itself_with_its_defaults_and_its_closure() -> None:
    seen: list[Any] = []
    outer = "kept"

    def closed(a: int, b: int = 7, *, c: int = 8) -> tuple[Any, ...]:
        return a, b, c, outer, len(seen)

    undo = intercept(closed, passing(seen))

    assert closed(1) == (1, 7, 8, "kept", 1)
    undo()
    assert closed(1) == (1, 7, 8, "kept", 1)


@pytest.mark.parametrize("free", range(4))
def test_closures_of_any_size_are_handled(free: int) -> None:
    names = [f"v{number}" for number in range(free)]
    made: dict[str, Any] = {}
    lines = [f"def make({', '.join(names)}):", " def f(x):", f"  return (x, {', '.join(names)})", " return f"]
    exec("\n".join(lines), made)
    function = made["make"](*range(free))

    undo = intercept(function, swapped)
    assert function(9) == ("handled", (9,), {})
    undo()

    assert function(9) == (9, *range(free))


class Base:
    scale = 2

    def method(self, x: int) -> int:
        return self.scale * x

    @staticmethod
    def static(x: int) -> int:
        return x

    @classmethod
    def made(cls, x: int) -> tuple[str, int]:
        return cls.__name__, x

    @property
    def double(self) -> int:
        return 2 * self.scale


class Derived(Base):
    scale = 3

    def method(self, x: int) -> int:
        return 10 * super().method(x)


def test_all_who_hold_the_function_are_reached() -> None:
    seen: list[Any] = []
    bound, partial, held, local = Base().method, functools.partial(plain, 1), [plain], plain
    undos = [intercept(Base.method, passing(seen)), intercept(plain, passing(seen))]

    results = bound(1), Derived().method(1), partial(), held[0](4), local(5), list(map(plain, [6]))

    assert results[:2] == (2, 30)
    assert [args[-1] for args in seen] == [1, 1, 1, 4, 5, 6]
    for undo in undos:
        undo()
    assert plain(1) == (1, 2, (), 3, {})
    assert len(seen) == 6


def test_a_loop_that_is_hot_already_is_reached_and_let_go_again() -> None:
    seen: list[int] = []
    undo = None
    for number in range(3000):
        plain(number)
        if number == 1000:
            undo = intercept(plain, lambda call, args, kwargs: seen.append(args[0]))
        if number == 2000:
            assert undo is not None
            undo()

    assert seen == list(range(1001, 2001))


def test_handlers_of_one_function_are_undone_in_any_order() -> None:
    code = plain.__code__
    seen: list[Any] = []
    first = intercept(plain, passing(seen))
    second = intercept(plain, swapped)

    assert plain(1)[0] == "handled"
    first()
    assert plain(1)[0] == "handled"
    second()

    assert plain.__code__ is code
    assert seen == []


def test_undoing_twice_does_nothing_more() -> None:
    seen: list[Any] = []
    first = intercept(plain, passing(seen))
    first()
    second = intercept(plain, swapped)
    first()

    assert plain(1)[0] == "handled"
    second()
    assert plain(1) == (1, 2, (), 3, {})


def test_what_a_function_raises_passes_through() -> None:
    def fails() -> None:
        raise KeyError("mine")

    intercept(fails, passing([]))

    with pytest.raises(KeyError, match="mine"):
        fails()


def test_a_function_that_is_on_the_stack_is_known_to_be_running() -> None:
    answers = []

    def inner() -> None:
        answers.append(is_running(outer))

    def outer() -> None:
        inner()

    outer()
    inner()
    undo = intercept(outer, passing([]))
    outer()
    undo()

    assert answers == [True, False, True]


def test_in_a_forked_child_all_functions_are_as_they_were() -> None:
    code = plain.__code__
    intercept(plain, swapped)

    release_all()

    assert plain.__code__ is code


@pytest.mark.parametrize("aside", [nullcontext, all_set_aside])
def test_a_built_in_function_is_replaced_in_modules_lists_and_dictionaries(monkeypatch: pytest.MonkeyPatch, aside: Aside) -> None:
    module = types.ModuleType("of_the_script")
    module.root = math.isqrt  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "of_the_script", module)
    transforms, table, out_of_reach = [math.isqrt, abs], {"root": math.isqrt}, (math.isqrt,)
    module.held = transforms, table  # type: ignore[attr-defined]
    original = math.isqrt
    with aside():
        holders = Holders(math, "isqrt", math.isqrt)

    undo = intercept(holders, swapped)
    results = math.isqrt(4), module.root(4), transforms[0](4), table["root"](4), out_of_reach[0](4)
    undo()

    assert results == (*(("handled", (4,), {}),) * 4, 2)
    assert math.isqrt is module.root is transforms[0] is table["root"] is original


def test_a_built_in_method_of_a_class_is_replaced_by_its_name_there() -> None:
    class Numbers(list[int]):
        pass

    undo = intercept(Holders(Numbers, "count", list.count), lambda call, args, kwargs: call(*args) + 100)
    replaced = Numbers([1, 1]).count(1)
    undo()

    assert replaced == 102
    assert "count" not in vars(Numbers)
    assert Numbers([1]).count(1) == 1


@pytest.mark.parametrize("aside", [nullcontext, all_set_aside])
def test_the_names_of_a_class_are_not_written_to(aside: Aside) -> None:
    class Tools:
        root = math.isqrt

    with aside():
        undo = intercept(Holders(math, "isqrt", math.isqrt), swapped)
    replaced = math.isqrt(4), Tools.root(4)
    undo()

    assert replaced == (("handled", (4,), {}), 2)


def test_a_built_in_function_that_a_class_holds_is_not_made_a_method() -> None:
    class Tools:
        root = math.isqrt

    before = vars(Tools)["root"]
    undo = intercept(Holders(Tools, "root", math.isqrt), lambda call, args, kwargs: call(*args) + 1)
    replaced = Tools().root(9)
    undo()

    assert replaced == 4
    assert vars(Tools)["root"] is before


def test_a_class_written_in_c_cannot_be_changed() -> None:
    with pytest.raises(TypeError, match="list is written in C"):
        Holders(list, "count", list.count)


def test_classes_that_hold_a_built_in_function_are_left_alone() -> None:
    class Tools:
        root = math.isqrt

    original = math.isqrt
    undo = intercept(Holders(math, "isqrt", math.isqrt), swapped)
    assert math.isqrt is not original
    assert vars(Tools)["root"] is original
    undo()

    assert math.isqrt is original


def counted(seen: list[Any]) -> Callable[..., Any]:
    def handler(call: Any, args: Any, kwargs: Any) -> Any:
        seen.append(args)
        return "answered"

    return handler


def test_what_slowstep_calls_for_itself_reaches_the_function(tmp_path: Path) -> None:
    seen: list[Any] = []
    notes = NoteWriter(str(tmp_path / "1.jsonl"))
    intercept(json.dumps, counted(seen))

    notes.write({"kind": "frame", "id": 1})
    notes.close()

    assert json.dumps([1]) == "answered"
    assert seen == [([1],)]
    assert (tmp_path / "1.jsonl").read_text() == '{"kind":"frame","id":1}\n'


def test_what_the_library_calls_for_slowstep_reaches_the_function_and_what_it_calls_for_the_script_does_not(tmp_path: Path) -> None:
    seen: list[Any] = []
    notes = NoteWriter(str(tmp_path / "1.jsonl"))
    # json.dumps makes an encoder, whose method it calls.
    intercept(json.JSONEncoder.encode, counted(seen))

    notes.write({"kind": "frame", "id": 1})
    notes.close()

    assert json.dumps([1], indent=1) == "answered"
    assert len(seen) == 1
    assert (tmp_path / "1.jsonl").read_text() == '{"kind":"frame","id":1}\n'


def test_slowsteps_own_threads_sleep_though_the_script_does_not() -> None:
    seen: list[Any] = []
    quiet: dict[str, Any] = {"event": print, "note": print, "watched": {}, "chores": print, "fault": pytest.fail, "takes_stacks": True}
    sampler = Sampler(**quiet)
    intercept(Holders(time, "sleep", time.sleep), counted(seen))

    began_ns = time.monotonic_ns()
    sampler._wait_until(began_ns + 20_000_000)
    waited_ns = time.monotonic_ns() - began_ns

    assert time.sleep(1) == "answered"  # type: ignore[func-returns-value]
    assert seen == [(1,)]
    assert waited_ns >= 20_000_000


def test_a_name_that_a_module_of_slowsteps_has_imported_stays_its_own() -> None:
    original = spans.thread_time_ns

    intercept(Holders(time, "thread_time_ns", time.thread_time_ns), swapped)

    assert time.thread_time_ns is not original
    assert spans.thread_time_ns is original


def of_slowsteps(source: str) -> dict[str, Any]:
    """What such code of slowstep's defines."""
    made: dict[str, Any] = {}
    exec(compile(source, f"{PACKAGE}record/hooks/made.py", "exec"), made)
    return made


def test_what_a_hook_passes_on_is_the_scripts_and_what_it_calls_beside_is_slowsteps() -> None:
    seen: list[Any] = []
    # Its code has the name of what it has replaced for something of its own, as torch_backward's has.
    hook = "def wrap(original):\n def hooked(me, *args):\n  me.dumps = me.dumps or json.dumps(1)\n  return original(*args)\n return hooked"
    hooked, state = of_slowsteps("import json\n" + hook)["wrap"](json.dumps), types.SimpleNamespace(dumps=None)
    other = of_slowsteps("import json\n" + hook)["wrap"](lambda x: x)
    intercept(json.dumps, counted(seen))

    answered = hooked(types.SimpleNamespace(dumps="own"), [1])
    passed_on = other(state, 5)

    assert (answered, passed_on, state.dumps) == ("answered", 5, "1")
    assert seen == [([1],)]


def test_a_function_that_slowstep_was_given_is_called_for_the_script() -> None:
    seen: list[Any] = []
    intercept(json.dumps, counted(seen))

    assert of_slowsteps("def call(function, *args): return function(*args)")["call"](json.dumps, 3) == "answered"
    assert seen == [(3,)]


def test_what_a_handler_calls_on_the_scripts_behalf_is_the_scripts() -> None:
    seen: list[Any] = []
    intercept(json.JSONEncoder.encode, counted(seen))
    intercept(json.dumps, passing([]))

    assert json.dumps([1], indent=1) == "answered"
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("name", "call"), [("isinstance", lambda: isinstance(1, int)), ("len", lambda: len("a")), ("hasattr", lambda: hasattr(1, "real"))]
)
def test_a_function_that_slowstep_is_made_of_can_be_handled(name: str, call: Callable[[], int]) -> None:
    seen: list[Any] = []
    original = getattr(builtins, name)
    undo = intercept(Holders(builtins, name, original), passing(seen))

    result = call()
    undo()

    assert result == 1
    assert len(seen) == 1
    assert getattr(builtins, name) is original
