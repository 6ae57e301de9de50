"""What an experiment adds to the report of a recording: a row for every lever, the findings' measured gains, and whether to trust them."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from slowstep.experiments.choose import Choice, Untried
from slowstep.experiments.experiment import (
    CUT_SHORT,
    INTERRUPTED,
    LEVER_ENDED,
    NARROW_ENOUGH,
    NOT_TAKEN_UP,
    SCRIPT_ENDED,
    STOOD_STILL,
    Experiment,
    load,
)
from slowstep.experiments.intervals import Interval
from slowstep.experiments.known_levers import known_levers
from slowstep.experiments.lever_faults import Fault
from slowstep.experiments.plan import parse_spec
from slowstep.experiments.repeated import Repeated
from slowstep.experiments.results import Result, Results, find_results, verdict_on_bound
from slowstep.experiments.stats import Estimate
from slowstep.record.lever import NUMERICS
from slowstep.report.document import ExperimentFacts, ExperimentRow, HealthRow, IntervalRow
from slowstep.units import format_duration
from slowstep.workflow.experiment_readings import Recorded, read_experiment
from slowstep.workflow.lead_in import Limits

Report = dict[str, Any]
# What `slowstep prove` takes where it is not told: half the width of an interval as a share, and for how long levers are tried.
USUAL_PRECISION: Final = 0.05
USUAL_BUDGET_S: Final = 60.0
STUB = "stub="
# What the next command calls the faster code that is still to be written.
FASTER = "_faster"
# A sandbox that writes at half the speed, or twice, changes what checkpoints and logs cost.
USUAL_WRITES = (0.5, 2.0)
# The verdict on a lever that spoils the training, however fast it makes it.
NOT_FINITE: Final = "loss not finite"
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


def add_experiments(report: Report, folder: Path) -> None:
    """Complete a report by the experiment in the recording's folder, if there is one. Raises UnreadableInput where it is damaged."""
    experiment = load(folder)
    if experiment is None:
        return
    findings = {row["rule"]: row for row in report["findings"]}
    recorded = None
    if experiment.until_ns is not None:
        recorded = read_experiment(folder, from_ns=experiment.until_ns, cores=report["run"].get("cores"))
    results = _results(experiment, recorded, findings)
    rows = [] if results is None or results.control is None else [_control_row(results)]
    rows += [_row(result, experiment, findings) for result in results.results] if results is not None else _untaken(experiment, findings)
    rows = _with_faults(rows, experiment, findings)
    report["experiments"] = [*rows, *(_untried_row(untried, findings) for untried in experiment.untried)]
    report["run"]["experiment"] = _facts(experiment, recorded, results)
    report["run"]["next_command"] = next_command(report, _options(experiment, rows), experiment.kept)
    if (before := _before_next(report)) is not None:
        report["run"]["before_next"] = before
    report["health"] += _doubts(experiment, results)
    for row in rows:
        _fill_measured(row, findings)


def _results(experiment: Experiment, recorded: Recorded | None, findings: Mapping[str, Any]) -> Results | None:
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
    )


def _row(result: Result, experiment: Experiment, findings: Mapping[str, Any]) -> ExperimentRow:
    choice, found, judgement = result.choice, result.estimate, result.judgement
    row: ExperimentRow = {
        **_choice_row(choice, findings),
        "state": result.state,
        "reason": result.reason,
        "effect": result.effect,
        "facts": dict(result.facts),
        "changes": list(result.changes),
        "changes_numerics": choice.changes_numerics or NUMERICS in result.changes,
        "numerics": experiment.numerics.get(choice.name),
    }
    spoils = result.spoils or bool((row["numerics"] or {}).get("spoils"))
    if judgement is None:
        return row | {"verdict": NOT_FINITE if spoils else None}
    low = None if row["predicted"] is None else row["predicted"]["low"]
    verdict = NOT_FINITE if spoils else verdict_on_bound(judgement, low) if choice.role == "bound" else judgement.verdict
    row |= {"gain": _interval(judgement.interval), "why": result.why}
    if verdict == "refuted" and result.held_back is not None:
        reason = "; ".join(filter(None, (result.reason, result.withheld)))
        row |= {"verdict": "cannot distinguish", "held_back": result.held_back, "reason": reason}
    else:
        is_known = verdict == "cannot distinguish" and judgement.seen_from < 100
        row |= {"verdict": verdict, "below": judgement.seen_from - 1 if is_known else None}
    if result.repeated is not None:
        row |= _of_runs(result.repeated)
    elif found is not None:
        row |= _of_blocks(found)
    return row


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


