"""Steps are so short that Python around the calls takes long.

What it sees:
    Each step is one call of a framework's own training loop, which returns when its work is done. Python that is run once a call, whatever
    it computes, takes at least 3 % of the window: what the loop does from the end of one call to the begin of the next (its Python,
    progress bars, logs that are read back, small callbacks) in the usual step, the median, so that what comes once an epoch is none of it;
    and of the call what starts a graph, as calibration/compiling.py has it. Callbacks that take longer than all of that are
    slow-callback's.
Why it costs:
    Python around a call takes as long for a step of half a millisecond as for one of a second, and nothing is computed meanwhile.
How the gain is predicted:
    r is what lies between two calls in the usual step, and what starts a call (no more than four fifths of one: of the smallest models the
    rest was left), less an N-th of both, which N steps take once. N is the smallest power of two with which a twentieth of the rest is
    left of it, at most 64, and as many as an epoch has, whose last call may be of fewer. Where `steps_per_epoch` ends an epoch before its
    data end, N is a number that divides that. At worst callbacks take as long for N batches as for each, and the loop is as fast as in the
    fastest quarter of the steps. The calls' waits for a core come with what of them is spared, in proportion. B is what the loader's
    workers, or the slowest stage of a tf.data pipeline, need per step.
When it is wrong:
    Callbacks on batches are then called once in N steps, with the last one's logs: one that needs every batch (a schedule of the learning
    rate by batches, a check for a batch's number) does something else. What starts a call is known between bounds only, 0.2 and 2.4 ms:
    the interval has them. Where calls return before their work is done (an accelerator, JAX) nobody knows whether the device waits, and a
    scan over larger steps may take longer than their calls: of loops of the script's own with steps of less than a millisecond it says so,
    of others nothing. Nor is it judged where steps run eagerly, which is eager-step's. Of a loop of the script's own it is not known what
    belongs to one step.
What to try:
    compile(steps_per_execution=N), a value that divides steps_per_epoch, or fit trains on more batches than were asked for; a progress bar
    by epochs (verbose=2); larger batches. With JAX, several steps in one jax.lax.scan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slowstep.analyses.events.parts import piece
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration import compiling
from slowstep.diagnosis.evidence.compute.next_batch import next_batch_ns
from slowstep.diagnosis.evidence.input.input_passes import steps_of_pass
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, share_queued
from slowstep.diagnosis.lever_specs import steps_per_execution
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import UPDATES, Part, PartKind, PieceKind
from slowstep.reasons import Wording
from slowstep.stages import UNATTRIBUTED
from slowstep.units import format_share

NAME = "many-host-steps"
# Less than this of the step is left between calls: more steps in a call gain no more that shows.
ENOUGH = 0.05
# Callbacks see one batch in so many, and an epoch is to have several calls.
POWERS = (2, 4, 8, 16, 32, 64)
# The loop as it is where nothing holds it up.
FASTEST_QUARTER = 25
# What a framework's loop does by itself, whatever the script asks for beside it; what has no name is charged to the line that calls it.
LOOPS_OWN = (PartKind.PROGRESS_BAR, PartKind.LOGGING, PartKind.SMALL_CALLBACKS)
UNNAMED = (PartKind.LINES, PartKind.FORWARD_AND_REST)
SPARED = compiling.STEP_IN_A_CALL
MOST_OF_CALL, MOST_OF_CALL_OPTIMISTIC = compiling.SPARED_OF_CALL.value, compiling.SPARED_OF_CALL.bounds[1]
# Of a step: what may be so much leaves a verdict open, as docs/definitions.md has it.
UNJUDGED_SHARE = 0.10

AHEAD = Wording(
    "short-calls-ahead",
    "each step takes {step_ns:duration} and is a call that returns before it is done: how much of that is Python and starting the call, "
    "while the device waits, is not known",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Between:
    """What lies between two calls, in ns per step: the loop's own, and small callbacks of the script's; and the calls."""

    parts: tuple[Part, ...]  # the loop's own, and callbacks that count with it
    own: Floats
    callbacks: Floats
    calls: Floats
    spared_ns: float  # of a call, what each further step spares that it makes

    @property
    def usual_ns(self) -> float:
        """Of the usual step, callbacks included."""
        return float(np.median(self.own + self.callbacks))


@dataclass(frozen=True, kw_only=True, slots=True)
class Together:
    """How many of today's calls, which make `own` steps each, are made in one, and what share of the calls is left then."""

    own: int
    turns: int
    left: float

    @property
    def steps(self) -> int:
        """How many a call makes."""
        return self.own * self.turns


