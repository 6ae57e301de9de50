"""What an experiment adds to the report of a recording: a row for every lever, the findings' measured gains, and whether to trust them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from slowstep.analyses.machine.load import is_busy
from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.tried import Tried
from slowstep.document.experiment_rows import ExperimentFacts, ExperimentRow, HeldBack, IntervalRow, OutcomeRow, StartRow
from slowstep.document.proved import numbers_of, outcome_row
from slowstep.document.rows import finding_row, health_row
from slowstep.document.sections import ExperimentSection
from slowstep.findings import MeasuredGain
from slowstep.health import Health, HealthKind
from slowstep.prove.arm_levers import LOADED, STOLEN
from slowstep.prove.choose import Choice, Untried
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.experiment import Experiment
from slowstep.prove.lever_faults import LeverFault
from slowstep.prove.recorded import Recorded
from slowstep.prove.results import (
    KEPT_FIRST,
    LONG_STEPS,
    OWN_LONG_STEPS,
    SELDOM,
    ExperimentResults,
    Result,
    find_results,
    verdict_on_bound,
)
from slowstep.prove.stats.estimates import Estimate
from slowstep.prove.stats.intervals import Interval
from slowstep.prove.stats.judging import WORTH
from slowstep.prove.stats.repeated import RepeatedRuns
from slowstep.prove.stats.verdicts import ArmState, GainVerdict
from slowstep.reason_words import sentence
from slowstep.reasons import Reason
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever import NUMERICS
from slowstep.record.writing.format import LEVER_GIVEN_UP

# A sandbox that writes at half the speed, or twice, changes what checkpoints and logs cost.
USUAL_WRITES = (0.5, 2.0)
EXPERIMENT_NOT_TRUSTWORTHY: Final = HealthKind(
    "experiment-not-trustworthy",
    "error",
    "the control, which has no lever, 'gained' {gain:ratio}: repeat on a quieter machine, or for longer",
)
SELDOM_LONG_STEPS: Final = HealthKind(
    "seldom-long-steps",
    "notice",
    "in {blocks:count block} some steps took up to {most_s:.1f} s longer than usual, input apart, {share:share} of the time in all: it is "
    "spread over all levers, and what most of them do to it was not measured",
)
RERUNS_NOT_TRUSTWORTHY: Final = HealthKind(
    "reruns-not-trustworthy", "error", "whole runs without a lever differed from each other: repeat on a quieter machine"
)
SANDBOX_WRITES: Final = HealthKind(
    "sandbox-writes",
    "info",
    "the sandbox writes files at {ratio:.2f} times the speed outside, which changes what checkpoints and logs cost",
)
UNUSUAL_SANDBOX_WRITES: Final = replace(SANDBOX_WRITES, severity="notice")
LEVER_NOT_UNDONE: Final = HealthKind("lever-not-undone", "error", "{lever}: {reason}; test the other levers without it (--levers)")
_UNSEEN: Final = (GainVerdict.REFUTED, GainVerdict.OPEN)
# What the report calls each reason to hold a verdict back, and which verdicts it holds back. Below what a gain would not show is as little
# known where what would show it came too seldom.
_HELD_BACK: Final[dict[str, tuple[HeldBack, tuple[GainVerdict, ...]]]] = {
    LOADED.code: ("load", (GainVerdict.REFUTED,)),
    STOLEN.code: ("load", (GainVerdict.REFUTED,)),
    SELDOM.code: ("seldom", _UNSEEN),
    OWN_LONG_STEPS.code: ("seldom", _UNSEEN),
    LONG_STEPS.code: ("long steps", _UNSEEN),
    KEPT_FIRST.code: ("kept", (GainVerdict.OPEN,)),
}
_NOTHING: ExperimentRow = {
    "lever": None,
    "role": "none",
    "rule": None,
    "state": "untried",
    "reason": None,
    "predicted": None,
    "gain": None,
    "wall": None,
    "corrected": None,
    "used": None,
    "why": None,
    "verdict": None,
    "held_back": None,
    "below": None,
    "rounds": 0,
    "steps": 0,
    "effect": None,
    "facts": {},
    "changes": [],
    "changes_numerics": False,
    "numerics": None,
    "how": None,
    "throughput": None,
}


def experiment_section(experiment: Experiment, recorded: Recorded | None, diagnosis: Diagnosis) -> ExperimentSection:
    """What an experiment adds to the report of a training; `recorded` is what its recording holds of it, None without a plan."""
    findings = {finding.rule: finding_row(finding) for finding in diagnosis.findings}
    results = _results(experiment, recorded, findings)
    rows = [] if results is None or results.control is None else [_control_row(results)]
    rows += [_row(result, experiment, findings) for result in results.results] if results is not None else _untaken(experiment, findings)
    rows = _with_faults(rows, experiment, findings)
    return ExperimentSection(
        facts=_facts(experiment, recorded, results) | {"outcome": _outcome(experiment, rows, results)},
        rows=[*rows, *(_untried_row(untried, findings) for untried in experiment.untried)],
        tried=Tried(measured=dict(filter(None, (_measured(row, findings) for row in rows))), proved=tuple(_proved(rows))),
        health=tuple(map(health_row, _doubts(experiment, results))),
        options=_options(experiment, rows),
    )


def _results(experiment: Experiment, recorded: Recorded | None, findings: Mapping[str, Any]) -> ExperimentResults | None:
    if recorded is None or len(recorded.plan.arms) != len(experiment.choices) + 2:
        return None
    return find_results(
        experiment,
        recorded.plan,
        recorded.steps,
        recorded.notes,
        levers=known_levers(),
        predicted_lows={rule: row["gain"]["low"] for rule, row in findings.items() if row["gain"]["low"] is not None},
        foreign_share=recorded.foreign_share,
        stolen_share=recorded.stolen_share,
    )


def _row(result: Result, experiment: Experiment, findings: Mapping[str, Any]) -> ExperimentRow:
    choice, found, judgement = result.choice, result.estimate, result.judgement
    row: ExperimentRow = {
        **_choice_row(choice, findings),
        "state": result.state,
        "reason": _words(result.reason),
        "effect": result.effect,
        "facts": dict(result.facts),
        "changes": list(result.changes),
        "changes_numerics": choice.changes_numerics or NUMERICS in result.changes,
        "numerics": experiment.numerics.get(choice.name),
    }
    row["numbers"] = numbers_of(row, known_levers().get(choice.spec.name))
    spoils = result.spoils or bool((row["numerics"] or {}).get("spoils"))
    row |= _of_runs(result.repeated) if result.repeated is not None else _of_blocks(found) if found is not None else {}
    row |= {"why": _words(result.why)}
    if judgement is None:
        # What it gained until it was given up.
        gain = row["corrected"] if row["used"] == "corrected" else row["wall"]
        return row | {"gain": gain, "verdict": GainVerdict.NOT_FINITE if spoils else None}
    low = None if row["predicted"] is None else row["predicted"]["low"]
    verdict = GainVerdict.NOT_FINITE if spoils else verdict_on_bound(judgement, low) if choice.role == "bound" else judgement.verdict
    row |= {"gain": _interval(judgement.interval)}
    held_back, held = _held_back(result)
    if verdict in held:
        row |= {"verdict": GainVerdict.OPEN, "held_back": held_back, "reason": _words(result.reason, result.held_back)}
    else:
        is_known = verdict == GainVerdict.OPEN and judgement.seen_from < 100
        row |= {"verdict": verdict, "below": judgement.seen_from - 1 if is_known else None}
    return row


def _held_back(result: Result) -> tuple[HeldBack | None, tuple[GainVerdict, ...]]:
    """Why a verdict is held back, as the report calls it, and which ones are."""
    return (None, ()) if result.held_back is None else _HELD_BACK[result.held_back.code]


def _words(*reasons: Reason | None) -> str | None:
    return "; ".join(sentence(reason) for reason in reasons if reason is not None) or None


def _of_blocks(found: Estimate) -> Any:
    return {
        "how": "blocks",
        "wall": _interval(found.wall),
        "corrected": _interval(found.corrected),
        "used": "corrected" if found.uses_corrected else "wall",
        "rounds": found.rounds,
        "steps": found.steps,
        "throughput": None if found.throughputs is None else asdict(found.throughputs),
    }


def _of_runs(found: RepeatedRuns) -> Any:
    wall = _interval(found.log_ratio.interval())
    throughput = None if found.throughputs is None else asdict(found.throughputs)
    return {"how": "re-runs", "wall": wall, "used": "wall", "rounds": found.rounds, "steps": found.steps, "throughput": throughput}


def _control_row(results: ExperimentResults) -> ExperimentRow:
    control = results.control
    assert control is not None
    return {
        **_NOTHING,
        "role": "control",
        "state": ArmState.MEASURED,
        "gain": _interval(control.gain),
        **_of_blocks(control),
    }


def _interval(interval: Interval | None) -> IntervalRow | None:
    """An interval as plain data; an end that is not known is None."""
    if interval is None:
        return None
    low, high = (end if math.isfinite(end) and end > 0 else None for end in (interval.low, interval.high))
    return {"value": interval.value, "low": low, "high": high}


def _untaken(experiment: Experiment, findings: Mapping[str, Any]) -> list[ExperimentRow]:
    """Rows of levers that were chosen for a plan that the training never took up."""
    return [
        {
            **_choice_row(choice, findings),
            "state": ArmState.UNMEASURED,
            "reason": "the training ended before it was tested" if experiment.ended_by == EndedBy.SCRIPT_ENDED else "it was not tested",
        }
        for choice in experiment.choices
    ]


def _choice_row(choice: Choice, findings: Mapping[str, Any]) -> ExperimentRow:
    """What is known of a lever before it was tried."""
    return {
        **_NOTHING,
        "lever": choice.name,
        "role": choice.role,
        "rule": choice.rule,
        "predicted": None if choice.role == "other" else _predicted(choice.rule, findings),
        "changes_numerics": choice.changes_numerics,
    }


def _with_faults(rows: list[ExperimentRow], experiment: Experiment, findings: Mapping[str, Any]) -> list[ExperimentRow]:
    """With the levers that the script could not go on with, whether they are in the plan or were left out of it."""
    faults = {fault.choice.name: fault for fault in experiment.faults}
    in_plan = {row["lever"] for row in rows}
    # Whatever one gained until then: nobody can train with it.
    known = [row if (fault := faults.get(row["lever"] or "")) is None else _failed(row, fault) for row in rows]
    return [*known, *(_failed(_choice_row(fault.choice, findings), fault) for name, fault in faults.items() if name not in in_plan)]


def _failed(row: ExperimentRow, fault: LeverFault) -> ExperimentRow:
    """The row of a lever as it is with its fault."""
    verdict = GainVerdict.NOT_FINITE if fault.spoils else None
    reason = _words(fault.reason)
    return {**row, "state": ArmState.FAILED, "reason": reason, "verdict": verdict, "held_back": None, "below": None}


def _untried_row(untried: Untried, findings: Mapping[str, Any]) -> ExperimentRow:
    predicted = _predicted(untried.rule, findings)
    return {**_NOTHING, "lever": untried.lever, "rule": untried.rule, "reason": _words(untried.reason), "predicted": predicted}


def _predicted(rule: str | None, findings: Mapping[str, Any]) -> Any:
    gain = findings[rule]["gain"] if rule is not None and rule in findings else None
    if gain is None or gain["predicted"] is None:
        return None
    return {"value": gain["predicted"], "low": gain["low"], "high": gain["high"]}


def _measured(row: ExperimentRow, findings: Mapping[str, Any]) -> tuple[str, MeasuredGain] | None:
    """What a row measured of the first fix of a finding, tried as such, and whose that is."""
    gain, rule = row["gain"], row["rule"]
    if row["role"] != "fix" or rule is None or rule not in findings:
        return None
    if row["state"] != ArmState.MEASURED or row["verdict"] == GainVerdict.NOT_FINITE:
        return None
    if gain is None or gain["low"] is None or gain["high"] is None:
        return None
    return rule, MeasuredGain(value=gain["value"], low=gain["low"], high=gain["high"])


def _proved(rows: Iterable[ExperimentRow]) -> Iterator[tuple[float, str]]:
    """The gains that were proved of findings' fixes, and whose they are."""
    for row in rows:
        if row["role"] == "fix" and row["verdict"] == GainVerdict.PROVED and row["gain"] and row["rule"] is not None:
            yield row["gain"]["value"], row["rule"]


