"""The section `run` of the report of a recording: what was run, how, for how long, and what the reader must know of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from slowstep.analyses.measurements import CapturedWindow, Measurements
from slowstep.analyses.over_time.over_time import OccasionalEvent
from slowstep.analyses.steps.phases import TrainingInTurn
from slowstep.diagnosis.evidence.input.by_workers import how_to_divide
from slowstep.diagnosis.few_steps import is_provisional
from slowstep.document.captured import capture_facts, capture_note
from slowstep.document.ending import ending_note, without_updates_ns
from slowstep.document.run_rows import InTurn, Periodic, Run, StartupPartRow, bare_run
from slowstep.faults import Attempts
from slowstep.frameworks._known import DEFAULT
from slowstep.frameworks._words import Words
from slowstep.part_words import part_in_words
from slowstep.record.writing.format import EXPERIMENT_FILE, LEVER_FAILED, LEVER_NOT_APPLICABLE, LEVER_ON
from slowstep.stages import UNATTRIBUTED
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.timeline import Timeline
from slowstep.units import format_duration

# Of such a loader every other step at most has a batch.
_IN_TURNS = 1.5
# `slowstep bench` posts plans, and writes no file of an experiment.
_BENCHED = (
    "slowstep bench stopped this training, read its loader and fed it cached batches: this report is of the steps before that; "
    "slowstep run records the training as it is"
)


def recorded_run(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> Run:
    """What is known of the run of one training of a recording. What cannot be told is one of the faults of `attempt`."""
    return attempt.otherwise(_bare_run(folder, timeline), _run, folder, timeline, m, attempt)


def _by_hand(m: Measurements) -> str | None:
    """How steps are told in a script without an optimizer."""
    return "no optimizer of the framework was used, so a step is taken to end with its backward pass" if m.trainer.by_hand else None


def _several_models(m: Measurements) -> str | None:
    """That the steps are not all of one training: models take turns, or are many, or have few steps each."""
    if m.trainer.models < 2:
        return None
    return f"{m.trainer.models} models are trained by the same lines, and judged as one training"


def repeated_samples(m: Measurements) -> str | None:
    """That several workers may each give all samples of a stream."""
    loader, how = m.input.loader, how_to_divide(m)
    if loader is None or loader.num_workers < 2 or how is None:
        return None
    workers, of = loader.num_workers, loader.data_set or "the data set"
    return f"each of the {workers} workers may give all samples of {of}, {workers} times an epoch, unless it draws them at random: {how}"


def _name(run: RunFacts, script: str | None) -> str:
    """What was run: of a command that names no script, as `bash run.sh`, the one that trained."""
    is_programs = bool(run.command) and Path(run.command[0]).stem == run.name
    return Path(script).stem if is_programs and script is not None else run.name


def _bare_run(folder: Path, timeline: Timeline) -> Run:
    """What is known of a run of which nothing was measured."""
    run = timeline.run
    return bare_run(name=run.name, command=list(run.command), started=run.started, recording=str(folder), exit_code=run.exit_code)


def _run(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> Run:
    run, facts, steps = timeline.run, m.trainer.facts, m.steps
    first = int(m.trainer.update_end_ns[0])
    follows = m.trainer.elsewhere is not None and m.trainer.elsewhere.before > 0
    began_ns = run.session.from_ns if run.session else run.started_ns
    row: dict[str, Any] = {
        "name": _name(run, facts.script),
        "command": list(run.command),
        "framework": _framework(facts.framework or DEFAULT, facts.framework_version, m.training.words),
        "ranks": attempt.otherwise(1, lambda: m.sharing.ranks),
        "steps": steps.count,
        "step_boundary": steps.boundary,
        "batch_size": steps.batch_size,
        "batch_size_from": steps.batch_size_from,
        "batches_per_step": steps.batches_per_step,
        "device": attempt.otherwise(None, lambda: m.compute.device),
        "started": run.started,
        "duration_s": _seconds(began_ns, run.ended_ns),
        "startup_s": None if follows else _seconds(run.started_ns, first),
        "warmup_steps": steps.warmup,
        "provisional": is_provisional(m),
        "recording": str(folder),
        "recorded_steps": steps.total,
        "whole_periods": steps.whole_periods,
        "period_steps": steps.period,
        "cores": attempt.otherwise(None, lambda: m.machine.load.cores),
        "threads": facts.threads,
        "num_workers": attempt.otherwise(None, lambda: m.input.loader.num_workers if m.input.loader else None),
        "exit_code": run.exit_code,
        "startup": attempt.otherwise(None, _startup, m),
        "periodic": attempt.otherwise([], _periodic, m),
    }
    more = _of_some_runs(folder, timeline, m, attempt)
    return cast(Run, row | {name: value for name, value in more.items() if value})


def _of_some_runs(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> dict[str, Any]:
    """What there is to say of some runs only: empty where it is not."""
    notes, window = _notes(folder, timeline, m, attempt), attempt.otherwise(None, _captured, m)
    if window is not None and window.m is not None:
        notes.append(capture_note(folder, window, window.m))
    return {
        "in_turn": [_in_turn(training) for training in m.trainer.elsewhere.trainings] if m.trainer.elsewhere is not None else [],
        "capture": capture_facts(folder, window) if window is not None and window.m is not None else None,
        "not_read": [{"monitor": monitor, "reason": reason} for monitor, reason in timeline.run.not_read],
        "notes": notes,
        **_of_some_steps(m),
    }


def _of_some_steps(m: Measurements) -> dict[str, Any]:
    """What is told only of steps that are not a batch and an update each, or of which not all is known."""
    trainer, steps = m.trainer, m.steps
    return {
        "steps_per_batch": trainer.steps_per_batch if trainer.steps_per_batch >= _IN_TURNS else None,
        "asynchronous": trainer.is_asynchronous,
        "updates_per_step": trainer.updates_per_step if trainer.updates_per_step > 1 else None,
        "batch_size_assumed": steps.is_batch_size_assumed,
        "batch_sizes": None if steps.batch_sizes is None else list(steps.batch_sizes),
    }


def _notes(folder: Path, timeline: Timeline, m: Measurements, attempt: Attempts) -> list[str]:
    """What the reader must know of it, a sentence each."""
    said = [attempt.otherwise(None, note, m) for note in (_by_hand, _several_models, repeated_samples, _stopped)]
    said.append(attempt.otherwise(None, _without_updates, timeline, m))
    said += [attempt.otherwise(None, ending_note, timeline), attempt.otherwise(None, _session, timeline, m)]
    notes = [note for note in said if note]
    if timeline.run.experiment_ns is not None and not (folder / EXPERIMENT_FILE).exists():
        notes.append(_BENCHED)
    return notes + lever_notes(timeline.run.levers, m.trainer.facts.notes.get("levers", ()))


def _seconds(begin_ns: int | None, end_ns: int | None) -> float | None:
    """From one time to another; None where one is unknown, or in a damaged recording lies on the wrong side of the other."""
    return (end_ns - begin_ns) / 1e9 if begin_ns and end_ns and end_ns >= begin_ns else None


def _in_turn(training: TrainingInTurn) -> InTurn:
    seconds = training.length_ns / 1e9
    known = training.samples is not None and seconds > 0
    rate = cast(int, training.samples) / seconds if known else None
    return {"steps": training.steps, "s": seconds, "samples_per_s": rate, "judged": training.is_judged}


def _framework(name: str, version: str | None, words: Words) -> str:
    """Which framework, its version, and whose loop trains where it is not the script's."""
    version = f"{name} {version}" if version else name
    return version if words.name in (DEFAULT, name) else f"{version} with {words.title}"


