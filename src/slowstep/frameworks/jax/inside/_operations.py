"""What a call of a jitted function runs, by what it was traced to (its jaxpr).

How many operations at most, since XLA fuses them, and what they compute.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Any, Final

from slowstep.record.steps.traced_operations import ANY, MOST_OPERATIONS, Computed, Operations, TooMany, TraceSize

# What stands for the operations within it, each of which runs once: by names of several versions.
_CALLS: Final = frozenset(
    {
        *("pjit", "jit", "closed_call", "core_call", "xla_call", "checkpoint", "remat", "remat2", "custom_lin"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    }
)
# One operation, whose own function is what is done with each two elements.
_BY_ELEMENT: Final = ("scatter", "reduce", "sort", "select_and", "cum")
# Code in Python, other kernels, what waits for others, and decompositions, of which one takes as long as thousands of other operations.
_UNKNOWN: Final = (
    *("pure_callback", "io_callback", "debug_callback", "ffi_call", "custom_call", "pallas_call", "infeed", "outfeed"),
    *("cholesky", "eig", "svd", "lu", "qr", "schur", "householder", "triangular_solve", "custom_linear_solve", "tridiagonal", "fft"),
)
_MATRICES: Final = "dot_general"
_CONVOLUTION: Final = "conv_general_dilated"
_SORTS: Final = ("sort", "top_k", "approx_top_k", "cum", "reduce_window", "select_and")
_SCATTERS: Final = ("gather", "scatter", "dynamic_", "random_", "threefry")


def size_of(traced: Any) -> TraceSize:
    """What a call of a function runs that was traced to this closed jaxpr, and the elements that it gives: nearly all of a training's are
    parameters, and the state of its optimizer. Raises TooMany, and what JAX does.
    """
    given = sum(math.prod(variable.aval.shape) for variable in traced.jaxpr.outvars)
    if sys.modules["jax"].local_device_count() > 1:
        # Devices of a processor share its cores, and each runs every operation.
        return TraceSize(ANY, given)
    found = _Counted().of(traced.jaxpr)
    return TraceSize(found.operations, given, None if found.operations.most is None else found.computed)


@dataclass(frozen=True, slots=True)
class _Ran:
    """What operations do; what they compute is all of it only where it is known how many they are."""

    operations: Operations
    computed: Computed = Computed()  # noqa: RUF009 (it is frozen)

    def __add__(self, other: _Ran) -> _Ran:
        return _Ran(self.operations + other.operations, self.computed + other.computed)


_NOTHING: Final = _Ran(Operations(0, 0))
_AT_MOST_ONE: Final = Operations(0, 1)
_RAN_ANY: Final = _Ran(ANY)


class _Counted:
    """One count; what is called twice is looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, _Ran] = {}
        self._seen = 0

    def of(self, jaxpr: Any) -> _Ran:
        """Those of a jaxpr, closed or open."""
        jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
        if id(jaxpr) not in self._known:
            self._seen += len(jaxpr.eqns)
            if self._seen > MOST_OPERATIONS:
                raise TooMany
            self._known[id(jaxpr)] = sum(map(self._one, jaxpr.eqns), _NOTHING)
        return self._known[id(jaxpr)]

    def _one(self, equation: Any) -> _Ran:
        name, parameters = equation.primitive.name, equation.params
        if name.startswith(_UNKNOWN):
            return _RAN_ANY
        inner = [] if name.startswith(_BY_ELEMENT) else _jaxprs(parameters)
        if not inner:
            return _Ran(_AT_MOST_ONE, _computed(name, equation))
        found = [self.of(each) for each in inner]
        if name == "scan":
            return _times(sum(found, _NOTHING), parameters["length"])
        if name == "cond":
            return _largest(found)
        return _Ran(_AT_MOST_ONE) + sum(found, _NOTHING) if name in _CALLS else _RAN_ANY


def _computed(name: str, equation: Any) -> Computed:
    """Of one operation that holds no others."""
    given = sum(math.prod(variable.aval.shape) for variable in equation.outvars)
    if name in (_MATRICES, _CONVOLUTION):
        products = given * _products_of_each(name, equation)
        return Computed(products=products, most_products=products)
    taken = max((math.prod(getattr(each.aval, "shape", ())) for each in equation.invars), default=0)
    if name.startswith(_SORTS):
        return Computed(sorted=max(given, taken))
    return Computed(scattered=given) if name.startswith(_SCATTERS) else Computed(given=given)


def _products_of_each(name: str, equation: Any) -> int:
    """How many products of two elements make one that it gives."""
    first, second = (variable.aval.shape for variable in equation.invars[:2])
    if name == _MATRICES:
        summed: list[int] = [first[at] for at in equation.params["dimension_numbers"][0][0]]
        return math.prod(summed)
    # The kernel's elements for each of the channels that it gives.
    channels: int = second[equation.params["dimension_numbers"].rhs_spec[0]]
    elements: int = math.prod(second)
    return elements // max(channels, 1)


def _times(turn: _Ran, count: Any) -> _Ran:
    """A length may be a symbol, of a shape that is open."""
    most = turn.operations.most
    if most is None or not isinstance(count, int):
        return _RAN_ANY
    return _Ran(Operations(0, 1 + most * count), turn.computed * count)


def _largest(branches: list[_Ran]) -> _Ran:
    most = [each.operations.most for each in branches]
    known = [each for each in most if each is not None]
    if len(known) < len(most):
        return _RAN_ANY
    return _Ran(Operations(0, 1 + max(known)), max((each.computed for each in branches), key=lambda each: each.products))


def _jaxprs(parameters: dict[str, Any]) -> list[Any]:
    """Those that an operation is made with."""
    flat = [each for value in parameters.values() for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return [each for each in flat if hasattr(getattr(each, "jaxpr", each), "eqns")]
