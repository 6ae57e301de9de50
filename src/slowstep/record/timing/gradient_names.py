"""Which functions name gradients: those of a script that updates its parameters by hand do."""

from __future__ import annotations

from types import CodeType
from typing import Final

_GRADIENTS: Final = frozenset({"grad", "grads", "gradient", "gradients"})


def names_gradients(code: CodeType) -> bool:
    """Whether a function, its comprehensions and lambdas included, names gradients (`p.grad`, `grads`), as whoever updates by hand does."""
    names = {*code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars}
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType) and constant.co_name.startswith("<"))
    return not names.isdisjoint(_GRADIENTS) or any(map(names_gradients, inner))
