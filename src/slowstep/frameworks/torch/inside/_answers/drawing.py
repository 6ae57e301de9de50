"""Whether code draws at random, by what it names and holds: nothing of it is called."""

from __future__ import annotations

import dis
from collections.abc import Set as AbstractSet
from itertools import pairwise
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from slowstep.record.attributes import held_by
from slowstep.record.timing.line_counts import is_users

# Modules of what draws (`random`, `numpy.random`, the operating system's), by the names that a script has for them or for their functions;
# PyTorch's own, and what makes a generator. Names of functions that are words of any script's (choice, shuffle) tell nothing alone: what
# they are called of is one of these, or an object that is.
_NAMES: Final = frozenset(
    {
        *("random", "secrets", "urandom", "uuid4", "default_rng", "RandomState", "SystemRandom"),
        *("rand", "randn", "randint", "randrange", "randperm", "random_sample", "permutation", "multinomial", "bernoulli"),
        *("normal", "poisson", "rvs", "rsample"),
        *("rand_like", "randn_like", "randint_like", "random_", "uniform_", "normal_", "exponential_", "bernoulli_"),
        *("log_normal_", "cauchy_", "geometric_"),
    }
)
# A method of distributions and of tables (torch.distributions, pandas), and of many a script's own class.
_SAMPLE: Final = "sample"
# PyTorch's functions of layers that leave out values at random. A script's own code has these words for shares and switches too.
_LAYERS: Final = frozenset(
    {"dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "rrelu", "gumbel_softmax"}
)
# The share that a layer hands to one of these, or to what is written in C.
_SHARE: Final = "dropout"
# What an object is held for, whose class is a library's: its other methods may draw (a table's), and nobody asks for them.
_USES: Final = ("__iter__", "__next__", "__call__", "__getitem__", "forward")
_OF_ITSELF: Final = "self"
# Of an object that draws, its class is of one of these, and so are functions that do.
_SOURCES: Final = ("random", "secrets", "numpy.random")


def draws_by_its_names(names: AbstractSet[str]) -> bool:
    """Whether code that names these draws at random."""
    return not names.isdisjoint(_NAMES)


def asks_for_a_sample(code: CodeType) -> bool:
    """Whether code names `sample` of some object other than `self`, whose own functions are looked at."""
    return _asks_another(code, {_SAMPLE})


def _asks_another(code: CodeType, names: AbstractSet[str]) -> bool:
    """Whether code names one of these of something other than `self`."""
    if names.isdisjoint(code.co_names):
        return False
    return any(
        step.argval in names and step.opname in ("LOAD_ATTR", "LOAD_METHOD") and not _is_itself(before)
        for before, step in pairwise(dis.get_instructions(code))
    )


def _is_itself(step: dis.Instruction) -> bool:
    """Whether what an instruction leaves on top is `self`; some load two variables at once, or store one first."""
    last = step.argval[-1] if type(step.argval) is tuple else step.argval
    return last == _OF_ITSELF and any(load in step.opname for load in ("LOAD_FAST", "LOAD_DEREF"))


def draws_as_held(thing: Any) -> bool:
    """Whether a library's function or module, which is not looked into, draws at random by its name or by that of its module."""
    kind = type(thing)
    if kind is ModuleType:
        return _is_of_a_source(vars(thing).get("__name__"))
    if issubclass(kind, type) or (kind is FunctionType and is_users(thing.__code__.co_filename)):
        return False
    name = held_by(thing, "__name__")
    return (type(name) is str and (name == _SAMPLE or name in _NAMES)) or _is_of_a_source(held_by(thing, "__module__"))


def draws_when_used(kind: type) -> bool:
    """Whether objects of a class draw at random where they are iterated over, called or indexed, as samplers, augmentations and layers do:
    in the functions for that, if a library's, or in those of the class that these call.
    """
    return any(draws_by_its_names(set(code.co_names)) or _asks_another(code, _LAYERS) for code in _used(kind))


def draws_as_set(thing: Any) -> bool:
    """Whether what is called of a library's object leaves out a share at random that the object holds and is not 0, as attention and
    recurrent layers do.
    """
    share = held_by(thing, _SHARE)
    return type(share) in (int, float) and share > 0 and any(_SHARE in code.co_names for code in _used(type(thing)))


def _used(kind: type) -> list[CodeType]:
    """The code of what objects of a class are held for, and of the functions of the class that it calls: a library's."""
    known: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        known.update(vars(base))
    used = [function for name in _USES if (function := _librarys(known.get(name))) is not None]
    called = {name for function in used for name in function.__code__.co_names} & known.keys()
    used += [function for name in called if (function := _librarys(known[name])) is not None]
    return [function.__code__ for function in used]


def _librarys(value: Any) -> FunctionType | None:
    """What a class holds as a function of a library's, without looking it up there."""
    function = value.__func__ if type(value) in (staticmethod, classmethod) else value
    return function if type(function) is FunctionType and not is_users(function.__code__.co_filename) else None


def is_source(kind: type) -> bool:
    """Whether objects of a class are generators of random numbers: Python's, NumPy's, PyTorch's."""
    for base in kind.__mro__:
        module = base.__module__
        if _is_of_a_source(module) or (base.__name__ == "Generator" and str(module).startswith("torch")):
            return True
    return False


def _is_of_a_source(module: Any) -> bool:
    return type(module) is str and (module in _SOURCES or module.startswith("numpy.random."))
