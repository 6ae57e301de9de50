"""The training stands still while checkpoints are written.

What it sees:
    Checkpoint writes on the training thread hold at least 3 % of the window: by torch.save, safetensors or torch.distributed.checkpoint; of
    Keras, tf.train.Checkpoint, tf.saved_model, Orbax and flax what the training waits for; by pickle, NumPy, joblib or h5py where they
    write mostly the model's parameters or what its optimizer keeps for them. All that one step writes is one checkpoint, of however many
    files; what Lightning's and Hugging Face's trainers do around the writes counts too (gathering
    the state, deleting older files), and all that a function of the script does which writes checkpoints for half of its time or more
    (fsync, a rename). In a trace: those functions, and ranges that are named for it (save_checkpoint, ModelCheckpoint);
    with a device, where it had nothing to do meanwhile, at least 5 % of the window.
Why it costs:
    Serialising and writing a model on the training thread is time in which nothing is trained, and it grows with the model.
How the gain is predicted:
    r is the time of the writes, spread over the steps between them. B is what the loader's workers need per step, not below the CPU time of
    what is left divided by the cores. What the step after a write takes longer than its neighbours goes with it. At best the rest of
    the step is also an eighth faster: what a write leaves in memory the kernel brings to the disk during the training. In a trace the step
    is shorter by r; with a device the steps are replayed without the writes.
When it is wrong:
    With fewer than two writes in the window the share depends on how long was recorded: the interval says so; in a trace of few steps
    it begins at nothing. A write that returns before the disk has the data may slow later ones.
What to try:
    Write less often, or copy the state to memory and write it from a background thread (torch.distributed.checkpoint.async_save).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from slowstep.analyses.ledger.saves import is_saving
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.after_pause import after_pauses, longer_after, with_pauses
from slowstep.diagnosis.evidence.input.input_side import SIDE_BY_SIDE
from slowstep.diagnosis.evidence.profiled.named_ranges import WRITES, ranges
from slowstep.diagnosis.evidence.trainer_side import PESSIMISTIC_BESIDE, concurrent_producers_ns, delay_share, with_core_delay
from slowstep.diagnosis.gain import Case, Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import CHECKPOINT_OFF, stub_of
from slowstep.diagnosis.provider import Details, HeldTime, Provider
from slowstep.diagnosis.rule import CLAIM, Answer, Rule, judge_provided
from slowstep.findings import Evidence, Fix
from slowstep.frameworks._known import plain
from slowstep.frameworks._remedies import Remedy
from slowstep.frameworks._words import Words
from slowstep.part_words import part_called, part_name_and_place, part_place
from slowstep.parts import Part, PartKind
from slowstep.units import format_duration, format_share

NAME = "blocking-checkpoint"
# By stacks, of which one in ten may have met the write that another function asks for.
NEARLY_ALL = 0.9


def judge(m: Measurements) -> Answer:
    """Whether checkpoint writes, or ranges that are named for them, hold the training thread."""
    return judge_provided(m, NAME, PROVIDERS)


def _by_calls(m: Measurements) -> HeldTime | None:
    """What checkpoint writes hold of the training thread."""
    parts = [part for part in m.ledger.parts if is_saving(part)]
    if not parts:
        return None
    removed = sum((with_core_delay(m, part) for part in parts), 0.0 * m.step_ns)
    share, low, high = share_interval(m, removed)
    return HeldTime(share=share, low=low, high=high, at_least=CLAIM, details=partial(_of_calls, m, parts, removed, share))


def _of_calls(m: Measurements, parts: list[Part], removed: Floats, share: float) -> Details:
    spared = after_pauses(m, removed)
    counterfactual = with_pauses(_without_writing(m, parts, removed), spared)
    each = float(removed.sum()) / max(m.saves.count, 1)
    return Details(
        stage="store",
        title=f"{_stopping(m, parts)} for {format_duration(each)} at each of {m.saves.count} checkpoints, "
        f"{format_share(share)} of the time",
        opens_with_name=_one_function(m, parts) is not None,
        claims=tuple(parts),
        evidence=(*_evidence_of_calls(m, parts, each, share), *longer_after(spared), saved_by(m, counterfactual)),
        counterfactual=counterfactual,
        gain=predict(m, counterfactual),
        fixes=_fixes(m.training.words if any(part.kind is PartKind.CHECKPOINT for part in parts) else plain(), _lever(m, parts)),
        names_cause=True,
    )


def _evidence_of_calls(m: Measurements, parts: list[Part], each: float, share: float) -> tuple[Evidence, ...]:
    return (
        Evidence(name="checkpoints in the window", value=m.saves.count, unit="checkpoints", where=m.saves.where),
        Evidence(name="steps between checkpoints", value=m.saves.every_steps, unit="steps"),
        Evidence(name="one checkpoint", value=each / 1e6, unit="ms"),
        Evidence(name="files of one", value=m.saves.writes_each, unit="writes"),
        Evidence(name="size of one", value=None if m.saves.bytes_each is None else m.saves.bytes_each / 1e6, unit="MB"),
        *_beside_writing(m, parts),
        Evidence(name="writing", value=share, unit="share of window", threshold=CLAIM),
    )


def _without_writing(m: Measurements, parts: list[Part], removed: Floats) -> Counterfactual:
    case = Case(
        removed_ns=removed,
        concurrent_ns=concurrent_producers_ns(m, spared_cpu_ns=float(removed.mean())),
        delay_share=delay_share(m, *parts),
    )
    # At worst a write leaves a tenth of its time on the training thread: copying the state to memory.
    pessimistic = replace(case, removed_ns=0.9 * removed, concurrent_ns=PESSIMISTIC_BESIDE * case.concurrent_ns)
    # At best the training no longer shares cores and memory with the kernel, which writes to disk what the call has left in memory.
    relief = SIDE_BY_SIDE * (m.step_ns - removed).clip(min=0.0)
    optimistic = replace(case, removed_ns=removed + relief)
    return Counterfactual(
        assumes="writing checkpoints took no time on the training thread", expected=case, pessimistic=pessimistic, optimistic=optimistic
    )


def _stopping(m: Measurements, parts: list[Part]) -> str:
    """Who stops the training, where it is one function."""
    function = _one_function(m, parts)
    return "the training stops" if function is None else f"{part_name_and_place(function)} stops the training"


def _beside_writing(m: Measurements, parts: list[Part]) -> tuple[Evidence, ...]:
    """What the functions that ask for the writing do besides."""
    return tuple(
        Evidence(name=f"other work in {part_called(part)}", value=m.ledger.share_of(part), unit="share of window", where=part_place(part))
        for part in parts
        if part.kind is PartKind.SAVING_FUNCTION
    )


def _lever(m: Measurements, parts: list[Part]) -> str | None:
    """Without the function that writes them, where it is one and can be named; else without the writing alone, where a lever knows what
    writes.
    """
    function = _one_function(m, parts)
    return (None if function is None else stub_of(m, function)) or (CHECKPOINT_OFF if _is_left_out(m, parts) else None)


def _is_left_out(m: Measurements, parts: list[Part]) -> bool:
    """Whether nearly all is written by functions that the lever leaves out: a framework's, and none that may write anything."""
    writing = [part for part in parts if part.kind is PartKind.SAVE]
    others = [part for part in writing if part.name not in plain().left_out]
    return not others or m.ledger.total_of(*others) <= (1 - NEARLY_ALL) * m.ledger.total_of(*writing)


