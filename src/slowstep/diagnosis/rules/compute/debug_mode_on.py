"""A mode for finding errors, such as anomaly detection, is on.

What it sees:
    Anomaly detection, torch's profiler, a trace function (debugger, coverage) or a Python profiler was on in some of the looks that are
    taken twice a second, and compute times that share is at least 3 % of the window; or deterministic algorithms, which alone are advice.
    Or a framework must not use its fast kernels for processors (oneDNN), which is advice where it would save less than 3 %.
Why it costs:
    Anomaly detection keeps a stack for each operation and checks every gradient for NaN; profilers write each operation down; a trace
    function is called for every line of Python. Deterministic algorithms are slower ones where there is a choice. Without those kernels
    convolutions are laid out differently and multiplied as matrices.
How the gain is predicted:
    Of anomaly detection, where stacks show it: r is 1.85 times the share of them that stand in writing down stacks (1.3 to 2.7), and what
    checking gradients was measured to take, 6.5 us for each operation of backward (3 to 15) and 0.7 ns for each of their elements (0.3 to
    1.5). B is what the loader's workers need for a batch. The lever anomaly-off measures it. Of oneDNN r is the compute times the share of
    the forward's stacks in convolutions, which take 1.4 times as long without it (1.3 to 1.55, benchmarks/half_precision.py; linear layers
    and encoders about as long). Of the others it is not predicted: what they cost depends on the operations, and was not measured here.
    The training is not called healthy with them.
When it is wrong:
    A profiler with a schedule is on for a few steps only, on purpose. Determinism may be what the run is for. What anomaly detection keeps
    alive for the garbage collector to walk over is not in it, nor what it takes in threads of the script's own.
What to try:
    Turn it off, or on for the one step that needs it. Lightning's and Hugging Face's trainers set some of it themselves, from an
    argument of theirs: that is what has to be changed then.
"""

from __future__ import annotations

import numpy as np

from slowstep.analyses.compute.anomaly import AnomalyCost
from slowstep.analyses.compute.work import DebugMode
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.calibration.computing import CHECKED_ELEMENT, CHECKED_NODE, PLAIN_CONVOLUTIONS, WRITING_STACKS
from slowstep.diagnosis.evidence.trainer_side import concurrent_producers_ns
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import ANOMALY_OFF
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._known import plain
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "debug-mode-on"
# Often on purpose, and free where an operation has one algorithm only.
HARMLESS = DebugMode.DETERMINISTIC
# What is on where something else is off: it costs what convolutions it slows down.
PLAIN = DebugMode.PLAIN_KERNELS
LEVERS = {DebugMode.ANOMALY: ANOMALY_OFF}
CALLED = {
    DebugMode.ANOMALY: "anomaly detection",
    DebugMode.DETERMINISTIC: "deterministic algorithms",
    DebugMode.DEBUGGER: "a debugger or coverage tool (sys.settrace)",
    DebugMode.PYTHON_PROFILER: "a Python profiler (sys.setprofile)",
    PLAIN: "computing without the framework's fast kernels",
}


def judge(m: Measurements) -> Answer:
    """Whether a debugging aid is on."""
    costly = {mode: on for mode, on in m.compute.work.modes.items() if mode not in (HARMLESS, PLAIN)}
    share, low, high = share_interval(m, m.ledger.of("compute"))
    on = max(costly.values(), default=0.0)
    if share * on >= CLAIM:
        return _judged(m, costly, share=share * on, low=low * on, high=high * on, advisory=False)
    if PLAIN in m.compute.work.modes and m.compute.device == "cpu":
        return _of_kernels(m, m.compute.work.modes[PLAIN])
    if HARMLESS in m.compute.work.modes:
        return _judged(m, {HARMLESS: m.compute.work.modes[HARMLESS]}, share=0.0, low=0.0, high=0.0, advisory=True)
    return None


def _of_kernels(m: Measurements, on: float) -> Judged:
    share, low, high = share_interval(m, m.ledger.of("compute"))
    if share_interval(m, _slower_ns(m, on, PLAIN_CONVOLUTIONS.value))[0] < CLAIM:
        return _judged(m, {PLAIN: on}, share=0.0, low=0.0, high=0.0, advisory=True)
    return _judged(m, {PLAIN: on}, share=share * on, low=low * on, high=high * on, advisory=False)


def _slower_ns(m: Measurements, on: float, times: float) -> Floats:
    """What convolutions take longer per step, that take so many times as long."""
    return np.asarray(m.ledger.of("compute") * (on * (m.compute.work.convolutions or 0.0) * (1 - 1 / times)))