def judge(m: Measurements) -> Answer:
    """Whether what a framework's loop does between two calls holds the step, where each call makes one."""
    is_of_loop = m.training.reads is not None and m.training.words.has(Remedy.STEPS_TOGETHER)
    dispatched = m.compute.dispatched
    if dispatched is not None and not dispatched.is_one_call:
        # Steps that run operation by operation start no graph.
        return None
    if m.trainer.has_optimizers or m.trainer.is_asynchronous or not is_of_loop:
        return _ahead(m)
    between = _between(m)
    together = _together(m, between.usual_ns + between.spared_ns)
    if together is None or not between.calls.any():
        return None
    counterfactual = _counterfactual(m, between, together)
    share = share_interval(m, counterfactual.expected.removed_ns)
    return _judged(m, between, together, counterfactual) if share[0] >= CLAIM else None


def _ahead(m: Measurements) -> NotJudged | None:
    """That nothing tells of steps of a loop of the script's own, which are short calls that return early."""
    is_a_call = m.trainer.is_asynchronous and not m.trainer.has_optimizers and m.ledger.of_parts(UPDATES).any()
    step_ns = float(np.median(m.step_ns))
    if not is_a_call or m.training.reads is not None or step_ns * UNJUDGED_SHARE > compiling.STEP_IN_A_SCAN.bounds[1]:
        return None
    change = m.training.words.advise(Remedy.STEP_AS_GRAPH) if m.training.words.has(Remedy.STEP_AS_GRAPH) else None
    return NotJudged(rule=NAME, reason=AHEAD(step_ns=step_ns), change=change)


def _between(m: Measurements) -> Between:
    unnamed = (*m.ledger.parts_of("compute", *UNNAMED), *m.ledger.parts_of(UNATTRIBUTED, PartKind.UNATTRIBUTED))
    parts = (*m.ledger.parts_of("output", *LOOPS_OWN), *unnamed)
    scripts = m.ledger.parts_of("output", PartKind.CALLBACK)
    own, callbacks = m.ledger.of_parts(*parts), m.ledger.of_parts(*scripts)
    calls = m.ledger.of_parts(UPDATES)
    spared_ns = min(SPARED.value, MOST_OF_CALL * float(np.median(calls)))
    # Larger ones are what holds the step by themselves.
    if np.median(callbacks) > np.median(own) + spared_ns:
        return Between(parts=parts, own=own, callbacks=np.zeros_like(own), calls=calls, spared_ns=spared_ns)
    return Between(parts=(*parts, *scripts), own=own, callbacks=callbacks, calls=calls, spared_ns=spared_ns)


def _judged(m: Measurements, between: Between, together: Together, counterfactual: Counterfactual) -> Judged:
    share, low, high = share_interval(m, counterfactual.expected.removed_ns)
    least, most = (share_interval(m, case.removed_ns) for case in (counterfactual.pessimistic, counterfactual.optimistic))
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"each step is a call of {float(np.median(between.calls)) / 1e6:.2g} ms, and Python around these calls takes "
        f"{format_share(share)} of the time",
        share=share,
        share_low=min(low, least[1]),
        share_high=max(high, most[2]),
        claims=(*between.parts, piece(UPDATES, PieceKind.RULE, NAME)),
        evidence=(*_evidence(between, together), saved_by(m, counterfactual)),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, between, together.steps),
        # A progress bar or a small callback is one of the things that short steps have too much of.
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(between: Between, together: Together) -> tuple[Evidence, ...]:
    where = "in the usual step"
    return (
        Evidence(name="between two calls", value=between.usual_ns / 1e6, unit="ms", where=where),
        Evidence(name="callbacks of it", value=float(np.median(between.callbacks)) / 1e6, unit="ms"),
        Evidence(name="a call", value=float(np.median(between.calls)) / 1e6, unit="ms", where=where),
        Evidence(name="starting a call, assumed", value=between.spared_ns / 1e6, unit="ms"),
        Evidence(name="steps in a call", value=together.own, unit="steps"),
        Evidence(name="steps in a call assumed", value=together.steps, unit="steps"),
    )