def _facts(experiment: Experiment, recorded: Recorded | None, results: ExperimentResults | None) -> ExperimentFacts:
    place = experiment.place
    reached = None if results is None else results.reached
    starts: list[StartRow] = [
        {"updates": start.updates, "rounds": start.rounds, "came_to_its_end": start.came_to_its_end, "reason": _words(start.reason)}
        for start in experiment.starts
    ]
    facts: ExperimentFacts = {
        "seed": None if recorded is None else recorded.plan.seed,
        "steps_per_block": None if recorded is None else recorded.plan.steps,
        "precision": experiment.precision,
        "reached": reached if reached is not None and reached < 100 else None,
        "budget_s": experiment.budget_s,
        "needed_s": experiment.needed_s,
        "took_s": None if recorded is None else recorded.took_s,
        "ended_by": str(experiment.ended_by),
        "exit_code": experiment.exit_code,
        "problem": experiment.problem,
        "trustworthy": None if results is None else results.trustworthy,
        "distrust": None if results is None else _words(*results.distrust),
        "foreign_share": None if recorded is None else recorded.foreign_share,
        "busy": recorded is not None and is_busy(recorded.foreign_share),
        "sandbox": {"kind": place.kind, "claims": place.claims, "warnings": list(place.warnings), "write_ratio": place.write_ratio},
    }
    return facts | {"starts": starts} if starts else facts


