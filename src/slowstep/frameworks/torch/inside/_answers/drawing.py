"""Whether code draws at random, by what it names and holds: nothing of it is called."""

from __future__ import annotations

import dis
from collections.abc import Set as AbstractSet
from itertools import pairwise
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Final

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
_OF_ITSELF: Final = "self"
# Of an object that draws, its class is of one of these.
_SOURCES: Final = ("random", "numpy.random")


def draws_by_its_names(names: AbstractSet[str]) -> bool:
    """Whether code that names these draws at random."""
    return not names.isdisjoint(_NAMES)


def asks_for_a_sample(code: CodeType) -> bool:
    """Whether code names `sample` of some object other than `self`, whose own functions are looked at."""
    if _SAMPLE not in code.co_names:
        return False
    return any(
        step.argval == _SAMPLE and step.opname in ("LOAD_ATTR", "LOAD_METHOD") and not _is_itself(before)
        for before, step in pairwise(dis.get_instructions(code))
    )


def _is_itself(step: dis.Instruction) -> bool:
    """Whether what an instruction leaves on top is `self`; some load two variables at once, or store one first."""
    last = step.argval[-1] if type(step.argval) is tuple else step.argval
    return last == _OF_ITSELF and any(load in step.opname for load in ("LOAD_FAST", "LOAD_DEREF"))


def is_drawing_call(called: MethodType | BuiltinFunctionType) -> bool:
    """Whether a function of a library's, which is not looked into, draws at random by its name: one written in C, or a bound method."""
    function = called.__func__ if type(called) is MethodType else called
    if type(function) is FunctionType and is_users(function.__code__.co_filename):
        return False
    name = held_by(function, "__name__")
    return name == _SAMPLE or name in _NAMES


def is_source(kind: type) -> bool:
    """Whether objects of a class are generators of random numbers: Python's, NumPy's, PyTorch's."""
    for base in kind.__mro__:
        module = str(base.__module__)
        if module in _SOURCES or module.startswith("numpy.random.") or (base.__name__ == "Generator" and module.startswith("torch")):
            return True
    return False
