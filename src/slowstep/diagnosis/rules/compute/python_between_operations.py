"""A Python loop inside the step does what one operation could.

What it sees:
    Calls in the step's body are timed in a few steps, and lines are counted in one or two: a line of the user's own code runs at least 20
    times in a call, and takes 20 us or less for each operation that it may do (a call, arithmetic, a comparison, an index). Such lines hold
    at least 3 % of the window, with those operations of torch and functions of the user's that they call as often and as briefly. A
    function that fills lists in a loop and calls one operation with them is weighed by those lines alone.
Why it costs:
    Each line of Python takes 0.05 to 0.3 us and each small operation some 3 to 20 us to dispatch, whatever it computes; one operation
    on the whole tensor pays for that once.
How the gain is predicted:
    r is 95 % of those lines' time (vectorised code is rarely better than ten times as fast on a first try; 80 % at worst, all of
    it at best); where their operations take longer than 4 us each, no more than that (2 us at worst), for the rest is their own work. And
    95 % of what it adds to backward: what this takes beyond twice the rest of the forward, as much as the backward of other
    layers takes (matrix products and convolutions: one for the input, one for the weights), but no less than loops of small operations
    take: twice the function's own time, times the share of autograd's nodes that it made, and 14 us for each of these at most;
    at best by that share, at worst nothing. B is what the loader's workers need per step. Of an optimizer of the script's own, r is what
    was measured of 20 tensors and more of up to 1024 elements each: for all of them at once it took 0.43 times as long (0.28 to 0.76),
    and where the loop takes 45 us or more a tensor 0.10 times (0.01 to 0.33); each further shape adds a tensor's time. Where
    a tenth of the loop is lines of over 30 us, an operation's own work, and of larger tensors it is not predicted: those took 0.12 to 2.4
    times as long (see beside-the-model). Then it is no more than all that the loop takes.
When it is wrong:
    Timing calls slows Python code on Python 3.11, one loop more than another: what it added to the timed steps is measured against the
    others, at the pace of their backward, and is taken to be the loop's. A loop whose iterations depend on each other cannot be vectorised,
    only compiled. In steps of compiled code none are timed: then stacks in the script's own code say how much may be unseen, but not with
    an accelerator, for which such a line may only wait. Of a loop without a DataLoader, what runs above its forward is input and not
    looked at here. What the line of a comprehension in the training loop itself does next to it is taken to be all that no timed call
    holds, in proportion to the loop's lines that were seen; at worst it is nothing. Steps with several optimizers' updates are timed
    where they have a DataLoader and each as many updates.
What to try:
    Whole-tensor operations (masks, shifts, scatter, einsum), torch.vmap or torch.compile, or do it in the loader's workers.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from slowstep.analyses.compute.fixed_cost import USUAL_DISPATCH_NS
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.python.hot_loop import LONGEST_NS, HotLoop
from slowstep.analyses.python.often_lines import OFTEN
from slowstep.analyses.steps.cell_code import TOP_LEVEL
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.compute.optimizer_side import at_once
from slowstep.diagnosis.evidence.compute.untimed import unseen_python
from slowstep.diagnosis.evidence.timed_in import STEPS, timed_in
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, body_rest, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import stub
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import BACKWARD, BODY, OPTIMIZER
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "python-between-operations"
# What is left after the fix: the same assumption as slow-transform's.
LEFT, LEFT_PESSIMISTIC = 0.05, 0.20
# Backward over forward of layers: a gradient of the input and one of the weights, each as much work as the forward (Kaplan et al. 2020,
# "Scaling laws for neural language models", section 2.1).
OTHERS_BACKWARD = 2.0
# Of a loop of small operations. Plain Python has no backward: it is no more than dispatching the function's nodes takes.
LOOPS_BACKWARD = computing.LOOPS_BACKWARD.value
# Updates of all optimizers for one of the busiest: those of a GAN.
SEVERAL = 1.5
UNKNOWN_OF_UPDATE = "it worked on all parameters at once"

CALLS_OF_SEVERAL_OPTIMIZERS = Wording(
    "calls-of-several-optimizers",
    "calls are timed in steps of several optimizers only where these are called in turns, or each batch has as many updates",
)


def judge(m: Measurements) -> Answer:
    """Whether a Python loop holds the step."""
    loop = m.compute.work.loop
    if loop is None and not m.compute.work.bodies_timed and m.trainer.all_updates.height >= SEVERAL * m.trainer.update_end_ns.size:
        return NotJudged(rule=NAME, reason=CALLS_OF_SEVERAL_OPTIMIZERS())
    if loop is None:
        unseen = unseen_python(m)
        return None if unseen is None else NotJudged(rule=NAME, reason=unseen)
    return _found(m, loop)


def _found(m: Measurements, loop: HotLoop) -> Judged | None:
    """That this one does; None where it holds too little."""
    body = with_core_delay(m, OPTIMIZER) if loop.in_update else body_rest(m)
    share, low, high = share_interval(m, body)
    if share * loop.share * _spared(loop, computing.LOOP_OPERATION.value) < CLAIM:
        return None
    of_backward, at_most = _of_backward(m, loop, body)
    spared, least = (_spared(loop, each_ns) for each_ns in (computing.LOOP_OPERATION.value, computing.LOOP_OPERATION.bounds[0]))
    removed = (body * loop.share + of_backward) * spared * (1 - LEFT)
    low_ns, high_ns = body * loop.low * least * (1 - LEFT_PESSIMISTIC), body * loop.high + at_most
    counterfactual = (
        at_once(m, loop, UNKNOWN_OF_UPDATE)
        if loop.in_update
        else _counterfactual(m, loop, low_ns=low_ns, removed_ns=removed, high_ns=high_ns)
    )
    bound = stub(m, loop.name, loop.file)
    where = f"{shown(loop.file, m.trainer.facts.script)}:{loop.line}"
    held, _, held_high = share_interval(m, body * loop.share + of_backward)
    what = "takes" if held < share * loop.share + CLAIM else "takes, with its backward,"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{_line(loop, where)} at least {loop.runs} times a step in Python and {what} {format_share(held)} of the time",
        opens_with_name=True,
        share=held,
        share_low=low * loop.low,
        share_high=min(max(high * loop.high, held_high), 1.0),
        claims=(OPTIMIZER if loop.in_update else BODY,),
        evidence=_evidence(m, loop, where, share * loop.share) + (() if counterfactual is None else (saved_by(m, counterfactual),)),
        gain=unknown_gain(UNKNOWN_OF_UPDATE, share=held) if counterfactual is None else predict(m, counterfactual),
        fixes=(Fix(text=_rewritten(loop), bounded_by=bound), Fix(text=_otherwise(m, loop), bounded_by=bound)),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _spared(loop: HotLoop, each_ns: float) -> float:
    """Of its time, 0 to 1, what is no operation's own work, where whole tensors spare so long for each that a line may do."""
    return 1.0 if loop.operation_ns is None else min(each_ns / loop.operation_ns, 1.0)


