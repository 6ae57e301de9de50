"""What is said of a recording in which no update was seen: what was seen instead, how the command ended, and what to do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from slowstep.frameworks._known import DEFAULT, all_words, plain
from slowstep.frameworks._remedies import Remedy
from slowstep.health import DAMAGE, Health
from slowstep.reason_words import sentence
from slowstep.record.framework import known_frameworks
from slowstep.record.writing.format import BEGUN
from slowstep.timeline.run_facts import RunFacts
from slowstep.units import format_count

if TYPE_CHECKING:
    from slowstep.frameworks._words import Words
    from slowstep.timeline.timeline import Timeline

_AUTO = "If the command does train, put `import slowstep.auto` as the first line of the training script and run it the same way."
_NOT_YET = "It may not have come to its first update yet (a validation before it, for instance): let it run longer."
_AROUND = "Record around the training itself: `with slowstep.record():`, or slowstep.start() before it and slowstep.stop() after it."
_LONGER = "Let it run until it trains (with --stop, give --for more)."
_LONGER_INSIDE = "Record on until it trains."
_IN_CLOSURES: Final = "One may compute its loss and gradients many times, as L-BFGS does."
_STEP: Final = "A step is one update of a model by {frameworks}: a loop without them has none, and no report can be made of it."
_PROFILE_OTHER: Final = "If something else trains here, profile a few steps of it, and diagnose the trace: slowstep analyze TRACE."
_RECORDS: Final = "slowstep run records {frameworks} trainings, on Linux, in Python 3.11 or later."

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
    if not backwards and (begun := _first_begun(run)) is not None:
        return begun
    if not backwards and (found := _first_imported(run.told or ())) is not None:
        # What was seen is the loader's that feeds it.
        return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {_no_step_of(found)}", ending, _profile(found))))
    requested = f"{format_count(batches, 'batch', 'batches')} requested"
    if not backwards and all(facts.framework_version is None for facts in timeline.processes if facts.role == "trainer"):
        asked = f"{requested} through slowstep.steps(), and {plain().title} was not imported"
        step = _STEP.format(frameworks=_recorded(" or "))
        return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {asked}. {step}", ending)))
    who, made = format_count(seen, "process", "processes"), format_count(backwards, "backward pass", "backward passes")
    used = f"{who} used {plain().title} ({requested}, {made})"
    longer = _LONGER_INSIDE if run.session else _LONGER
    if any(facts.notes["optimizers"] for facts in timeline.processes):
        # An optimizer is noted as its first step() begins.
        begun = f"no training step was recorded{_duration(run)}: {used}, and the first step() of its optimizer had not ended."
        return " ".join(filter(None, (begun, _IN_CLOSURES, ending, "" if _failed(run) else longer)))
    what = f"no training step was recorded{_duration(run)}: {used}, but {plain().unseen}."
    if _failed(run) and backwards < _BACKWARDS_BY_HAND:
        # It did not come to training: that is why.
        return f"{what} {ending}"
    return " ".join(filter(None, (what, ending, "" if backwards else longer, plain().advise(Remedy.TOLD_BY_HAND))))


def describe_unseen(run: RunFacts, health: Iterable[Health]) -> str:
    """The same of a run in which nothing of a training was seen."""
    if told := _losses(run, health):
        return told
    if (begun := _first_begun(run)) is not None:
        return begun
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
    called = f"no process that {plain().title} was imported in called a loader, backward or an optimizer."
    # Libraries of one framework's import others beside it: which of them trains is not known.
    also = _first_imported(run.told or ())
    unseen, profile = ("", "") if also is None else (f"The command imported {also.title} too, and {also.unseen}.", _profile(also))
    advice = () if _failed_itself(run) else (_AUTO, profile and f"{profile}.")
    return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {called}", unseen, ending, not_yet, *advice)))


def _losses(run: RunFacts, health: Iterable[Health]) -> str | None:
    """What is said where something of the recording was lost; None where nothing was."""
    if lost := sorted((row for row in health if row.severity in LOSSES), key=lambda row: row.name not in DAMAGE):
        # What was not called cannot be distinguished from what was not kept, nor whether the command ended before or after it.
        what = "no training step could be read" + ("" if lost[0].name in DAMAGE else _duration(run))
        return " ".join(filter(None, (f"{what}: {sentence(lost[0].remedy).rstrip('.')}.", _failure(run, ""))))
    return None


def _trains_elsewhere(run: RunFacts) -> tuple[str, str] | None:
    """Why nothing can have been recorded, and what to do: nothing that is was ever imported. None where it was, or may have been."""
    told = run.told
    if told is None or DEFAULT in told:
        return None
    if (found := _first_imported(told)) is not None:
        return _no_step_of(found), _profile(found)
    if not {framework.name for framework in known_frameworks()}.isdisjoint(told):
        return None
    records = _RECORDS.format(frameworks=_recorded(" and "))
    if "old_python" in told:
        return f"the command runs a Python older than 3.11. {records}", "Train with Python 3.11 or later."
    if "python" in told:
        return f"this command imported none of {_recorded(' or ')}. {records}", _PROFILE_OTHER
    return f"the command started no Python process that slowstep could record. {records}", _AUTO


def _first_begun(run: RunFacts) -> str | None:
    """What is said where a call that trains had begun, and none ended; None where none had."""
    found = _first_imported(run.told or ()) if BEGUN in (run.told or ()) else None
    if found is None or not found.begun:
        return None
    longer = "" if _failed_itself(run) else _LONGER_INSIDE if run.session else _LONGER
    return " ".join(filter(None, (f"no training step was recorded{_duration(run)}: {found.begun}.", _ending(run), longer)))


def _first_imported(told: Iterable[str]) -> Words | None:
    """Of the frameworks that were imported the first that is recorded and can say why no step of it was; plain ones apart."""
    imported = [words for name, words in all_words().items() if name in told and name != DEFAULT and words.unseen]
    # One that trains on others imports these.
    return min(imported, key=lambda words: not words.has_loop, default=None)


def _no_step_of(words: Words) -> str:
    # Of a program that does not train with it, this may not be said: it may only look whether it is there.
    return f"the command imported {words.title}, and {words.unseen}."


def _profile(imported: Words) -> str:
    """How a few steps are profiled with it, to diagnose those."""
    return f"Profile a few steps of it ({imported.advise(Remedy.PROFILE_STEPS)}), and diagnose the trace: slowstep analyze logs"


def _recorded(joined: str) -> str:
    """The frameworks whose import begins a recording, by their titles."""
    names = sorted((each.name for each in known_frameworks() if each.module is not None), key=lambda name: (name != DEFAULT, name))
    titles = [all_words()[name].title for name in names if name in all_words()]
    return joined.join(", ".join(titles).rsplit(", ", 1))


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
