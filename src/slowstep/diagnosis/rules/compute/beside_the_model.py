"""A function that is no part of the model runs inside the step.

It is a hook that watches the model, or what makes its input.

What it sees:
    Calls in the step's body are timed in a few steps, and in one or two of them it is looked at what the functions with most time do. One
    is called by modules and not as their `forward`, and returns nothing: a forward hook that only looks; or by such hooks alone, returns
    nothing and adds nothing to autograd's graph. Or it is called outside of all modules, with gradients on, and adds nothing to autograd's
    graph: it computes on what nobody trains. Or it gives something before the model's first operation, and calls no module: that is input.
    So of functions of libraries that the script itself calls, such as a tokenizer or a metric, but for those that call the model, backward
    or an update. It holds at least 3 % of the window. Lightning's `on_after_batch_transfer` is timed exactly, in every step: it makes
    input.
    In a trace: the device computes what was launched in ranges that a name tells to be no step of the model (a validation, a callback,
    metrics), at least 3 % of the window.
Why it costs:
    The training thread does it in every step, while the loader's workers, if there are any, may have nothing to do.
How the gain is predicted:
    Of a hook: it does nothing (a fifth of its time is left at worst). B is what the loader's workers need per step. Of input: workers make
    it, as serial-loader predicts that, besides what they do already; unknown where they would find no cores. Of anything else
    it is not: whether it can be done while the model trains, and as fast there, is not known, nor how often what a few traced steps show
    comes. Nor of what runs between backward and update, which gains at most all that it takes: clipping, norms, noise and averages over 20
    to 200 tensors of 64 to 16,000 elements took 0.12 to 2.4 times as long once written for all tensors at once (torch 2.13, one thread).
When it is wrong:
    Whether the training needs it in every step only its author knows. Functions that are called inside of others are known by their own
    time and that of the libraries they call. Of a loop without a DataLoader, what runs above its forward is input and not looked at here,
    nor is one with several optimizers.
What to try:
    A hook: every k steps, or without reading values back (`.item()`) at each. A transform of the input: in the data set, so that workers
    do it. What looks at gradients: every k steps, or on all parameters at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.functions import shown
from slowstep.analyses.python.outside_model import OutsideModel
from slowstep.analyses.steps.cell_code import TOP_LEVEL
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.after_update import NamedParts, named_by
from slowstep.diagnosis.evidence.compute.untimed import unseen_python
from slowstep.diagnosis.evidence.input.made_in_body import gain_in_workers
from slowstep.diagnosis.evidence.profiled.named_ranges import DEVICE_WORK
from slowstep.diagnosis.evidence.spread import TimeSpread
from slowstep.diagnosis.evidence.timed_in import STEPS, timed_in
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, body_rest, concurrent_producers_ns, delay_share
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval, unknown_gain
from slowstep.diagnosis.lever_specs import stub
from slowstep.diagnosis.provider import Details, HeldTime, Provided, Provider, Unsure
from slowstep.diagnosis.rule import CLAIM, Answer, Rule, judge_provided
from slowstep.findings import Evidence, Fix, Gain
from slowstep.frameworks._remedies import Remedy
from slowstep.part_words import is_named, part_called, part_name, part_name_and_place, part_place
from slowstep.parts import BODY, PartKind
from slowstep.units import format_share

NAME = "beside-the-model"
# Of a hook that runs every few steps, or reads nothing back: the same assumption as python-between-operations'.
LEFT_PESSIMISTIC = 0.20
UNKNOWN = "it ran in parallel to the training, or less often"
UNKNOWN_OF_GRADIENTS = "it ran less often, or on all parameters at once"


def judge(m: Measurements) -> Answer:
    """Whether somebody's own work beside the model holds the step, or the device."""
    return judge_provided(m, NAME, PROVIDERS)


def _by_calls(m: Measurements) -> Provided:
    """What such a function holds of the step."""
    found = [held for held in (_by_function(m), _by_transform(m)) if held is not None and held.share >= CLAIM]
    if not found and (unseen := unseen_python(m)) is not None:
        return Unsure(reason=unseen)
    return max(found, key=lambda held: held.share, default=None)


def _by_transform(m: Measurements) -> HeldTime | None:
    """What a framework calls for the whole batch before the forward: the ledger has it as a part of its own."""
    named = named_by(m, PartKind.TRANSFORM)
    if named is None:
        return None
    ns = named.ns(m)
    share, low, high = share_interval(m, ns)
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_transform, m, named, ns, share))


def _of_transform(m: Measurements, named: NamedParts, ns: Floats, share: float) -> Details:
    name, takes = part_name(named.most), f"takes {format_share(share)} of the time"
    gain, counterfactual = gain_in_workers(m, ns)
    return Details(
        stage="preprocess",
        title=f"{part_name_and_place(named.most)} prepares input on the training thread in every step and {takes}",
        opens_with_name=is_named(named.most),
        claims=named.parts,
        evidence=(
            Evidence(name="function", value=part_called(named.most), unit="", where=part_place(named.most)),
            Evidence(name="time in it", value=share, unit="share of window", threshold=CLAIM),
            Evidence(name="time per step", value=float(ns.mean()) / 1e6, unit="ms"),
        ),
        counterfactual=counterfactual,
        gain=gain,
        fixes=(
            Fix(text=f"move {name} into the data set or its collate function, so that the loader's workers do it meanwhile"),
            Fix(text="write it as operations on the whole batch, without a loop over its samples"),
        ),
        names_cause=True,
    )