def _together(m: Measurements, once_ns: float) -> Together | None:
    """How many of today's calls one is to make, where so much is done once in a call; None where an epoch is one."""
    rest_ns = float(np.median(m.step_ns - m.machine.delay_ns)) - once_ns
    own, epoch, asked = max(round(m.trainer.updates_per_step), 1), steps_of_pass(m), m.trainer.steps_per_epoch
    # Any other number would have an epoch train on more batches than were asked for.
    of_any = POWERS if asked is None else tuple(turns for turns in range(2, POWERS[-1] + 1) if asked % (own * turns) == 0)
    # No call goes on into the next epoch.
    may = [turns for turns in of_any if epoch is None or turns <= epoch]
    if not may:
        return None
    turns = next((turns for turns in may if once_ns / turns <= ENOUGH * rest_ns), may[-1])
    # Where as many are asked for, the last call of an epoch makes as many as the others.
    left = 1 / turns if epoch is None or asked is not None else math.ceil(epoch / turns) / epoch
    return Together(own=own, turns=turns, left=left)


def _usual(per_step: Floats) -> Floats:
    """No more than in the usual step: what comes now and then is paid as often as before."""
    return np.asarray(np.minimum(per_step, np.median(per_step)))


def _counterfactual(m: Measurements, between: Between, together: Together) -> Counterfactual:
    spared_low, spared_high = SPARED.bounds
    once = 1 - together.left
    beside, compute = next_batch_ns(m, between.usual_ns + between.spared_ns), m.ledger.total("compute")
    # There is more of it than waits: the calls.
    waited = compute / (compute - m.ledger.total("compute", PartKind.CORE_WAIT)) - 1

    def case(outside: Floats, spared_ns: float, beside_ns: float, most: float = MOST_OF_CALL) -> Case:
        # What starts a call is there once in a call, however many steps it makes today. Its waits for a core go with it.
        started = np.minimum(spared_ns, most * between.calls) * once
        removed = np.asarray(np.minimum(outside * once + started * (1 + waited), m.step_ns))
        return Case(removed_ns=removed, concurrent_ns=beside_ns, delay_share=share_queued(started * waited, removed))

    usual = _usual(between.own + between.callbacks)
    fastest = np.minimum(between.own, np.percentile(between.own, FASTEST_QUARTER))
    return Counterfactual(
        assumes=f"{together.steps} steps were made in one call, with callbacks once for all of them",
        expected=case(usual, SPARED.value, beside),
        pessimistic=case(fastest, spared_low, PESSIMISTIC_BESIDE * beside),
        optimistic=case(usual, spared_high, beside, MOST_OF_CALL_OPTIMISTIC),
    )


def _fixes(m: Measurements, between: Between, steps: int) -> tuple[Fix, ...]:
    words = m.training.words
    once = f"callbacks on batches are then called once in {steps}, with the logs of the last"
    together = Fix(
        text=f"{words.advise(Remedy.STEPS_TOGETHER, steps)}: {once}",
        lever=steps_per_execution(steps),
    )
    bars = [part for part in between.parts if part.kind is PartKind.PROGRESS_BAR]
    if m.ledger.share_of(*bars) < CLAIM or not words.has(Remedy.PROGRESS_BAR):
        return (together,)
    return together, Fix(text=words.advise(Remedy.PROGRESS_BAR))


RULE = Rule(
    name=NAME,
    stages=("compute",),
    topics=("compute", "input", "ledger", "machine", "steps", "trainer", "training"),
    judge=judge,
)
