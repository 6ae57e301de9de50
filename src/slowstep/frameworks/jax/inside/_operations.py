"""What a call of a jitted function runs, by what it was traced to (its jaxpr).

How many operations at most, since XLA fuses them, and what they compute.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from slowstep.record.steps.traced_operations import ANY, MOST_OPERATIONS, UNBOUNDED, Computed, Operations, TooMany, TraceSize

# What stands for the operations within it, each of which runs once: by names of several versions.
_CALLS: Final = frozenset(
    {
        *("pjit", "jit", "closed_call", "core_call", "xla_call", "checkpoint", "remat", "remat2", "custom_lin"),
        *("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr"),
    }
)
_MATRICES: Final = "dot_general"
_CONVOLUTION: Final = "conv_general_dilated"
# fmt: off
# Those that compute element by element, or move what they are given. Of an operation of another name nothing is known: it may be a kernel,
# code in Python, a decomposition.
_BY_ELEMENT: Final = frozenset((
    "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "bitcast_convert_type", "broadcast",
    "broadcast_in_dim", "cbrt", "ceil", "clamp", "clz", "complex", "concatenate", "conj", "convert_element_type", "copy", "copy_p", "cos",
    "cosh", "device_put", "div", "empty", "empty2", "eq", "eq_to", "erf", "erf_inv", "erfc", "exp", "exp2", "expand_dims", "expm1", "floor",
    "ge", "gt", "imag", "integer_pow", "iota", "is_finite", "layout_constraint", "le", "le_to", "log", "log1p", "logistic", "lt", "lt_to",
    "max", "min", "mul", "name", "ne", "neg", "nextafter", "not", "optimization_barrier", "or", "pad", "population_count", "pow", "pvary",
    "random_fold_in", "random_seed", "random_split", "random_unwrap", "random_wrap", "real", "reduce_precision", "rem", "reshape", "rev",
    "round", "rsqrt", "select_n", "sharding_constraint", "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin",
    "sinh", "slice", "split", "sqrt", "square", "squeeze", "stop_gradient", "sub", "tan", "tanh", "tile", "transpose", "xor", "zeros_like"
))
_REDUCES: Final = frozenset((
    "argmax", "argmin", "reduce", "reduce_and", "reduce_max", "reduce_min", "reduce_or", "reduce_prod", "reduce_sum", "reduce_xor"
))
_SORTS: Final = frozenset((
    "approx_top_k", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "reduce_window", "reduce_window_max", "reduce_window_min",
    "reduce_window_sum", "select_and_gather_add", "select_and_scatter", "select_and_scatter_add", "sort", "top_k"
))
# By what they give, and by what they put somewhere.
_FINDS: Final = frozenset(("dynamic_slice", "gather", "random_bits", "threefry2x32"))
_PUTS: Final = frozenset(("dynamic_update_slice", "scatter", "scatter-add", "scatter_add", "scatter-max", "scatter_max", "scatter-min",
    "scatter_min", "scatter-mul", "scatter_mul", "scatter_sub"))
# fmt: on
# What a product of two elements takes is known of these.
_KNOWN_TYPE: Final = "float32"


def size_if_small(traced: Any) -> TraceSize:
    """That of a closed jaxpr; of one that is too large only that it is there. Raises what JAX does."""
    try:
        return size_of(traced)
    except TooMany:
        return UNBOUNDED


def size_of(traced: Any) -> TraceSize:
    """What a call of a function runs that was traced to this closed jaxpr, and the elements that it is given: nearly all of a training's
    are parameters, and the state of its optimizer. Raises TooMany, and what JAX does.
    """
    given = _elements((*traced.jaxpr.invars, *traced.jaxpr.constvars))
    if given is None or sys.modules["jax"].local_device_count() > 1:
        # Devices of a processor share its cores, and each runs every operation.
        return TraceSize(ANY, given)
    found = _Counted().of(traced.jaxpr)
    return TraceSize(found.operations, given, None if found.operations.most is None else found.computed)


@dataclass(frozen=True, slots=True)
class _Ran:
    """What operations do; what they compute is None where that is not known of one of them."""

    operations: Operations
    computed: Computed | None

    def __add__(self, other: _Ran) -> _Ran:
        both = None if self.computed is None or other.computed is None else self.computed + other.computed
        return _Ran(self.operations + other.operations, both)


_NOTHING: Final = _Ran(Operations(0, 0), Computed())
_AT_MOST_ONE: Final = Operations(0, 1)
_ONE_CALL: Final = _Ran(_AT_MOST_ONE, Computed())
_RAN_ANY: Final = _Ran(ANY, None)


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
        if name in (_MATRICES, _CONVOLUTION):
            return _Ran(_AT_MOST_ONE, _multiplied(name, equation))
        given, taken = _elements(equation.outvars), _largest(equation.invars)
        if given is None or taken is None:
            return _RAN_ANY
        if (computed := _computed(name, given, taken)) is not None:
            return _Ran(_AT_MOST_ONE, computed)
        found = [self.of(each) for each in _jaxprs(parameters)]
        if name == "scan":
            return _times(sum(found, _NOTHING), parameters["length"])
        if name == "cond":
            return _of_branches(found)
        return _ONE_CALL + sum(found, _NOTHING) if name in _CALLS else _RAN_ANY


def _elements(variables: Iterable[Any]) -> int | None:
    """Of all of them together; None where the shape of one is not known, as of a token."""
    shapes = [getattr(each.aval, "shape", None) for each in variables]
    return None if None in shapes else sum(math.prod(shape) for shape in shapes if shape is not None)


def _largest(variables: Iterable[Any]) -> int | None:
    sizes = [_elements([each]) for each in variables]
    known = [each for each in sizes if each is not None]
    return max(known, default=0) if len(known) == len(sizes) else None


def _computed(name: str, given: int, taken: int) -> Computed | None:
    """Of one operation that multiplies nothing; None where it is none of those that are known."""
    if name in _BY_ELEMENT:
        return Computed(given=given)
    if name in _REDUCES:
        return Computed(given=max(given, taken))
    if name in _SORTS:
        return Computed(sorted=max(given, taken))
    if name in _FINDS:
        return Computed(scattered=given)
    return Computed(scattered=max(given, taken)) if name in _PUTS else None


def _multiplied(name: str, equation: Any) -> Computed | None:
    """Of products of matrices and convolutions; None of those that take longer for a product than others: groups, other types."""
    first, second = (variable.aval for variable in equation.invars[:2])
    parameters, given = equation.params, _elements(equation.outvars)
    if given is None or not str(first.dtype) == str(second.dtype) == _KNOWN_TYPE:
        return None
    if name == _MATRICES:
        each = math.prod(first.shape[at] for at in parameters["dimension_numbers"][0][0])
    elif parameters["feature_group_count"] > 1 or parameters["batch_group_count"] > 1:
        return None
    else:
        # The kernel's elements for each of the channels that it gives; between the elements of a gradient that is spread stand zeros.
        channels = second.shape[parameters["dimension_numbers"].rhs_spec[0]]
        each = math.prod(second.shape) // max(channels, 1) / math.prod(parameters["lhs_dilation"] or (1,))
    products = math.ceil(given * each)
    return Computed(products=products, most_products=products, given=given)


def _times(turn: _Ran, count: Any) -> _Ran:
    """A length may be a symbol, of a shape that is open."""
    most = turn.operations.most
    if most is None or not isinstance(count, int):
        return _RAN_ANY
    return _Ran(Operations(0, 1 + most * count), None if turn.computed is None else turn.computed * count)


def _of_branches(branches: list[_Ran]) -> _Ran:
    """Of one of them, whichever it is: the most of each, but of all that is multiplied the least."""
    most = [each.operations.most for each in branches]
    known = [each for each in most if each is not None]
    if len(known) < len(most):
        return _RAN_ANY
    computed = [each.computed for each in branches]
    both = None if None in computed else Computed.of_one([each for each in computed if each is not None])
    return _Ran(Operations(0, 1 + max(known, default=0)), both)


def _jaxprs(parameters: dict[str, Any]) -> list[Any]:
    """Those that an operation is made with."""
    flat = [each for value in parameters.values() for each in (value if isinstance(value, (tuple, list)) else (value,))]
    return [each for each in flat if hasattr(getattr(each, "jaxpr", each), "eqns")]