def _captured(m: Measurements) -> CapturedWindow | None:
    return m.captured if m.has("captured") else None


def _stopped(m: Measurements) -> str | None:
    """That the process was suspended for a while, which is no part of the ledger."""
    times, seconds = m.machine.stopped
    if not times:
        return None
    how_often = "once" if times == 1 else f"{times} times"
    return (
        f"the training was suspended {how_often}, {format_duration(seconds * 1e9)} in total (stopped, or the machine was asleep); "
        "that time is left out"
    )


def _without_updates(timeline: Timeline, m: Measurements) -> str | None:
    """That of a short recording much came after its last update, and is in none of its steps."""
    left_ns = without_updates_ns(timeline, m) if is_provisional(m) else 0
    if not left_ns:
        return None
    return f"nothing was updated in the last {format_duration(left_ns)} of the recording, as while a model is evaluated: it is in no step"


def _session(timeline: Timeline, m: Measurements) -> str | None:
    """That the recording was begun in mid-run, and which part of it is reported."""
    session = timeline.run.session
    if session is None:
        return None
    text = f"recorded from within {session.kind} that was running already: its start-up is not part of the report"
    if not m.trainer.other_cells:
        return text
    here, others = len(m.trainer.update_end_ns), m.trainer.other_cells
    return f"{text}; of several cells or commands that trained, the one with most updates is reported ({here}; {others} in others)"


def _startup(m: Measurements) -> list[StartupPartRow] | None:
    found = m.over_time.startup
    return None if found is None else [{"name": part.name, "s": part.ns / 1e9} for part in found.parts]


def _periodic(m: Measurements) -> list[Periodic]:
    """What is not in every step, most time first."""
    whole = float(m.step_ns.sum())
    rows: list[Periodic] = [
        {"name": _event_name(e), "every_steps": e.every_steps, "ms": e.each_ns / 1e6, "share": min(float(e.ns.sum()) / whole, 1.0)}
        for e in m.over_time.events
    ]
    return sorted(rows, key=lambda row: -row["share"])


def _event_name(event: OccasionalEvent) -> str:
    if event.name is not None:
        return str(event.name)
    return "something unnamed" if event.part.stage == UNATTRIBUTED else part_in_words(event.part)


def lever_notes(asked: Iterable[str], said: Iterable[Mapping[str, Any]]) -> list[str]:
    """A sentence for each lever of `--with`, from the `lever` notes of the training's process."""
    notes = list(said)
    return [_lever_sentence(name, [note for note in notes if note.get("name") == name]) for name in asked]


def _lever_sentence(name: str, notes: list[Mapping[str, Any]]) -> str:
    states = {str(note.get("state")): note for note in notes}
    ending = states.get(LEVER_FAILED) or states.get(LEVER_NOT_APPLICABLE)
    reason = None if ending is None else ending.get("reason")
    if LEVER_ON in states:
        first = (states[LEVER_ON].get("updates") or 0) + 1
        text = f"{name} was on from step {first} on: times and results are not those of the script as it is"
        return text if ending is None else f"{text}; it failed later and was undone ({reason})"
    if LEVER_NOT_APPLICABLE in states:
        return f"{name} was not on: not applicable, because {reason}"
    if LEVER_FAILED in states:
        return f"{name} was not on: it failed ({reason})"
    return f"{name} was never on: no step was seen after which it was ready"
