"""After the report of a recording: the command that tells more, and what has to be changed before it can.

A script that ends by itself ends the same way again: then what is to be changed is all that is said, and no command.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.analyses.steps.steps import ENOUGH_NS, ENOUGH_STEPS, WARMUP_AT_MOST_SHARE
from slowstep.command_words import analyze, prove, run
from slowstep.diagnosis.few_steps import ENOUGH_TIME, enough, enough_ns, enough_steps
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.ending import ended_by_an_error, first_after_error, without_updates_ns
from slowstep.document.next_step import NextStep
from slowstep.reason_words import sentence
from slowstep.record.launching.folder import as_typed
from slowstep.sources._recording.damage import MISSING_RECORDS
from slowstep.timeline.timeline import Timeline
from slowstep.units import format_count, format_duration, type_duration
from slowstep.workflow.next_command.after_session import after_session
from slowstep.workflow.next_command.command_lines import filled_in, of_script, or_explained, to_paste

# Of a training that --stop ended with enough steps for a verdict, and without one.
_TIMES_AS_MANY: Final = 2
RECORD_AGAIN = "record again: records of this run are missing"
QUIETER = "repeat it on a quieter machine"


def after_recording(folder: Path, timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> NextStep:
    """What helps most now."""
    is_open = diagnosis.verdict.state == "undetermined"
    if timeline.run.session and is_open:
        alone = m.sharing.ranks == 1
        return after_session(
            timeline.run.session, diagnosis, words=m.training.words, steps=m.steps.total, is_alone=alone, enough=enough_steps(m)
        )
    found = _to_prove(timeline, m, diagnosis) or (_open(folder, timeline, m, diagnosis) if is_open else NextStep(first=diagnosis.change))
    first = found.first
    if ended_by_an_error(timeline) and (found.command is not None or diagnosis.verdict.state != "healthy"):
        first = first_after_error(timeline)
    step = replace(found, first=filled_in(found.command, first), folder=timeline.run.folder)
    return or_explained(step, state=diagnosis.verdict.state, rule=diagnosis.verdict.rule)


def _can_be_proved(timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> bool:
    """Whether a lever tries the fix of the bottleneck or bounds it, in a training that can be run again by its command, alone."""
    named = next((finding for finding in diagnosis.findings if finding.rule == diagnosis.verdict.rule), None)
    return named is not None and bool(named.fixes[0].lever or named.fixes[0].bounded_by) and _can_run_again(timeline, m)


def _can_run_again(timeline: Timeline, m: Measurements) -> bool:
    """Whether its command runs this training alone."""
    alone = timeline.run.session is None and timeline.run.launchers is None and m.sharing.ranks == 1
    return alone and bool(timeline.run.command)


def _to_prove(timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> NextStep | None:
    """The experiment that measures the fix, or tells what is open; None where none does."""
    if _can_be_proved(timeline, m, diagnosis):
        levers: tuple[str, ...] = ()
    elif diagnosis.deciding_levers is not None and _can_run_again(timeline, m):
        levers = ("--levers", diagnosis.deciding_levers)
    else:
        return None
    # A script that is over before its gains are known is started again.
    return of_script(prove(to_paste(timeline.run.command), *levers), diagnosis.change)


def _open(folder: Path, timeline: Timeline, m: Measurements, diagnosis: Diagnosis) -> NextStep:
    """What may leave less open."""
    if _is_damaged(timeline):
        return of_script(_again(timeline, *_given_limit(timeline)), RECORD_AGAIN)
    if m.steps.asked_too_many:
        # What was recorded is enough: less of it is to be left out.
        warmup = int(WARMUP_AT_MOST_SHARE * m.steps.total)
        return NextStep(command=analyze(as_typed(str(folder)), "--warmup", str(warmup)))
    if (longer := _longer(timeline, m)) is not None:
        # More steps beside others leave as much open.
        change = diagnosis.change or (QUIETER if m.machine.load.busy else None)
        # Of a script that is changed anyway the command is worth typing again.
        again = None if change is None else _again(timeline, *_raised_limit(timeline, m))
        return of_script(again, _both(change, longer))
    if not _ended_by_itself(timeline, m):
        # A limit would record no more than this run did.
        return of_script(_again(timeline, *_limit(timeline, m)), diagnosis.change)
    if diagnosis.change is not None:
        return of_script(_again(timeline, *_given_limit(timeline)), diagnosis.change)
    if m.machine.load.busy:
        return of_script(_again(timeline, *_given_limit(timeline)), QUIETER)
    if m.compute.device != "cpu" and not m.has("captured") and timeline.run.command:
        return of_script(_again(timeline, *_given_limit(timeline), capture=("--capture",)))
    return NextStep(
        first=f"let {_what(m)} train longer than these {format_count(m.steps.total, 'step')}: more epochs, with all that happens in them"
    )


def _again(timeline: Timeline, *limit: str, capture: tuple[str, ...] | None = None) -> str | None:
    """Another recording of the same command, changed, looked at and captured as this was; None where the command is not known."""
    asked = timeline.run
    warmup = () if asked.warmup is None else ("--warmup", str(asked.warmup))
    changed = [word for lever in asked.levers for word in ("--with", lever)]
    captured = _given_capture(timeline) if capture is None else capture
    return run(to_paste(asked.command), *limit, *warmup, *changed, *captured) if asked.command else None


def _given_capture(timeline: Timeline) -> tuple[str, ...]:
    """--capture, as it was given."""
    return () if timeline.run.asked_capture is None else (f"--capture={'-'.join(map(str, timeline.run.asked_capture))}",)


def _given_limit(timeline: Timeline) -> tuple[str, ...]:
    """--steps, --for and --stop, as they were given."""
    return _limit_words(timeline.run.asked_steps, timeline.run.asked_seconds, stops=timeline.run.stops)


def _raised_limit(timeline: Timeline, m: Measurements) -> tuple[str, ...]:
    """The same, of a script that is to train for longer: each raised to what is enough for a verdict where it was less."""
    asked, step_ns = timeline.run, max(m.mean_step_ns, 1.0)
    # From the first update to the last there is a step less than there are updates.
    needed_ns = max(enough_steps(m) * step_ns, ENOUGH_NS) + step_ns
    steps = None if asked.asked_steps is None else max(asked.asked_steps, _rounded_up(needed_ns / step_ns, 100))
    seconds = None if asked.asked_seconds is None else max(asked.asked_seconds, _rounded_up(needed_ns / 1e9, 10))
    return _limit_words(steps, seconds, stops=asked.stops)


def _rounded_up(number: float, to: int) -> int:
    return math.ceil(number / to) * to


def _limit_words(steps: int | None, seconds: float | None, *, stops: bool) -> tuple[str, ...]:
    count = () if steps is None else ("--steps", str(steps))
    time = () if seconds is None else ("--for", f"{seconds:g}s")
    return (*count, *time, *(("--stop",) if stops and (count or time) else ()))


def _limit(timeline: Timeline, m: Measurements) -> tuple[str, ...]:
    """How much to record, as options of `run`: of long steps as long as a verdict takes; no end where this was enough, but with --stop."""
    if enough_steps(m) < ENOUGH_STEPS:
        # What came after the last update comes again, and may not have been all of it.
        limit: tuple[str, ...] = ("--for", type_duration(enough_ns(m) + _TIMES_AS_MANY * without_updates_ns(timeline, m)))
    else:
        steps = ENOUGH_STEPS if m.steps.total < ENOUGH_STEPS else _TIMES_AS_MANY * m.steps.total if timeline.run.stops else None
        limit = () if steps is None else ("--steps", str(max(steps, *(timeline.run.asked_capture or (0,)))))
    return (*limit, *(("--stop",) if timeline.run.stops else ()))


def _both(change: str | None, longer: str | None) -> str | None:
    return ", and ".join(filter(None, (change, longer))) or None


def _longer(timeline: Timeline, m: Measurements) -> str | None:
    """What a script is to be given that ended by itself before there was enough of it; None where there was."""
    if _is_damaged(timeline) or not (_ended_by_itself(timeline, m) or _was_nearly_over(timeline, m)):
        return None
    trained_ns = float(m.trainer.update_end_ns[-1] - m.trainer.update_end_ns[0])
    if m.steps.total >= enough_steps(m) and trained_ns >= ENOUGH_NS:
        return None
    # The steps that are looked at reach from a boundary to another, further than these updates.
    made = f"{format_count(m.steps.total, 'step')} in {format_duration(max(trained_ns, float(m.step_ns.sum())))}"
    lacking = ENOUGH_TIME() if m.steps.total >= enough_steps(m) else enough(m)
    return f"change {_what(m)} so that it trains for {sentence(lacking)}: it ended by itself after {made}"


def _was_nearly_over(timeline: Timeline, m: Measurements) -> bool:
    """Whether the command ended so soon after a recording that was to end before it that no whole one would have been enough."""
    updates, left_ns = m.trainer.update_end_ns, _left_ns(timeline, m)
    if left_ns is None:
        return False
    too_few = m.steps.total + left_ns / max(m.mean_step_ns, 1.0) < enough_steps(m)
    return too_few or float(updates[-1] - updates[0]) + left_ns < ENOUGH_NS


def _left_ns(timeline: Timeline, m: Measurements) -> float | None:
    """For how long the command went on after a recording that was to end before it; None where it was ended, or that is not known."""
    run = timeline.run
    if run.session is not None or run.stops or run.exit_code != 0 or run.ended_ns is None:
        return None
    return max(float(run.ended_ns - m.trainer.update_end_ns[-1]), 0.0)


def _is_damaged(timeline: Timeline) -> bool:
    """Whether records are missing at its end: how long the script trained is then not known."""
    return any(row.name == MISSING_RECORDS.name for row in timeline.health)


def _what(m: Measurements) -> str:
    return "the script" if m.trainer.elsewhere is None else "this training"


def _ended_by_itself(timeline: Timeline, m: Measurements) -> bool:
    """Whether the training came to its own end: not to that of the recording, nor by an error or a signal."""
    return timeline.run.session is None and not timeline.run.exit_code and m.trainer.facts.notes.get("end") == "exit"
