"""Whether code draws at random, by what it names and holds: nothing of it is called."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Final

# Modules of what draws (`random`, `numpy.random`, the operating system's), by the names that a script has for them or for their functions;
# PyTorch's own, and what makes a generator. Names of methods that are words of any script's (sample, choice, shuffle) tell nothing alone:
# what they are called of is one of these, or an object that is.
_NAMES: Final = frozenset(
    {
        *("random", "secrets", "urandom", "uuid4", "default_rng", "RandomState", "SystemRandom"),
        *("rand", "randn", "randint", "randrange", "randperm", "random_sample", "permutation", "multinomial", "bernoulli"),
        *("rand_like", "randn_like", "randint_like", "random_", "uniform_", "normal_", "exponential_", "bernoulli_"),
    }
)
# Of an object that draws, its class is of one of these.
_SOURCES: Final = ("random", "numpy.random")


def draws_by_its_names(names: AbstractSet[str]) -> bool:
    """Whether code that names these draws at random."""
    return not names.isdisjoint(_NAMES)


def is_source(kind: type) -> bool:
    """Whether objects of a class are generators of random numbers: Python's, NumPy's, PyTorch's."""
    for base in kind.__mro__:
        module = str(base.__module__)
        if module in _SOURCES or module.startswith("numpy.random.") or (base.__name__ == "Generator" and module.startswith("torch")):
            return True
    return False