def _by_function(m: Measurements) -> HeldTime | None:
    """What calls that were timed in a few bodies tell."""
    beside = m.compute.work.outside_model
    if beside is None:
        return None
    # What copies to a device, or computes there, workers cannot do, and the time of calls is none of its own.
    beside = replace(beside, makes_input=beside.makes_input and m.compute.device == "cpu")
    body = body_rest(m)
    share, low, high = share_interval(m, body)
    held = share * beside.share
    return HeldTime(
        share=held,
        low=low * beside.low,
        high=min(high * beside.high, 1.0),
        at_least=CLAIM,
        details=partial(_of_function, m, beside, body, held),
    )


def _of_function(m: Measurements, beside: OutsideModel, body: Floats, held: float) -> Details:
    where = _where(m, beside)
    before = m.compute.before_update
    before_update = before is not None and (beside.file, beside.first_line) in before.functions
    gain, counterfactual = _gain(m, beside, body, before_update=before_update)
    return Details(
        stage=_stage(beside),
        title=f"{_shown(beside, where)} {_what(beside, before_update=before_update)} and takes {format_share(held)} of the time",
        opens_with_name=True,
        claims=(BODY,),
        evidence=_evidence(m, beside, body, held, where),
        counterfactual=counterfactual,
        gain=gain,
        fixes=_fixes(m, beside, before_update=before_update),
        names_cause=True,
    )


def _stage(beside: OutsideModel) -> str:
    """What gives something before the model begins is its input; what libraries do behind that is done with results."""
    if beside.makes_input:
        return "preprocess"
    return "compute" if beside.library is None else "output"


def _where(m: Measurements, beside: OutsideModel) -> str | None:
    """Where it is written; of a library's function, where it is called from, if stacks show that."""
    file, line = (beside.file, beside.first_line) if beside.library is None else beside.called_at or ("", 0)
    return f"{shown(file, m.trainer.facts.script)}:{line}" if file else None


def _gain(m: Measurements, beside: OutsideModel, body: Floats, *, before_update: bool) -> tuple[Gain, Counterfactual | None]:
    if beside.makes_input:
        spread = TimeSpread(low=beside.low / beside.share, high=beside.high / beside.share)
        return gain_in_workers(m, body * beside.share, spread)
    if not beside.is_hook:
        return unknown_gain(UNKNOWN_OF_GRADIENTS if before_update else UNKNOWN), None
    counterfactual = _counterfactual(m, beside, body)
    return predict(m, counterfactual), counterfactual


def _evidence(m: Measurements, beside: OutsideModel, body: Floats, held: float, where: str | None) -> tuple[Evidence, ...]:
    return (
        Evidence(
            name="line" if _is_top(beside) else "function",
            value=str(beside.first_line) if _is_top(beside) else beside.name,
            unit="",
            where=where,
        ),
        Evidence(name="time in it", value=held, unit="share of window", threshold=CLAIM),
        Evidence(name="calls", value=round(beside.calls, 1), unit="per step"),
        timed_in(m, beside.bodies, STEPS),
        Evidence(name="time per step", value=float(body.mean()) * beside.share / 1e6, unit="ms"),
    )


def _is_top(beside: OutsideModel) -> bool:
    """Whether it is a comprehension in no function: the script's own, or a cell's."""
    return TOP_LEVEL.fullmatch(beside.name) is not None


def _name(beside: OutsideModel) -> str:
    return f"line {beside.first_line}" if _is_top(beside) else beside.name


def _shown(beside: OutsideModel, where: str | None) -> str:
    if where is not None and _is_top(beside):
        return where
    place = ", ".join(filter(None, (beside.library and f"of {beside.library}", where)))
    return f"{beside.name} ({place})"


def _what(beside: OutsideModel, *, before_update: bool) -> str:
    if before_update:
        return "runs in every step, between backward and update,"
    if beside.makes_input:
        return "makes input of each batch on the training thread"
    return "is a hook that only looks at the model" if beside.is_hook else "runs in every step, is no part of the model"


def _fixes(m: Measurements, beside: OutsideModel, *, before_update: bool) -> tuple[Fix, ...]:
    lever = stub(m, beside.name, beside.file)
    readbacks = m.training.words.advise(Remedy.READBACKS)
    if beside.is_hook:
        return (Fix(text=f"call {_name(beside)} every k steps, or have it make no {readbacks} in each", lever=lever),)
    if before_update:
        return (
            Fix(text=f"call {_name(beside)} every k steps, if the training does not need it in each", lever=lever),
            Fix(text=f"let {_name(beside)} work on all parameters at once, without {readbacks} for each"),
        )
    if beside.makes_input:
        return (Fix(text=f"{_in_workers(m)}: what {_name(beside)} gives needs nothing of the model's"),)
    return (
        Fix(text=f"if {_name(beside)} makes input, {_in_workers(m)}", lever=None),
        Fix(text="if it watches or logs, do it every k steps", lever=lever),
    )


def _in_workers(m: Measurements) -> str:
    if m.trainer.waits.is_empty():
        return f"do it in a data set, in the workers of a {m.training.words.loader_class}"
    return "do it in the data set, so that the loader's workers do it"


def _counterfactual(m: Measurements, beside: OutsideModel, body: Floats) -> Counterfactual:
    removed = body * beside.share
    blocked = concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean()))
    expected = Case(removed_ns=removed, concurrent_ns=blocked, delay_share=delay_share(m, BODY))
    return Counterfactual(
        assumes=f"{_name(beside)} did nothing",
        expected=expected,
        pessimistic=replace(expected, removed_ns=body * beside.low * (1 - LEFT_PESSIMISTIC), concurrent_ns=PESSIMISTIC_BESIDE * blocked),
        optimistic=replace(expected, removed_ns=body * beside.high),
    )


PROVIDERS = (DEVICE_WORK, Provider(topics=("compute", "input", "machine", "trainer"), find=_by_calls))
RULE = Rule(name=NAME, stages=("preprocess", "compute", "output"), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