def _judged(m: Measurements, modes: dict[DebugMode, float], *, share: float, low: float, high: float, advisory: bool) -> Judged:
    by_share = sorted(modes, key=lambda mode: -modes[mode])
    names = " and ".join(_called(m, mode) for mode in by_share)
    are = "are" if len(modes) > 1 or HARMLESS in modes else "is"
    counterfactual = None if advisory else _without(m, modes)
    # That is what computes while it is on, and not what of it is its cost.
    of_compute = "" if advisory else f", for {_how_much(max(modes.values()))} of compute, {format_share(share)} of the time"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"{names} {are} on while the model trains{of_compute}",
        opens_with_name=by_share[0] not in CALLED,
        share=share,
        share_low=low,
        share_high=high,
        claims=() if advisory else m.ledger.parts_of("compute"),
        evidence=(
            *(Evidence(name=_called(m, mode), value=on, unit=_unit(on, m.compute.work.looks)) for mode, on in modes.items()),
            *(() if counterfactual is None else (*_costs(m.compute.work.anomaly), saved_by(m, counterfactual))),
        ),
        gain=unknown_gain("it were off") if counterfactual is None else predict(m, counterfactual),
        fixes=tuple(Fix(text=_fix(m, mode), lever=LEVERS.get(mode)) for mode in by_share),
        advisory=advisory,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _without(m: Measurements, modes: dict[DebugMode, float]) -> Counterfactual | None:
    """The training without anomaly detection, or with fast kernels; None where something else is on too, or nothing tells what it takes."""
    if set(modes) == {PLAIN}:
        return _with_kernels(m, modes[PLAIN])
    cost = m.compute.work.anomaly
    if cost is None or set(modes) != {DebugMode.ANOMALY}:
        return None
    on, at_most = modes[DebugMode.ANOMALY], m.ledger.of("compute")

    def case(writing: float, node_ns: float, element_ns: float) -> Case:
        checks_ns = on * ((cost.operations or 0.0) * node_ns + (cost.elements or 0.0) * element_ns)
        removed = np.minimum(writing * m.step_ns + checks_ns, at_most)
        return Case(removed_ns=removed, concurrent_ns=concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean())))

    # Where nobody counted what is checked that may be all of it.
    are_counted = cost.operations is not None and cost.elements is not None
    low, high = ([each.bounds[end] for each in (WRITING_STACKS, CHECKED_NODE, CHECKED_ELEMENT)] for end in (0, 1))
    return Counterfactual(
        assumes="anomaly detection were off",
        expected=case(cost.writing * WRITING_STACKS.value, CHECKED_NODE.value, CHECKED_ELEMENT.value),
        pessimistic=case(cost.low * low[0], *low[1:]),
        optimistic=case(cost.high * high[0], *high[1:]) if are_counted else Case(removed_ns=at_most),
    )


def _with_kernels(m: Measurements, on: float) -> Counterfactual:
    def case(times: float) -> Case:
        removed = _slower_ns(m, on, times)
        return Case(removed_ns=removed, concurrent_ns=concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean())))

    low, high = PLAIN_CONVOLUTIONS.bounds
    assumes = "convolutions were as much faster by those kernels as in slowstep's benchmark"
    return Counterfactual(assumes=assumes, expected=case(PLAIN_CONVOLUTIONS.value), pessimistic=case(low), optimistic=case(high))


def _costs(cost: AnomalyCost | None) -> tuple[Evidence, ...]:
    if cost is None:
        return ()
    return (
        Evidence(name="seen to write tracebacks", value=cost.writing, unit="share of the time"),
        Evidence(name="gradients checked", value=cost.operations, unit="operations per step"),
    )


def _called(m: Measurements, mode: DebugMode) -> str:
    return CALLED.get(mode) or m.training.words.advise(Remedy.PROFILER)


def _unit(on: float, looks: int) -> str:
    return f"share of the time, in each of {looks} looks" if on >= 1 else f"share of {looks} looks"


def _how_much(on: float) -> str:
    return "all" if on >= 1 else format_share(on)


def _fix(m: Measurements, mode: DebugMode) -> str:
    """What turns a mode off: who trains may have set it."""
    if mode is DebugMode.ANOMALY:
        # Around every fit Lightning sets it to what its argument says, whatever the script has set before.
        off = m.training.words.write({Remedy.ANOMALY: False})
        return f"turn anomaly detection off once the NaN is found{off and f': {off}'}"
    if mode is HARMLESS:
        by_script = plain().write({Remedy.DETERMINISM: False})
        own = m.training.words.write({Remedy.DETERMINISM: False}) or by_script
        asked = f"{own}, or {by_script} where the script asks for it" if own != by_script else own
        return f"{asked}, unless runs must be repeated bit by bit"
    if mode is PLAIN:
        return m.training.words.advise(Remedy.FAST_KERNELS)
    if mode is DebugMode.FRAMEWORK_PROFILER:
        return m.training.words.advise(Remedy.PROFILE_FEW)
    return f"run without {_called(m, mode)}"


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "input", "ledger", "machine", "steps", "training"), judge=judge)