def _evidence(m: Measurements, loop: HotLoop, where: str, share: float) -> tuple[Evidence, ...]:
    return (
        _named_as(loop, where),
        Evidence(name="time in it", value=share, unit="share of window", threshold=CLAIM),
        Evidence(name="runs of that line", value=loop.runs, unit="per step, at least", threshold=OFTEN),
        *_each_time(loop),
        timed_in(m, loop.bodies, STEPS),
        Evidence(name="its share of autograd's nodes", value=loop.nodes_share, unit="share of nodes"),
    )


def _each_time(loop: HotLoop) -> tuple[Evidence, ...]:
    longest = LONGEST_NS / 1e3
    if loop.operation_ns is None:
        return (Evidence(name="each time", value=loop.line_ns / 1e3, unit="us", threshold=longest),)
    operation = Evidence(name="each of its operations", value=loop.operation_ns / 1e3, unit="us", threshold=longest)
    return (Evidence(name="each time", value=loop.line_ns / 1e3, unit="us"), operation)


def _is_top(loop: HotLoop) -> bool:
    """Whether it stands in no function: the script itself, or a cell."""
    return TOP_LEVEL.fullmatch(loop.name) is not None


def _named_as(loop: HotLoop, where: str) -> Evidence:
    if _is_top(loop):
        return Evidence(name="line", value=where, unit="")
    return Evidence(name="function", value=loop.name, unit="", where=where)


def _name(loop: HotLoop) -> str:
    return f"line {loop.line}" if _is_top(loop) else loop.name


def _line(loop: HotLoop, where: str) -> str:
    return f"{where} runs" if _is_top(loop) else f"{loop.name} runs line {where}"


def _rewritten(loop: HotLoop) -> str:
    if loop.in_update:
        return f"let {_name(loop)} work on all parameters at once, those of one shape stacked"
    return f"write the loop in {_name(loop)} as operations on whole tensors (masks, shifts, scatter, einsum)"


def _otherwise(m: Measurements, loop: HotLoop) -> str:
    compiler = m.training.words.advise(Remedy.COMPILE_FUNCTION)
    if _is_top(loop):
        return f"put the loop of {_name(loop)} into a function, and let {compiler} or Numba compile that"
    if loop.nodes_share or loop.in_update:
        return f"let {compiler} compile {loop.name}"
    if m.trainer.waits.is_empty():
        return f"let {compiler} or Numba compile {loop.name}"
    elsewhere = f"do {loop.name} in the loader's workers if it needs nothing that the model gives, every k steps if it only judges that"
    return f"{elsewhere}; or let {compiler} or Numba compile it"


def _of_backward(m: Measurements, loop: HotLoop, body: Floats) -> tuple[Floats, Floats]:
    """The backward of what the loop computes, per step: as expected, and at most."""
    backward = with_core_delay(m, BACKWARD)
    at_most = backward * loop.nodes_share
    own = body * loop.share
    others = OTHERS_BACKWARD * np.maximum(with_core_delay(m, BODY) - own, 0.0)
    dispatched = loop.nodes_share * (m.trainer.facts.graph_nodes or 0) * USUAL_DISPATCH_NS
    usual = np.minimum(LOOPS_BACKWARD * own * loop.nodes_share, dispatched)
    return np.minimum(np.maximum(backward - others, usual), at_most), at_most


def _counterfactual(m: Measurements, loop: HotLoop, *, low_ns: Floats, removed_ns: Floats, high_ns: Floats) -> Counterfactual:
    beside = concurrent_producers_ns(m, spared_cpu_ns=float(removed_ns.mean()))
    expected = Case(removed_ns=removed_ns, concurrent_ns=beside, delay_share=delay_share(m, BODY))
    return Counterfactual(
        assumes=f"{_name(loop)} took a twentieth of its time",
        expected=expected,
        pessimistic=replace(expected, removed_ns=low_ns, concurrent_ns=PESSIMISTIC_BESIDE * beside),
        optimistic=replace(expected, removed_ns=high_ns),
    )


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"), judge=judge)