def _one_function(m: Measurements, parts: list[Part]) -> Part | None:
    """The function within which nearly all is written; None where there is none, as where the loop writes itself too."""
    return next((part for part in parts if m.ledger.written_within.get(part, 0.0) >= NEARLY_ALL), None)


def _fixes(words: Words, lever: str | None) -> tuple[Fix, ...]:
    """In the words of the framework whose trainer writes them."""
    seldom, aside = (
        words.write({Remedy.CHECKPOINT_BY_STEPS: True, Remedy.CHECKPOINT_STEPS: ...}),
        words.write({Remedy.CHECKPOINT_ASIDE: True}),
    )
    weights = words.write({Remedy.CHECKPOINT_WEIGHTS: True})
    often = f"write checkpoints less often{seldom and f', {seldom}'}"
    only = weights and f": {weights} keeps the weights alone, from which no optimizer goes on"
    return (
        Fix(text=f"{often}, or from a background thread on a copy of the state{aside and f', {aside}'}", lever=lever),
        Fix(text=f"leave out of the checkpoint what can be made again{only}"),
    )


PROVIDERS = (
    ranges(WRITES),
    Provider(topics=("compute", "input", "machine", "python", "saves", "trainer"), find=_by_calls),
)
RULE = Rule(name=NAME, stages=("store",), topics=("ledger", "steps", "training"), providers=PROVIDERS, judge=judge)
