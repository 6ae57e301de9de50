"""One line of the model's own code holds most of the forward.

What it sees:
    Of at least 30 stacks inside the forward, at least half stand under one line of the user's own modules (the innermost of their own
    code), others under other lines, and that line holds at least a quarter of the time, on a processor with its backward. Where there
    most of these stand in one call of that line, which is in no loop, made once for each backward and of a single operation (a recurrent
    layer is several), and that holds half of the time as far as is expected, and surely a tenth, it claims that time. Anything else is
    advice: a line may call a whole model. What that operation multiplies is known from the graphs of a few backward passes, next to what
    all other operations of the model multiply in their time. Where no line holds half, a function of the user's own may, by operations that
    it calls itself: that is a finding where less than a third of them multiplies, and it surely holds a tenth of the time, likely half.
Why it costs:
    It need not: some layer must be the largest. But whatever is gained in it counts, and whatever is gained elsewhere hardly does.
How the gain is predicted:
    Of a convolution whose kernel is at least 5 in each direction, by the shapes of what it took and gave, r is its time without that of a
    kernel of 3, as it was measured: (3 / kernel) to the power of its directions, times 1.6 as expected, 4 at worst and 0.5 at best. Of
    anything else it is not: what the call could take instead is unknown, and the headroom is shown. Its backward is taken
    to be the same share of backward as of the forward, and at least what the other layers leave, whose backward takes 3.2 times their
    forward at most (measured: 0.34 to 2.43 times), and the gradients of all weights.
When it is wrong:
    On the processor the backward of a line runs in another thread without a stack of Python. Stacks are taken where the GIL is given away,
    which long operations do and short ones hardly. A function of the user's own for backward may take longer than layers do. Whether the
    operation's own arithmetic is as fast as it could be is not known, only whether it is as fast as the rest's, nor whether the model needs
    it. What goes over elements one by one takes time and is no arithmetic here. Older recordings do not distinguish the calls of a line.
What to try:
    A cheaper layer, a smaller input to it, channels_last for convolutions, torch.compile, or bfloat16 for that part.
"""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.forward_function import ForwardFunction
from slowstep.analyses.compute.forward_line import ForwardCall, ForwardLine
from slowstep.analyses.events.parts import piece
from slowstep.analyses.measurements import Measurements
from slowstep.calibration import computing
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.evidence.compute.arithmetic import MAY_BE_SEVERAL, Arithmetic, arithmetic_of, arithmetic_rows, in_title
from slowstep.diagnosis.evidence.compute.one_call import MOST_OF_STEP, HeldByCall, held_by_call, held_by_line
from slowstep.diagnosis.evidence.timed_in import STEPS, timed_in
from slowstep.diagnosis.evidence.trainer_side import body_rest, concurrent_producers_ns, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, unknown_gain
from slowstep.diagnosis.law import HEALTHY_UNATTRIBUTED
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, EvidenceCode, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import BACKWARD, MODELS, PieceKind
from slowstep.units import format_share

NAME = "dominant-module"
DOMINATES = 0.5
# Of the training thread's time: below a quarter, halving it gains less than 1.14.
WORTH = 0.25
ASSUMES = "that line took less time"
ASSUMES_FUNCTION = "that function took less time"
# Of a function's stacks. What multiplies is the model's arithmetic; less than a third of it leaves most to what memory takes.
MULTIPLIES = 1 / 3
# How operations get cheaper, by what is in their name.
SMALLER = {
    "Conv": "a smaller kernel, fewer channels, a smaller input (a stride or pooling before it) or {layout}",
    "Linear": "fewer outputs or inputs, or two smaller layers in its place (of low rank)",
    "Attention": "fewer or shorter sequences at a time",
}
# In each direction. Three of 3 on one another see as far as one of 7 (Simonyan & Zisserman 2014, "Very deep convolutional networks for
# large-scale image recognition", section 2.3).
LARGE, SMALL = 5, 3
SMALL_KERNEL = "a kernel of 3 in each direction, or several such convolutions on one another, which see as far,"
OF_TIME = {True: "with its backward", False: "its forward's share of the time"}
CHEAPER = "a cheaper layer or a smaller input to it"


