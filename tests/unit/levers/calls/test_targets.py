"""What MODULE:FUNCTION names, and what is refused."""

from __future__ import annotations

import functools
import math
import sys
import types
from typing import Any

import numpy as np
import pytest

from set_aside import all_set_aside
from slowstep.levers._calls.functions import redirected
from slowstep.levers._calls.holders import Holders
from slowstep.levers._calls.targets import find_functions, known_function
from slowstep.record import living
from slowstep.record.experiment.lever import LeverSpec, NotApplicable

SOURCE = """
import functools, contextlib, math
from json import dumps

def plot(x):
    return x

def outer():
    def inner():
        return "inner"
    return inner

inner = outer()

class Net:
    size = 3
    def forward(self, x):
        return x
    @staticmethod
    def static(x):
        return x
    @classmethod
    def made(cls):
        return cls
    @property
    def width(self):
        return 5
    @functools.cached_property
    def depth(self):
        return 6
    @functools.cache
    def asked(self):
        return 7

class Tool:
    def __call__(self, x):
        return x
    @functools.cache
    def inner(self):
        return 8
    bound = property(inner)
    alone = staticmethod(functools.cache(plot))

class Tools(Tool):
    pass

tool = Tools()

class Wide(Net):
    pass

net = Net()
net.transform = plot

@functools.lru_cache
def cached(x):
    return x

def batches():
    yield 1

async def fetch():
    return 1

@contextlib.contextmanager
def timed():
    yield

@functools.wraps(plot)
def wrapped(x):
    return plot(x)

partial = functools.partial(plot, 1)
partial_of_cached = functools.partial(cached, 1)
partial_of_method = functools.partial(net.forward, 1)
partial_of_local = functools.partial(inner)
partial_of_built_in = functools.partial(math.sqrt, 1)
partial_of_unnamed = functools.partial(lambda x: x)
cached_built_in = functools.cache(math.sqrt)

@functools.cache
def cached_batches():
    yield 1
"""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script's `__main__`, which is the file train.py."""
    main = types.ModuleType("__main__")
    main.__file__ = "/somewhere/train.py"
    exec(compile(SOURCE, "train.py", "exec"), vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    return main


@pytest.mark.parametrize("is_copy", [False, True])
def test_what_two_modules_hold_is_found_once(script: Any, monkeypatch: pytest.MonkeyPatch, is_copy: bool) -> None:
    script.sqrt = math.sqrt
    # `__mp_main__` is `__main__` itself; in a spawned worker it is another module, of the script's file too.
    monkeypatch.setitem(sys.modules, "__mp_main__", types.ModuleType("__mp_main__") if is_copy else script)
    vars(sys.modules["__mp_main__"]).update(vars(script))

    for path in ("plot", "Net.forward", "Wide.forward", "dumps", "sqrt"):
        assert len(find_functions(f"train:{path}")) == 1


@pytest.mark.parametrize("name", ["__main__", "train"])
def test_a_script_goes_by_main_and_by_its_files_name(script: Any, name: str) -> None:
    assert find_functions(f"{name}:plot") == [script.plot]


def test_a_script_that_is_imported_as_well_has_both_functions_named(script: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    again = types.ModuleType("train")
    exec(SOURCE, vars(again))
    monkeypatch.setitem(sys.modules, "train", again)

    assert find_functions("train:plot") == [script.plot, again.plot]
    assert find_functions("__main__:plot") == [script.plot]


def test_a_module_that_is_run_by_its_name_goes_by_that_name(script: Any) -> None:
    script.__spec__ = types.SimpleNamespace(name="package.train.__main__")

    assert find_functions("package.train:plot") == [script.plot]


@pytest.mark.parametrize("path", ["Net.forward", "Net.static", "Net.made", "Net.width", "Net.depth", "Net.asked", "cached"])
def test_methods_of_every_kind_are_found_as_functions(script: Any, path: str) -> None:
    (found,) = find_functions(f"train:{path}")

    assert isinstance(found, types.FunctionType)
    assert found.__qualname__ == path


def test_an_inherited_method_is_replaced_in_the_named_class_only(script: Any) -> None:
    spec = LeverSpec(name="stub", value="train:Wide.forward")
    wide, net = script.Wide(), script.Net()
    function = redirected(spec)

    function.switch(watching=True, on=False)
    assert (wide.forward(1), net.forward(2)) == (1, 2)
    function.switch(watching=False, on=True)
    results = wide.forward(8), net.forward(9)
    function.switch(watching=False, on=False)

    assert results == (1, 9)
    assert "forward" not in vars(script.Wide)
    assert function.answer.replaced == 1


@pytest.mark.parametrize(
    ("path", "use", "own", "others"),
    [
        ("static", lambda net: net.static(3), 3, 3),
        ("made", lambda net: net.made().__name__, "Wide", "Net"),
        ("width", lambda net: net.width, 5, 5),
        ("depth", lambda net: net.depth, 6, 6),
    ],
)
def test_what_a_class_inherits_is_kept_as_what_it_is(script: Any, path: str, use: Any, own: Any, others: Any) -> None:
    function = redirected(LeverSpec(name="stub", value=f"train:Wide.{path}"))

    function.switch(watching=True, on=False)
    watched = use(script.Wide())
    function.switch(watching=False, on=True)
    answered = use(script.Wide())
    replaced, other = function.answer.replaced, use(script.Net())
    function.switch(watching=False, on=False)

    assert (watched, answered, other) == (own, own, others)
    assert (replaced, function.answer.replaced) == (1, 1)
    assert path not in vars(script.Wide)


def test_below_a_cache_a_function_is_left_out_where_nothing_is_kept(script: Any) -> None:
    function = redirected(LeverSpec(name="stub", value="train:cached"))

    function.switch(watching=True, on=False)
    first = script.cached(1)
    function.switch(watching=False, on=True)
    again, other = script.cached(1), script.cached(2)
    function.switch(watching=False, on=False)

    assert (first, again, other, script.cached(3)) == (1, 1, 1, 3)
    assert (function.answer.calls, function.answer.replaced) == (2, 1)


def test_a_property_that_is_kept_is_left_out_where_it_is_made(script: Any) -> None:
    function = redirected(LeverSpec(name="stub", value="train:Net.depth"))

    function.switch(watching=True, on=False)
    assert script.Net().depth == 6
    function.switch(watching=False, on=True)
    assert script.Net().depth == 6
    function.switch(watching=False, on=False)

    assert function.answer.replaced == 1


def test_what_takes_a_functions_place_keeps_its_cache(script: Any) -> None:
    # Its misses call the function in whose place it is.
    script.kept = functools.cache(script.plot)
    function = redirected(LeverSpec(name="swap", value="train:plot=train:kept"))

    function.switch(watching=False, on=True)
    results = [script.plot(5) for _ in range(3)]
    function.switch(watching=False, on=False)

    assert results == [5, 5, 5]
    assert script.kept.cache_info()[:2] == (2, 1)


def test_functions_made_inside_another_are_found_by_their_qualified_name(script: Any) -> None:
    more = script.outer()

    found = find_functions("train:outer.<locals>.inner")

    assert len(found) == 2
    assert all(any(f is known for known in (script.inner, more)) for f in found)


def test_functions_made_inside_another_are_found_after_gc_freeze(script: Any) -> None:
    with all_set_aside():
        assert find_functions("train:outer.<locals>.inner") == [script.inner]


def test_what_gc_freeze_may_hide_is_not_said_to_be_missing(script: Any) -> None:
    hidden = script.outer()
    del script.inner, script.partial_of_local

    with all_set_aside(), pytest.raises(NotApplicable, match=r"gc\.freeze"):
        find_functions("train:outer.<locals>.inner")
    assert find_functions("train:outer.<locals>.inner") == [hidden]
    with pytest.raises(NotApplicable, match=r"has no outer.<locals>.other$"):
        find_functions("train:outer.<locals>.other")


@pytest.mark.parametrize("name", ["outer.<locals>.inner", "math.isqrt", "isqrt"])
def test_what_takes_too_long_to_find_after_gc_freeze_is_not_applicable(script: Any, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(script, "isqrt", math.isqrt, raising=False)
    monkeypatch.setattr(living, "_MOST", 0)

    with all_set_aside(), pytest.raises(NotApplicable, match=r"gc\.freeze.*too many objects"):
        find_functions(f"train:{name}")


def test_a_built_in_function_is_looked_for_once_though_two_copies_of_the_script_hold_it(
    script: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[object] = []
    monkeypatch.setattr(living, "_reached", lambda ends_s, search=living._reached: searches.append(None) or search(ends_s))
    copy = types.ModuleType("__mp_main__")
    vars(copy).update(math=math, __file__=script.__file__)
    monkeypatch.setitem(sys.modules, "__mp_main__", copy)
    script.table = {"__module__": "train", "root": math.isqrt}

    with all_set_aside():
        find_functions("train:math.isqrt")

    assert len(searches) == 1


def test_a_hook_of_ours_stays_around_the_function_that_it_records(script: Any) -> None:
    original = script.plot
    hooked = functools.wraps(original)(lambda x: original(x))
    code = hooked.__code__.replace(co_filename=Holders.__init__.__code__.co_filename)
    script.plot = types.FunctionType(code, {}, "plot", None, hooked.__closure__)
    script.plot.__wrapped__ = original

    assert find_functions("train:plot") == [original]


@pytest.mark.parametrize("text", ["json:loads", "numpy:mean", "numpy:add"])
def test_functions_of_libraries_are_found(text: str) -> None:
    import json

    assert len(find_functions(text)) == 1
    assert find_functions("json:loads") == [json.loads]


def test_built_in_functions_are_replaced_by_name(script: Any) -> None:
    (found,) = find_functions("math:isqrt")

    assert isinstance(found, Holders)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nowhere:plot", "no module nowhere has been imported"),
        ("train:missing", "train has no missing"),
        ("train:Net.missing", "train has no Net.missing"),
        ("train:missing.forward", "train has no missing.forward"),
        ("train:Tools", "train:Tools is a class: name a method of it, such as train:Tools.__call__"),
        ("train:Net", "train:Net is a class: name a method of it"),
        ("train:Net.__call__", "train has no Net.__call__"),
        ("train:tool", "is an object of __main__:Tools: name a function, such as __main__:Tools.__call__"),
        ("train:net", "is an object of __main__:Net: name a function"),
        ("train:Net.size", "is an object of builtins:int: name a function"),
        ("train:math", "is a module"),
        ("train:batches", "is a generator or a coroutine"),
        ("train:fetch", "is a generator or a coroutine"),
        ("train:timed", "is a generator or a coroutine: its work is done bit by bit, not when it is called; name a function that it calls"),
        ("train:cached_batches", "is a generator or a coroutine"),
        ("train:partial", "is an object of functools:partial: name the function that it calls, __main__:plot"),
        ("train:partial_of_cached", "name the function that it calls, __main__:cached"),
        ("train:partial_of_method", "name the function that it calls, __main__:Net.forward"),
        ("train:partial_of_local", "name the function that it calls, __main__:outer.<locals>.inner"),
        ("train:partial_of_built_in", "is an object of functools:partial: name a function that it calls, or one that calls it"),
        ("train:partial_of_unnamed", "name a function that it calls, or one that calls it"),
        ("train:cached_built_in", "is an object of functools:_lru_cache_wrapper: name a function that it calls, or one that calls it"),
        ("functools:cached_property.__call__", "functools has no cached_property.__call__"),
        ("train:Wide.asked", "train:Wide.asked is inherited: name that of __main__:Net"),
        ("train:Tools.bound", "is inherited: name that of __main__:Tool"),
        ("train:Tools.alone", "is inherited: name that of __main__:Tool"),
        ("builtins:list.append", "cannot be replaced: builtins.list is written in C"),
    ],
)
def test_what_cannot_be_replaced_is_refused_with_the_reason(script: Any, text: str, reason: str) -> None:
    with pytest.raises(NotApplicable) as refused:
        find_functions(text)

    assert reason in str(refused.value)


@pytest.mark.parametrize("text", ["", "plot", ":plot", "train:", "train: plot"])
def test_a_text_that_names_nothing_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is no MODULE:FUNCTION"):
        find_functions(text)


@pytest.mark.slow
@pytest.mark.parametrize("text", ["torch.optim.sgd:SGD.step", "torch.autograd:backward"])
def test_what_the_training_does_not_go_on_without_is_refused(text: str) -> None:
    import torch  # noqa: F401

    with pytest.raises(NotApplicable, match="does not go on without"):
        redirected(LeverSpec(name="stub", value=text))


def test_a_function_that_the_training_runs_in_is_refused(script: Any) -> None:
    def loop() -> Any:
        script.loop = loop
        return redirected(LeverSpec(name="stub", value="train:loop"))

    with pytest.raises(NotApplicable, match="a step of the training ends inside train:loop: name a function that it calls"):
        loop()


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stub", "train:plot=train:plot", "takes one"),
        ("swap", "train:plot=train:plot", "twice"),
        ("swap", "train:cached=__main__:cached", "twice"),
        ("swap", "train:plot", "is missing"),
    ],
)
def test_a_value_that_cannot_be_meant_is_an_error(script: Any, name: str, value: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        redirected(LeverSpec(name=name, value=value))


def test_a_library_that_is_not_imported_has_no_known_function() -> None:
    assert known_function("not_imported_at_all", "f") is None
    assert known_function("json", "missing") is None
    assert known_function("numpy", "ndarray") is None
    assert np is not None
