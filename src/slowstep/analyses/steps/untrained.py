"""What is said of a recording in which no update was seen: what was seen instead, how the command ended, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slowstep.frameworks._known import all_words
from slowstep.health import DAMAGE, Health
from slowstep.reason_words import sentence
from slowstep.timeline.run_facts import RunFacts
from slowstep.units import format_count

if TYPE_CHECKING:
    from slowstep.timeline.timeline import Timeline

_AUTO = "If the command does train, put `import slowstep.auto` as the first line of the training script and run it the same way."
_NOT_YET = "It may not have come to its first update yet (a validation before it, for instance): let it run longer."
_AROUND = "Record around the training itself: `with slowstep.record():`, or slowstep.start() before it and slowstep.stop() after it."
_LONGER = "Let it run until it trains (with --stop, give --for more)."
_LONGER_INSIDE = "Record on until it trains."
_BY_HAND = (
    "Updates without a torch.optim optimizer are recorded from the fourth backward pass on. Or profile a few steps with torch.profiler, "
    "prof.step() after each, and give the trace to slowstep analyze."
)

_IN_CLOSURES: Final = "One may compute its loss and gradients many times, as L-BFGS does."
_STEP: Final = (
    "A step is one update of a model by PyTorch, JAX, TensorFlow or Keras: a loop without them has none, and no report can be made of it."
)
_RECORDS: Final = "slowstep run records PyTorch, JAX, TensorFlow and Keras trainings, on Linux, in Python 3.11 or later."


@dataclass(frozen=True, slots=True)
class _Framework:
    """A framework that was imported: why nothing of it may have been seen, and how a few steps are profiled in it."""

    no_step: str
    profile: str

    @property
    def remedy(self) -> str:
        """What to do then."""
        return f"Profile a few steps of it ({self.profile}), and diagnose the trace: slowstep analyze logs"


_BY_TENSORFLOW: Final = 'tf.profiler.experimental.start("logs") before them, .stop() after them'
# Those that import others come first. Of a program that imports torch none of this is said: it may only look whether they are there.
_OTHERS: Final = {
    "keras": _Framework(
        "the command imported Keras, and trained no model by fit or train_on_batch, nor by an optimizer of Keras.",
        _BY_TENSORFLOW,
    ),
    "tensorflow": _Framework(
        "the command imported TensorFlow, and called no tf.function that computes gradients or updates parameters.", _BY_TENSORFLOW
    ),
    "jax": _Framework(
        "the command imported JAX, and called no jitted function with the parameters that its call before gave.",
        'inside `with jax.profiler.trace("logs"):`',
    ),
}

# A command that fails sooner has hardly imported what it needs, let alone trained.
AT_ONCE_NS: Final = 10_000_000_000
# Of fewer backward passes updates by hand cannot be told.
_BACKWARDS_BY_HAND: Final = 4
# What is missing of a recording may be all of the training.
LOSSES: Final = ("data_loss", "error")


def describe_untrained(timeline: Timeline) -> str:
    """Why there is nothing to diagnose."""
    run, seen = timeline.run, sum(1 for facts in timeline.processes if facts.role == "trainer")
    if not seen:
        return describe_unseen(run, timeline.health)
    if told := _losses(run, timeline.health):
        return told
    ending = _ending(run)
    batches = timeline.table("waits").height
    backwards = int((timeline.table("spans")["kind"] == "backward").sum())
    if not backwards and (other := _other(run.told or ())) is not None:
        # What was seen is the loader's that feeds it.
        return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {other.no_step}", ending, other.remedy)))
    requested = f"{format_count(batches, 'batch', 'batches')} requested"
    if not backwards and all(facts.framework_version is None for facts in timeline.processes if facts.role == "trainer"):
        asked = f"{requested} through slowstep.steps(), and PyTorch was not imported"
        return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {asked}. {_STEP}", ending)))
    who, made = format_count(seen, "process", "processes"), format_count(backwards, "backward pass", "backward passes")
    used = f"{who} used PyTorch ({requested}, {made})"
    longer = _LONGER_INSIDE if run.session else _LONGER
    if any(facts.notes["optimizers"] for facts in timeline.processes):
        # An optimizer is noted as its first step() begins.
        begun = f"no training step was recorded{_duration(run)}: {used}, and the first step() of its optimizer had not ended."
        return " ".join(filter(None, (begun, _IN_CLOSURES, ending, "" if _failed(run) else longer)))
    what = f"no training step was recorded{_duration(run)}: {used}, but no step() of a torch.optim optimizer was called."
    if _failed(run) and backwards < _BACKWARDS_BY_HAND:
        # It did not come to training: that is why.
        return f"{what} {ending}"
    return " ".join(filter(None, (what, ending, "" if backwards else longer, _BY_HAND)))


def describe_unseen(run: RunFacts, health: Iterable[Health]) -> str:
    """The same of a run in which nothing of a training was seen."""
    if told := _losses(run, health):
        return told
    ending = _ending(run)
    if _failed_at_once(run):
        # It did not come to any training, seen or not.
        return f"no training step was recorded{_duration(run)}. {ending}"
    if run.session:
        return f"no training step was recorded{_duration(run)}: nothing called a loader, backward or an optimizer. {_AROUND}"
    not_yet = _NOT_YET if run.killer is not None or run.stop_signals else ""
    if elsewhere := _trains_elsewhere(run):
        why, remedy = elsewhere[0], "" if _failed_itself(run) else elsewhere[1]
        return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {why}", ending, not_yet, remedy)))
    called = "no process that PyTorch was imported in called a loader, backward or an optimizer."
    auto = "" if _failed_itself(run) else _AUTO
    return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {called}", ending, not_yet, auto)))


def _losses(run: RunFacts, health: Iterable[Health]) -> str | None:
    """What is said where something of the recording was lost; None where nothing was."""
    if lost := sorted((row for row in health if row.severity in LOSSES), key=lambda row: row.name not in DAMAGE):
        # What was not called cannot be told from what was not kept, nor whether the command ended before or after it.
        what = "no training step could be read" + ("" if lost[0].name in DAMAGE else _duration(run))
        return " ".join(filter(None, (f"{what}: {sentence(lost[0].remedy).rstrip('.')}.", _failure(run, ""))))
    return None


def _trains_elsewhere(run: RunFacts) -> tuple[str, str] | None:
    """Why nothing can have been recorded, and what to do: nothing that is was ever imported. None where it was, or may have been."""
    told = run.told
    if told is None or "torch" in told:
        return None
    if (other := _other(told)) is not None:
        return other.no_step, other.remedy
    if not all_words().keys().isdisjoint(told):
        return None
    if "old_python" in told:
        return f"the command runs a Python older than 3.11. {_RECORDS}", "Train with Python 3.11 or later."
    if "python" in told:
        return f"PyTorch was never imported by this command. {_RECORDS}", ""
    return f"the command started no Python process that slowstep could record. {_RECORDS}", _AUTO


def _other(told: Iterable[str]) -> _Framework | None:
    return next((_OTHERS[name] for name in _OTHERS if name in told), None)


def with_failure(run: RunFacts, text: str) -> str:
    """What is said of too few updates, and how the command ended, where that is why there are no more."""
    failure = "" if run.was_sandboxed or run.stop_signals else _failure(run, "after that")
    return " ".join(filter(None, (text, failure)))


def _failed(run: RunFacts) -> bool:
    return bool(run.exit_code) and not run.stop_signals


def _failed_itself(run: RunFacts) -> bool:
    """Whether an error of its own ended it: that is why it did not train, as far as anybody knows."""
    return _failed(run) and run.killer is None


def _failed_at_once(run: RunFacts) -> bool:
    return _failed(run) and run.started_ns is not None and run.ended_ns is not None and run.ended_ns - run.started_ns < AT_ONCE_NS


def _duration(run: RunFacts) -> str:
    began_ns = run.session.from_ns if run.session else run.started_ns
    if began_ns is None or run.ended_ns is None or run.ended_ns <= began_ns:
        return ""
    seconds = (run.ended_ns - began_ns) / 1e9
    # In less, nobody expects one.
    return f" in {seconds:.0f} s" if seconds >= 1 else ""


def _ending(run: RunFacts) -> str:
    """How the command ended, where that says more than that it is over."""
    if run.was_sandboxed:
        return "The experiment ended before it trained, and its command was killed."
    if run.stop_signals:
        return "The command was ended by --stop, after the time given with --for."
    return _failure(run, "before any update")


def _failure(run: RunFacts, when: str) -> str:
    if not run.exit_code:
        return ""
    if run.killer is not None:
        return f"The command was ended by {run.killer} (exit code {run.exit_code}) {when}".rstrip() + "."
    if not when:
        return f"The command failed (exit code {run.exit_code})."
    return f"The command failed {when} (exit code {run.exit_code}): its own error message (above, where it ran) says why."
