"""What one call of a model's computes, in which time, and what all else of the model gets out of the same time.

Only of what surely is one operation of the backward graph: of the kind that is called, the only one (or the only ones of one work) whose
backward takes as long as what other layers leave of it, or longer than all of theirs could.
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.forward_line import ForwardCall
from slowstep.analyses.compute.products import Multiplying, PassProducts, WhyUnknown, kind_of
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.compute.one_call import HeldByCall
from slowstep.findings import Evidence
from slowstep.units import format_rate, format_share

# A product of two elements is multiplied and added.
FLOP_PER_PRODUCT = 2
# Of 32-bit floats: no others are looked at.
BYTES_PER_ELEMENT = 4
# A backward that was timed a few times may take so much less than it does on average, beside others on the machine, and be the one.
TIMED_LESS = 0.5
# What is left of the time is told of as such from here on; less may be what stacks do not tell.
LEAST_REST = 0.02

WHY_UNKNOWN = {
    WhyUnknown.NOT_LOOKED: "no backward pass was looked at for it: compiled code, a large graph, few steps, or an older version",
    WhyUnknown.RANKS: "backward waits for other ranks, too",
    WhyUnknown.CALLS_PYTHON: "backward may run Python code, too: hooks, functions of its own, or a forward that is computed again",
    WhyUnknown.PASSES_DIFFER: "backward passes are of several sizes",
}
OTHER_KIND = "it is no convolution, product of matrices or attention of the library's by name"
NO_BACKWARD = "it may have no gradient, and then is in no graph"
NO_NODE = "no operation of its kind in the graph takes as long in backward"
SEVERAL = "several operations of its kind in the graph may be it"
NO_SHAPES = "the graph does not show its shapes, or its numbers are of another type"
REST_UNKNOWN = "not all other operations are known: {names}"
SHAPES_UNKNOWN = "the shapes of others are not known"
NO_REST = "nearly no time is left for the rest"
NO_OTHER = "no other operation multiplies"
MAY_BE_SEVERAL = "the line may call several operations"
UNIT, RATE = "GFLOP per step", "GFLOP/s"


@dataclass(frozen=True, kw_only=True, slots=True)
class Arithmetic:
    """Of one call, a step: floating-point operations forward and backward, bytes that both move at least, its share of all that the graph
    multiplies (None where others are unknown), and operations in a second of its time and of the rest's (None: `rest_unknown` says why).

    `kernel`: the lengths of a convolution's, and `kernel_elements` how many it has by the places that it steps by (None: not known).
    """

    forward: float
    backward: float
    moved: float | None
    share: float | None
    rate: float
    rest_rate: float | None
    rest_unknown: str | None
    kernel: tuple[int, ...]
    kernel_elements: float | None


def arithmetic_of(m: Measurements, call: ForwardCall, held: HeldByCall) -> Arithmetic | str:
    """Of the call that holds this; why it is not known, in words, where that is so."""
    found = m.compute.products
    if isinstance(found, WhyUnknown):
        return WHY_UNKNOWN[found]
    operation = _operation(m, found, call, held)
    if isinstance(operation, str):
        return operation
    if operation.products is None or operation.backward is None:
        return NO_SHAPES
    passes, step_s = max(m.trainer.backwards_per_step, 1.0), float(m.step_ns.mean()) / 1e9
    forward, backward = (FLOP_PER_PRODUCT * passes * products for products in (operation.products, operation.backward))
    moved = None if operation.moved is None or operation.moved_back is None else operation.moved + operation.moved_back
    whole, own = found.all_products, operation.products + operation.backward
    rest_unknown = _why_no_rest(found, own, held)
    return Arithmetic(
        forward=forward,
        backward=backward,
        moved=None if moved is None else BYTES_PER_ELEMENT * passes * moved,
        share=None if not whole else own / whole,
        rate=(forward + backward) / (held.share * step_s),
        rest_rate=None if whole is None or rest_unknown else FLOP_PER_PRODUCT * passes * (whole - own) / (held.rest * step_s),
        rest_unknown=rest_unknown,
        kernel=operation.kernel,
        kernel_elements=operation.kernel_elements,
    )


def _operation(m: Measurements, found: PassProducts, call: ForwardCall, held: HeldByCall) -> Multiplying | str:
    """The operation of the graph that the call surely is; why none is, where that is so."""
    kind = kind_of(call.operation or (call.name or "").rpartition(".")[2])
    if kind is None:
        return OTHER_KIND
    if not held.has_backward:
        return NO_BACKWARD
    # With few stacks it is no more than expected that it has a gradient: then it is what takes longer than all others could.
    is_sure = held.backward_low > 0
    least = TIMED_LESS * held.backward_low if is_sure else held.others_high
    least_ns = least * float(m.step_ns.mean()) / max(m.trainer.backwards_per_step, 1.0)
    may_be = [each for each in found.operations if each.kind == kind and (each.longest_ns is None or each.longest_ns >= least_ns)]
    if len(may_be) == 1 and (is_sure or may_be[0].longest_ns is not None):
        return may_be[0]
    return SEVERAL if may_be else NO_NODE if is_sure else NO_BACKWARD


def _why_no_rest(found: PassProducts, own: int, held: HeldByCall) -> str | None:
    """Beside an operation of so many products."""
    if found.unknown:
        return REST_UNKNOWN.format(names=", ".join(found.unknown))
    if found.all_products is None:
        return SHAPES_UNKNOWN
    if found.all_products == own:
        return NO_OTHER
    return NO_REST if held.rest < LEAST_REST else None


def arithmetic_rows(told: Arithmetic | str) -> tuple[Evidence, ...]:
    """As evidence of a finding."""
    if isinstance(told, str):
        return (Evidence(name="its arithmetic", value=None, unit=UNIT, where=told),)
    share = () if told.share is None else (Evidence(name="its share of the arithmetic", value=told.share, unit="share of the graph's"),)
    moved = () if told.moved is None else (Evidence(name="it moves at least", value=told.moved / 1e6, unit="MB per step"),)
    rest = None if told.rest_rate is None else told.rest_rate / 1e9
    return (
        Evidence(name="it computes", value=told.rate / 1e9, unit=RATE),
        Evidence(name="the rest of the model computes", value=rest, unit=RATE, where=told.rest_unknown),
        *share,
        Evidence(name="its arithmetic forward", value=told.forward / 1e9, unit=UNIT),
        Evidence(name="its arithmetic backward", value=told.backward / 1e9, unit=UNIT),
        *moved,
    )


def in_title(told: Arithmetic | str) -> str:
    """What a title says of it behind the share of the time; nothing where it is not known."""
    if isinstance(told, str):
        return ""
    share = "" if told.share is None else f" for {format_share(told.share)} of the arithmetic"
    rest = "" if told.rest_rate is None else f", the rest {format_rate(told.rest_rate / 1e9, 'GFLOP')}"
    return f"{share}: {format_rate(told.rate / 1e9, 'GFLOP')}{rest}"