def judge(m: Measurements) -> Answer:
    """Whether one line holds most of the forward, and one operation of it most of the step."""
    line = m.compute.work.forward_line
    if line is None or line.lines < 2 or line.share < DOMINATES:
        return _function(m)
    if held_by_line(m, line) < WORTH:
        return None
    call = line.call
    if call is not None and call.is_one and m.compute.device == "cpu":
        held = held_by_call(m, call)
        if held.share >= MOST_OF_STEP and held.low >= HEALTHY_UNATTRIBUTED:
            return _one_operation(m, line, call, held)
    return _line(m, line)


def _function(m: Measurements) -> Judged | None:
    """What goes over elements one by one, in several lines of one function: it takes the time that memory takes, and less where the same is
    computed with fewer intermediate tensors.
    """
    function = m.compute.work.forward_function
    if function is None or m.compute.device != "cpu" or function.multiplies is None or function.multiplies >= MULTIPLIES:
        return None
    # Its backward is the same share of backward, as that of a line is.
    of = float((body_rest(m) + with_core_delay(m, BACKWARD)).sum() / m.step_ns.sum())
    if function.share * of < MOST_OF_STEP or function.low * of < HEALTHY_UNATTRIBUTED or _is_known_otherwise(m, function):
        return None
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{function.function} ({function.where}) holds {format_share(function.share)} of the forward, most of it element by element, "
        f"and with its backward {format_share(function.share * of)} of the time",
        opens_with_name=True,
        share=function.share * of,
        share_low=function.low * of,
        share_high=function.high * of,
        claims=tuple(piece(part, PieceKind.LINE, function.where) for part in MODELS),
        evidence=(
            Evidence(name="function", value=function.function, unit="", where=function.where),
            Evidence(name="its share of the forward", value=function.share, unit="share of forward"),
            Evidence(name=OF_TIME[True], value=function.share * of, unit="share of window", threshold=MOST_OF_STEP),
            Evidence(name="products in it", value=function.multiplies, unit="share of its stacks", threshold=MULTIPLIES),
            timed_in(m, function.bodies, STEPS),
        ),
        gain=unknown_gain(ASSUMES_FUNCTION, share=function.share * of),
        fixes=(
            Fix(text=f"write {function.function} with fewer or smaller tensors on the way, or by one operation that does the same"),
            Fix(text=m.training.words.advise(Remedy.COMPILE)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=None)


def _is_known_otherwise(m: Measurements, function: ForwardFunction) -> bool:
    """Whether it is a loop in Python, or no part of the model, which other rules judge."""
    others = [each for each in (m.compute.work.loop, m.compute.work.outside_model) if each is not None]
    return any((each.file, each.first_line) == (function.file, function.first_line) for each in others)


def _line(m: Measurements, line: ForwardLine) -> Judged:
    share = held_by_line(m, line)
    what = f"{line.where}" + (f" (mostly {line.operation})" if line.operation else "")
    # Where its calls are told apart, and no one of them is surely one operation.
    is_open = line.call is not None and not line.call.is_one and m.compute.device == "cpu" and share >= MOST_OF_STEP
    evidence = (
        Evidence(name="line", value=line.where, unit="", where=line.function),
        Evidence(name="its share of the forward", value=line.share, unit="share of forward", threshold=DOMINATES),
        Evidence(name=OF_TIME[m.compute.device == "cpu"], value=share, unit="share of window", threshold=WORTH),
        *(arithmetic_rows(MAY_BE_SEVERAL) if is_open else ()),
        Evidence(name="stack samples in the forward", value=line.stacks, unit="samples", code=EvidenceCode.STACKS),
    )
    title = f"{what} in {line.function} holds {format_share(line.share)} of the forward"
    layout = f"{m.training.words.advise(Remedy.CONVOLUTION_LAYOUT)}, " if "Conv" in (line.operation or "") else ""
    fix = f"look at {what} first: a cheaper layer, a smaller input to it, {layout}or {m.training.words.advise(Remedy.COMPILE)}"
    return advice(NAME, "compute", title, evidence, ASSUMES, (fix,), share=share, opens_with_name=True)


def _one_operation(m: Measurements, line: ForwardLine, call: ForwardCall, held: HeldByCall) -> Judged:
    called = " ".join(text for text in (call.name, f"({call.operation})" if call.operation else None) if text) or "one operation"
    backward = ", with its backward," if held.has_backward else ""
    arithmetic = arithmetic_of(m, call, held)
    kernel = _large_kernel(arithmetic)
    counterfactual = None if kernel is None else _with_small_kernel(m, held, kernel)
    smaller = f"try {called} in {line.where} with {_smaller(m, call)}"
    evidence = (
        Evidence(name="line", value=line.where, unit="", where=f"{called} in {line.function}"),
        Evidence(name="its share of the forward", value=call.share, unit="share of forward"),
        Evidence(name=OF_TIME[held.has_backward], value=held.share, unit="share of window", threshold=MOST_OF_STEP),
        Evidence(name="that is at least", value=held.low, unit="share of window", threshold=HEALTHY_UNATTRIBUTED),
        Evidence(name="its forward alone", value=held.forward, unit="share of window"),
        *arithmetic_rows(arithmetic),
        *(() if kernel is None else (Evidence(name="its kernel", value=kernel.elements, unit="elements", threshold=kernel.least),)),
        Evidence(name="stack samples in the forward", value=line.stacks, unit="samples", code=EvidenceCode.STACKS),
        *(() if counterfactual is None else (saved_by(m, counterfactual),)),
    )
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{called} in {line.where} is one operation and takes{backward} {format_share(held.share)} of the time{in_title(arithmetic)}",
        opens_with_name=bool(call.name or call.operation),
        share=held.share,
        share_low=held.low,
        share_high=held.high,
        # Of what else the model does others may tell.
        claims=tuple(piece(part, PieceKind.LINE, line.where) for part in MODELS),
        evidence=evidence,
        gain=unknown_gain(ASSUMES, share=held.share) if counterfactual is None else predict(m, counterfactual),
        fixes=(
            *(() if kernel is None else (Fix(text=f"{SMALL_KERNEL} in {called} ({line.where})", changes_numerics=True),)),
            Fix(text=smaller),
            Fix(text=m.training.words.advise(Remedy.COMPILE)),
        ),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


@dataclass(frozen=True, kw_only=True, slots=True)
class _LargeKernel:
    """Elements of a convolution's kernel, from how many on it is a large one, and the share of its products that a kernel of 3 does."""

    elements: float
    least: int
    left: float


def _large_kernel(arithmetic: Arithmetic | str) -> _LargeKernel | None:
    """That of the call; None where it is none, or is not known. One of a single direction is as long as what it filters: a tone, a word."""
    if isinstance(arithmetic, str) or arithmetic.kernel_elements is None or len(arithmetic.kernel) < 2 or min(arithmetic.kernel) < LARGE:
        return None
    directions = len(arithmetic.kernel)
    # Of patches that hardly overlap, and where each channel is convolved by itself, there are few for each place.
    if arithmetic.kernel_elements < LARGE**directions:
        return None
    return _LargeKernel(elements=arithmetic.kernel_elements, least=LARGE**directions, left=SMALL**directions / arithmetic.kernel_elements)


def _with_small_kernel(m: Measurements, held: HeldByCall, kernel: _LargeKernel) -> Counterfactual:
    expected, (best, worst) = computing.SMALL_KERNEL.value, computing.SMALL_KERNEL.bounds

    def case(share: float, times: float) -> Case:
        removed = m.step_ns * share * (1 - min(kernel.left * times, 1.0))
        beside = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
        return Case(removed_ns=removed, concurrent_ns=beside)

    return Counterfactual(
        assumes="its kernel were 3 in each direction",
        expected=case(held.share, expected),
        pessimistic=case(held.low, worst),
        optimistic=case(held.high, best),
    )


def _smaller(m: Measurements, call: ForwardCall) -> str:
    way = next((way for name, way in SMALLER.items() if name in (call.operation or "")), CHEAPER)
    return way.format(layout=m.training.words.advise(Remedy.CONVOLUTION_LAYOUT))


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge)