def _of_runs(found: Repeated) -> Any:
    wall = _interval(found.log_ratio.interval())
    throughput = None if found.throughputs is None else asdict(found.throughputs)
    return {"how": "re-runs", "wall": wall, "used": "wall", "rounds": found.rounds, "steps": found.steps, "throughput": throughput}


def _control_row(results: Results) -> ExperimentRow:
    control = results.control
    assert control is not None
    return {
        **_NOTHING,
        "role": "control",
        "state": "measured",
        "gain": _interval(control.gain),
        **_of_blocks(control),
    }


def _interval(interval: Interval | None) -> IntervalRow | None:
    """An interval as plain data; an end that could not be told is None."""
    if interval is None:
        return None
    low, high = (end if math.isfinite(end) and end > 0 else None for end in (interval.low, interval.high))
    return {"value": interval.value, "low": low, "high": high}


def _untaken(experiment: Experiment, findings: Mapping[str, Any]) -> list[ExperimentRow]:
    """Rows of levers that were chosen for a plan that the training never took up."""
    return [
        {
            **_choice_row(choice, findings),
            "state": "unmeasured",
            "reason": "the training ended before it was tried" if experiment.ended_by == SCRIPT_ENDED else "it was not tried",
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
    found = {fault.choice.name: _fault_row(fault, findings) for fault in experiment.faults}
    for row in rows:
        if (fault := found.pop(row["lever"] or "", None)) is not None:
            # Whatever it gained until then: nobody can train with it.
            row |= {"state": fault["state"], "reason": fault["reason"], "verdict": fault["verdict"], "held_back": None, "below": None}
    return [*rows, *found.values()]


def _fault_row(fault: Fault, findings: Mapping[str, Any]) -> ExperimentRow:
    choice = fault.choice
    row: ExperimentRow = {**_choice_row(choice, findings), "state": "failed", "reason": fault.reason}
    return row | {"verdict": NOT_FINITE} if fault.spoils else row


def _untried_row(untried: Untried, findings: Mapping[str, Any]) -> ExperimentRow:
    predicted = _predicted(untried.rule, findings)
    return {**_NOTHING, "lever": untried.lever, "rule": untried.rule, "reason": untried.reason, "predicted": predicted}


def _predicted(rule: str | None, findings: Mapping[str, Any]) -> Any:
    gain = findings[rule]["gain"] if rule is not None and rule in findings else None
    if gain is None or gain["predicted"] is None:
        return None
    return {"value": gain["predicted"], "low": gain["low"], "high": gain["high"]}


def _fill_measured(row: ExperimentRow, findings: Mapping[str, Any]) -> None:
    """The measured gain of a finding is that of its first fix, tried as such."""
    gain, rule = row["gain"], row["rule"]
    if row["role"] != "fix" or rule is None or rule not in findings or row["state"] == "failed" or row["verdict"] == NOT_FINITE:
        return
    if gain is not None and gain["low"] is not None and gain["high"] is not None:
        findings[rule]["gain"]["measured"] = dict(gain)


def _facts(experiment: Experiment, recorded: Recorded | None, results: Results | None) -> ExperimentFacts:
    place = experiment.place
    reached = None if results is None else results.reached
    return {
        "seed": None if recorded is None else recorded.plan.seed,
        "steps_per_block": None if recorded is None else recorded.plan.steps,
        "precision": experiment.precision,
        "reached": reached if reached is not None and reached < 100 else None,
        "budget_s": experiment.budget_s,
        "took_s": None if recorded is None else recorded.took_s,
        "ended_by": experiment.ended_by,
        "exit_code": experiment.exit_code,
        "problem": experiment.problem,
        "trustworthy": None if results is None else results.trustworthy,
        "distrust": None if results is None else _distrust(results),
        "foreign_share": None if recorded is None else recorded.foreign_share,
        "sandbox": {"kind": place.kind, "claims": place.claims, "warnings": list(place.warnings), "write_ratio": place.write_ratio},
    }


def _options(experiment: Experiment, rows: Sequence[ExperimentRow]) -> tuple[str, ...]:
    """The words that ask for these levers again, but for those that the script cannot go on with, and those that have no meaning in it."""
    ended = {fault.choice.name for fault in experiment.faults}
    if experiment.options[:1] == ("--levers",):
        ended |= {row["lever"] for row in rows if row["state"] == "not applicable" and row["lever"] is not None}
    if not ended:
        return experiment.options
    left = [choice.name for choice in experiment.choices if choice.name not in ended]
    return ("--levers", ",".join(left)) if left else ()


# Ways to end with which another start would come no further.
ENDED_EARLY: Final = (SCRIPT_ENDED, NOT_TAKEN_UP, STOOD_STILL, CUT_SHORT)


def next_command(report: Report, options: tuple[str, ...], kept: tuple[str, ...] = ()) -> str:
    """What helps most now: the same with more time, with other levers, or the training itself once the fix is made.

    `options` are the words that chose the levers, `kept` those that every experiment of this training is to be asked for with.
    """
    facts, rows = report["run"]["experiment"], _lever_rows(report)
    command = shlex.join(report["run"]["command"])
    again = _prove(*options, *kept)
    if ended_untried(report) and (rows or report["verdict"]["state"] == "undetermined"):
        return f"{again} {command}"
    if facts["ended_by"] == INTERRUPTED and not rows:
        return f"{again} {command}"
    if _needs_more(report):
        return f"{_prove(*options, *_longer(facts, kept))} {command}"
    if _waits_for_cores(report):
        return f"{again} {command}"
    if proved := [row for row in rows if row["verdict"] == "proved"]:
        # Of a lever that no finding named: what it answers, and what it leaves open.
        return f"slowstep explain {next((row['rule'] for row in proved if row['rule']), parse_spec(str(proved[0]['lever'])).name)}"
    if (function := _to_make_faster(report)) is not None:
        return f"{_prove('--levers', f'swap={function}={_faster(function)}', *kept)} {command}"
    return f"slowstep run {command}" if options == ("--all",) else f"{_prove('--all', *kept)} {command}"


def _prove(*words: str) -> str:
    return shlex.join(["slowstep", "prove", *words])


def precision_words(precision: float) -> tuple[str, ...]:
    """The words that ask for a precision."""
    return ("--precision", f"{precision * 100:g}%")


def _longer(facts: Mapping[str, Any], kept: tuple[str, ...]) -> tuple[str, ...]:
    """The words for an experiment that tells more than the one that was made, with those that are kept."""
    if facts["ended_by"] == SCRIPT_ENDED:
        # More time would be left unused.
        return kept
    if facts["ended_by"] != NARROW_ENOUGH:
        return (*kept, *_budget_words(max(3 * facts["budget_s"], USUAL_BUDGET_S)))
    # It would end as early again, whatever its budget. Half the width takes four times the rounds.
    asked = precision_words(facts["precision"])
    others = kept[len(asked) :] if kept[: len(asked)] == asked else kept
    needed_s = max(4 * (facts["took_s"] or 0.0), facts["budget_s"])
    return (*precision_words(facts["precision"] / 2), *others, *(_budget_words(needed_s) if needed_s > USUAL_BUDGET_S else ()))


def _budget_words(seconds: float) -> tuple[str, ...]:
    return ("--budget", f"{math.ceil(seconds)}s")


def _needs_more(report: Report) -> bool:
    """Whether more rounds would tell what is not known yet."""
    facts, rows = report["run"]["experiment"], _lever_rows(report)
    # What others have of the machine, no more rounds take from them.
    rows = [row for row in rows if row["held_back"] != "load"]
    verdicts = {row["verdict"] for row in rows}
    is_short = verdicts <= {"cannot distinguish", None} and any(
        row["verdict"] or (row["state"] == "unmeasured" and facts["ended_by"] in ("budget", INTERRUPTED, LEVER_ENDED)) for row in rows
    )
    return facts["trustworthy"] is False or is_short or ("cannot distinguish" in verdicts and "proved" not in verdicts)


def _waits_for_cores(report: Report) -> bool:
    """Whether all that is left open is what levers gain on a machine that others leave alone."""
    rows = _lever_rows(report)
    return any(row["held_back"] == "load" for row in rows) and not any(row["verdict"] in ("proved", "upper bound") for row in rows)


def ended_untried(report: Report) -> bool:
    """Whether the training ended, failed, stood still or had to be ended before anything was known of any lever: no others help then."""
    rows = [row for row in _lever_rows(report) if row["state"] != "untried"]
    return report["run"]["experiment"]["ended_by"] in ENDED_EARLY and all(row["state"] == "unmeasured" for row in rows)


def _to_make_faster(report: Report) -> str | None:
    """The function (MODULE:FUNCTION) whose faster code is the fix, where nothing is proved and it is known what none of it would gain."""
    rows = _lever_rows(report)
    if ended_untried(report) or _needs_more(report) or any(row["verdict"] == "proved" for row in rows):
        return None
    bounds = (row["lever"] or "" for row in rows if row["verdict"] == "upper bound")
    return next((lever.removeprefix(STUB) for lever in bounds if lever.startswith(STUB)), None)


def _faster(function: str) -> str:
    """The name of a function's faster form; that of a method of Python's own names (`__getitem__`) is an ordinary one."""
    return re.sub(r"__(\w+)__$", r"\1", function) + FASTER


def _before_next(report: Report) -> str | None:
    """What is to be done before the next command, which on its own would come to the same end."""
    if (function := _to_make_faster(report)) is not None:
        name = function.partition(":")[2]
        return f"write faster code as {_faster(name)}, beside {name}; what it gains is then measured, in place of the bound"
    facts = report["run"]["experiment"]
    untried = ended_untried(report)
    if not untried and not _needs_more(report) and _waits_for_cores(report):
        return "end what else runs on this machine, or wait for it: it had cores that the levers ask for"
    if not untried and (facts["ended_by"] != SCRIPT_ENDED or not _needs_more(report)):
        return None
    missing = "a lever was tried" if untried else "the gains were known"
    if facts["ended_by"] == CUT_SHORT:
        return f"mend why it had to be ended: {facts.get('problem')}"
    if facts["ended_by"] in (NOT_TAKEN_UP, STOOD_STILL):
        return f"find out what the training waits for: it made no more steps before {missing} (slowstep run says where its time goes)"
    if facts["exit_code"]:
        return f"mend the script's own error: it ended with exit code {facts['exit_code']} before {missing}"
    # The longest lead-in may take as long again as the experiment.
    needed = format_duration((facts["budget_s"] + Limits().most_s) * 1e9)
    return f"let the script train longer, {needed} or more (more epochs, more steps): it ended before {missing}"


def _lever_rows(report: Report) -> list[ExperimentRow]:
    return [row for row in report["experiments"] if row["lever"] is not None]


def _distrust(results: Results) -> str | None:
    """Why the gains are not to be trusted, as a clause; None where nothing was seen against them."""
    reasons = []
    if results.control_holds is False:
        reasons.append("without any lever the training seemed to change, so other gains may be chance too")
    if results.not_undone:
        names = ", ".join(dict.fromkeys(str(note.get("name")) for note in results.not_undone))
        reasons.append(f"{names} could not be undone, so what was measured afterwards is not of the training as it was")
    if results.runs_differ:
        reasons.append("whole runs without any lever differed from each other")
    return "; ".join(reasons) or None


def _doubts(experiment: Experiment, results: Results | None) -> list[HealthRow]:
    found: list[HealthRow] = []

    def add(name: str, severity: Any, remedy: str) -> None:
        found.append({"name": name, "severity": severity, "count": 1, "remedy": remedy})

    if results is not None and results.control is not None and results.control_holds is False:
        gained = f"{results.control.gain.value:.2f}x"
        add(
            "experiment-not-trustworthy",
            "error",
            f"without any lever the training 'gained' {gained}: repeat on a quieter machine, or longer",
        )
    if experiment.repeated.is_doubtful:
        add("reruns-not-trustworthy", "error", "whole runs without any lever differed from each other: repeat on a quieter machine")
    ratio = experiment.place.write_ratio
    if ratio is not None:
        usual = USUAL_WRITES[0] <= ratio <= USUAL_WRITES[1]
        text = f"files are written at {ratio:.2f} times the speed outside: what checkpoints and logs cost is measured there"
        add("sandbox-writes", "info" if usual else "notice", text)
    for note in results.not_undone if results is not None else ():
        add("lever-not-undone", "error", f"{note.get('name')}: {note.get('reason')}; try the other levers without it (--levers)")
    return found