def _outcome(experiment: Experiment, rows: Sequence[ExperimentRow], results: ExperimentResults | None) -> OutcomeRow | None:
    return outcome_row(rows, experiment.changes, trustworthy=None if results is None else results.trustworthy)


def _options(experiment: Experiment, rows: Sequence[ExperimentRow]) -> tuple[str, ...]:
    """The words that ask for these levers again, but for those that the script cannot go on with, and those that were given up in it."""
    ended = {fault.choice.name for fault in experiment.faults}
    if experiment.options[:1] == ("--levers",):
        ended |= {row["lever"] for row in rows if row["state"] in LEVER_GIVEN_UP and row["lever"] is not None}
    if not ended:
        return experiment.options
    left = [choice.name for choice in experiment.choices if choice.name not in ended]
    return ("--levers", ",".join(left)) if left else ()


def _doubts(experiment: Experiment, results: ExperimentResults | None) -> Iterator[Health]:
    if results is not None:
        yield from _doubts_of_results(results)
    if experiment.repeated.is_doubtful:
        yield RERUNS_NOT_TRUSTWORTHY(1)
    if (ratio := experiment.place.write_ratio) is not None:
        yield (SANDBOX_WRITES if USUAL_WRITES[0] <= ratio <= USUAL_WRITES[1] else UNUSUAL_SANDBOX_WRITES)(1, ratio=ratio)
    for note in () if results is None else results.not_undone:
        yield LEVER_NOT_UNDONE(1, lever=str(note.get("name")), reason=str(note.get("reason")))


def _doubts_of_results(results: ExperimentResults) -> Iterator[Health]:
    if results.control is not None and results.control_holds is False:
        yield EXPERIMENT_NOT_TRUSTWORTHY(1, gain=results.control.gain.value)
    if (long := results.long_steps) is not None and long.share >= WORTH - 1:
        yield SELDOM_LONG_STEPS(1, blocks=long.blocks, most_s=long.most_ns / 1e9, share=long.share)
