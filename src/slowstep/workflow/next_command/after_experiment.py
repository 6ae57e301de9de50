"""After an experiment: more time, a finer precision, other levers, or the training itself; and what is to be done before."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from slowstep.command_words import explain, prove, run
from slowstep.document.experiment_rows import ExperimentRow
from slowstep.document.next_step import NextStep
from slowstep.document.proved import largest_proved
from slowstep.prove.ended_by import EndedBy
from slowstep.prove.lead_in import LeadLimits
from slowstep.prove.numerics_check import NEEDED
from slowstep.prove.stats.verdicts import ArmState, GainVerdict
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.units import format_about
from slowstep.workflow.next_command.command_lines import budget_words, filled_in, of_script, or_explained, precision_words, to_paste
from slowstep.workflow.usual import USUAL_BUDGET_S, longer_budget_s

ReportDict = dict[str, Any]
STUB = "stub"
SWAP = "swap"
# What the next command calls the faster code that is still to be written.
FASTER = "_faster"
# What makes all loaders of a trainer, and what a call besides makes that the lever has not changed.
SETTINGS: Final = "settings"
OF_ALL_LOADERS: Final = " (of all loaders of the trainer; tested on that of the training)"
OF_OTHERS: Final = " (the same call makes {others} more; tested on that of the training)"
_WAIT: Final = "wait until nothing else runs on this machine: other processes used cores that the levers need"
# Ways to end with which another start would come no further.
ENDED_EARLY: Final = (EndedBy.SCRIPT_ENDED, EndedBy.NOT_TAKEN_UP, EndedBy.STOOD_STILL, EndedBy.CUT_SHORT)
# And those before which there was no more time for all levers.
ENDED_BEFORE_ALL: Final = (EndedBy.BUDGET_SPENT, EndedBy.INTERRUPTED, EndedBy.RUNNING, EndedBy.LEVER_ENDED)


def after_experiment(report: ReportDict, options: tuple[str, ...], kept: tuple[str, ...] = ()) -> NextStep:
    """What helps most now: the same with more time, with other levers, or the training itself once the fix is made. No command where the
    script would only end as early again.

    `options` are the words that chose the levers, `kept` those that every experiment of this training is to be asked for with.
    """
    found = _step(report, options, kept)
    step = replace(found, first=filled_in(found.command, _before(report)))
    return or_explained(step, state=report["verdict"]["state"], rule=report["verdict"]["rule"])


def _step(report: ReportDict, options: tuple[str, ...], kept: tuple[str, ...]) -> NextStep:
    facts, rows = report["run"]["experiment"], _lever_rows(report)
    command = to_paste(report["run"]["command"])
    if _is_too_short(report):
        return NextStep()
    again = of_script(prove(command, *options, *kept, *_budget_again(facts)))
    # What was short for these levers may be too short for others.
    of_others = (*kept, *(budget_words(facts["budget_s"]) if facts["budget_s"] > USUAL_BUDGET_S else ()))
    if ended_untried(report) and (rows or report["verdict"]["state"] == "undetermined"):
        return again
    if facts["ended_by"] in (EndedBy.INTERRUPTED, EndedBy.RUNNING) and not rows:
        return again
    if _needs_more(report):
        return of_script(prove(command, *options, *_longer(facts, kept)))
    if _waits_for_cores(report):
        return again
    if (proved := largest_proved(rows)) is not None:
        if (budget_s := (proved["numerics"] or {}).get(NEEDED)) is not None:
            return of_script(prove(command, "--levers", str(proved["lever"]), *kept, *budget_words(budget_s)))
        if _change_in_script(report) is not None or _proved_fix(report, proved) is not None:
            # What is left to gain once the script has it.
            return of_script(run(command, *_folder(kept)))
        # Of a lever that no finding named: what it answers, and what it leaves open.
        return NextStep(command=explain(proved["rule"] or parse_spec(str(proved["lever"])).name))
    if (function := _to_make_faster(report)) is not None:
        return of_script(prove(command, "--levers", f"swap={function}={_faster(function)}", *of_others))
    if _applied_none(report) and _names_others(report):
        return of_script(prove(command, *of_others))
    if _fix_by_hand(report) is not None or options == ("--all",):
        return of_script(run(command, *_folder(kept)))
    return of_script(prove(command, "--all", *of_others))


def _change_to_make(report: ReportDict) -> str | None:
    """The change of the script that was proved to gain most; None where none was, or its losses are to be compared first."""
    proved = largest_proved(_lever_rows(report))
    if proved is None or NEEDED in (proved["numerics"] or {}):
        return None
    if (change := _change_in_script(report)) is not None:
        return change
    fix = _proved_fix(report, proved)
    return None if fix is None else f"change the script: {fix}"


def _change_in_script(report: ReportDict) -> str | None:
    """The same as it is written at its place, where that is an argument of one call."""
    change = (report["run"]["experiment"].get("outcome") or {}).get("change")
    if change is None:
        return None
    also = OF_ALL_LOADERS if change["makes"] == SETTINGS else OF_OTHERS.format(others=change["others"]) if change["others"] else ""
    return f"change {change['place']}: {change['text']}{also}"


def _fix_by_hand(report: ReportDict) -> str | None:
    """The fix of the first finding, where no lever tries that of any: only the changed script tells what it gains."""
    if not _applied_none(report) or _names_others(report):
        return None
    return next((str(each["fixes"][0]["text"]) for each in report["findings"] if each["claims"] and each["fixes"]), None)


def _applied_none(report: ReportDict) -> bool:
    """Whether there was no lever to test, or none of those that were asked for has a meaning in this training."""
    asked = [row for row in _lever_rows(report) if row["state"] != "untried"]
    refused = bool(asked) and all(row["state"] == ArmState.NOT_APPLICABLE and row["gain"] is None for row in asked)
    return refused or report["run"]["experiment"]["ended_by"] == EndedBy.NOTHING_TO_TRY


def _names_others(report: ReportDict) -> bool:
    """Whether findings name levers that were not asked for."""
    asked = {parse_spec(str(row["lever"])).name for row in _lever_rows(report)}
    fixes = [fix for finding in report["findings"] for fix in finding["fixes"]]
    named = (lever for fix in fixes for lever in (fix["lever"], fix.get("bounded_by")) if lever is not None)
    return any(parse_spec(lever).name not in asked for lever in named)


def _proved_fix(report: ReportDict, proved: ExperimentRow) -> str | None:
    """What the proved lever stands for in the script: faster code, or the fix of its finding; None where it was another lever."""
    spec = parse_spec(str(proved["lever"]))
    if spec.name == SWAP and proved["rule"] and spec.value and "=" in spec.value:
        slow, _, fast = spec.value.partition("=")
        return f"use {fast} in place of {slow}"
    fixes = next((each["fixes"] for each in report["findings"] if each["rule"] == proved["rule"] and proved["role"] == "fix"), ())
    of_lever = (fix for fix in fixes if fix["lever"] is not None and parse_spec(fix["lever"]).name == spec.name)
    return next((str(fix["text"]) for fix in (*of_lever, *fixes)), None)


def _folder(kept: tuple[str, ...]) -> tuple[str, ...]:
    """--out, as it was given: all that `slowstep run` takes of what is kept."""
    return kept[kept.index("--out") :][:2] if "--out" in kept else ()


def _budget_again(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """--budget, as it was given; where that is too short for these levers, a longer one."""
    budget_s = _enough_s(facts)
    return () if budget_s == USUAL_BUDGET_S else budget_words(budget_s)


def _enough_s(facts: Mapping[str, Any]) -> float:
    """The budget that was given, or a longer one where it was said of it that it is too short."""
    given_s, least_s = facts["budget_s"], facts.get("needed_s")
    return float(given_s) if least_s is None or least_s <= given_s else longer_budget_s(given_s, least_s)


def _longer(facts: Mapping[str, Any], kept: tuple[str, ...]) -> tuple[str, ...]:
    """The words for an experiment that tells more than the one that was made, with those that are kept."""
    if facts["ended_by"] in (EndedBy.SCRIPT_ENDED, EndedBy.RUNNING):
        # What it was given was not used up.
        return (*kept, *_budget_again(facts))
    if facts["ended_by"] != EndedBy.NARROW_ENOUGH:
        return (*kept, *budget_words(longer_budget_s(facts["budget_s"], facts.get("needed_s"))))
    # It would end as early again, whatever its budget. Half the width takes four times the rounds.
    asked = precision_words(facts["precision"])
    others = kept[len(asked) :] if kept[: len(asked)] == asked else kept
    needed_s = max(4 * (facts["took_s"] or 0.0), facts["budget_s"])
    return (*precision_words(facts["precision"] / 2), *others, *(budget_words(needed_s) if needed_s > USUAL_BUDGET_S else ()))


def _needs_more(report: ReportDict) -> bool:
    """Whether more rounds would tell what is not known yet."""
    facts, rows = report["run"]["experiment"], _lever_rows(report)
    # What others have of the machine, no more rounds take from them; nor do steps become more frequent, nor does a lever leave less.
    rows = [row for row in rows if row["held_back"] not in ("load", "long steps", "kept")]
    verdicts = {row["verdict"] for row in rows}
    is_short = verdicts <= {GainVerdict.OPEN, None} and any(
        row["verdict"] or (row["state"] == "unmeasured" and facts["ended_by"] in ENDED_BEFORE_ALL) for row in rows
    )
    is_open = GainVerdict.OPEN in verdicts and GainVerdict.PROVED not in verdicts and _stub_that_bounds(rows) is None
    return facts["trustworthy"] is False or is_short or is_open


def _waits_for_cores(report: ReportDict) -> bool:
    """Whether all that is left open is what levers gain on a machine that others leave alone."""
    rows = _lever_rows(report)
    gains = {GainVerdict.PROVED, GainVerdict.UPPER_BOUND} & {row["verdict"] for row in rows}
    return not gains and any(row["held_back"] == "load" for row in rows)


def ended_untried(report: ReportDict) -> bool:
    """Whether the training ended, failed, stood still or had to be ended before anything was known of any lever: no others help then."""
    rows = [row for row in _lever_rows(report) if row["state"] != "untried"]
    return report["run"]["experiment"]["ended_by"] in ENDED_EARLY and all(row["state"] == "unmeasured" for row in rows)


def _to_make_faster(report: ReportDict) -> str | None:
    """The function (MODULE:FUNCTION) whose faster code is the fix, where nothing is proved and it is known what none of it would gain."""
    rows = _lever_rows(report)
    if ended_untried(report) or _needs_more(report) or any(row["verdict"] == GainVerdict.PROVED for row in rows):
        return None
    return _stub_that_bounds(rows)


def _stub_that_bounds(rows: list[ExperimentRow]) -> str | None:
    """The function (MODULE:FUNCTION) of which it is known what none of it would gain, whatever other levers leave open."""
    bounds = (parse_spec(str(row["lever"])) for row in rows if row["verdict"] == GainVerdict.UPPER_BOUND)
    return next((lever.value for lever in bounds if lever.name == STUB), None)


def _faster(function: str) -> str:
    """The name of a function's faster form; that of a method of Python's own names (`__getitem__`) is an ordinary one."""
    return re.sub(r"__(\w+)__$", r"\1", function) + FASTER


def _before(report: ReportDict) -> str | None:
    """What is to be done before the next command, which on its own would come to the same end."""
    if (function := _to_make_faster(report)) is not None:
        name = function.partition(":")[2]
        return f"write a faster version as {_faster(name)}, beside {name}; its gain is then measured, in place of the bound"
    facts = report["run"]["experiment"]
    if (by_hand := _fix_by_hand(report)) is not None:
        return f"change the script: {by_hand}"
    untried = ended_untried(report)
    if facts["ended_by"] == EndedBy.SCRIPT_ENDED and not facts["exit_code"] and (untried or _needs_more(report)):
        return f"{_train_longer(_enough_s(facts))}: it ended before {_what_was_missing(report)}{_why_no_other_start(facts)}"
    if not untried and not _needs_more(report):
        return _WAIT if _waits_for_cores(report) else _change_to_make(report)
    if not untried and facts["ended_by"] != EndedBy.SCRIPT_ENDED:
        return None
    missing = _what_was_missing(report)
    if facts["ended_by"] == EndedBy.CUT_SHORT:
        return f"fix why it had to be ended: {facts.get('problem')}"
    if facts["ended_by"] in (EndedBy.NOT_TAKEN_UP, EndedBy.STOOD_STILL):
        return f"find out what the training waits for: it made no more steps before {missing} (slowstep run shows where its time goes)"
    return f"fix the script's own error: it ended with exit code {facts['exit_code']} before {missing}"


def _is_too_short(report: ReportDict) -> bool:
    """Whether the script came to its own end, without an error, before what was asked for was known."""
    facts = report["run"]["experiment"]
    is_open = ended_untried(report) and (bool(_lever_rows(report)) or report["verdict"]["state"] == "undetermined")
    return facts["ended_by"] == EndedBy.SCRIPT_ENDED and not facts["exit_code"] and (is_open or _needs_more(report))


def _what_was_missing(report: ReportDict) -> str:
    return "a lever was tested" if ended_untried(report) else "the gains were known"


def _why_no_other_start(facts: Mapping[str, Any]) -> str:
    """Why it was not started again, where a later start was the last for a reason of its own."""
    starts = facts.get("starts") or ()
    reason = starts[-1].get("reason") if starts else None
    return f", and start {len(starts)} {reason}" if reason else ""


def _lever_rows(report: ReportDict) -> list[ExperimentRow]:
    return [row for row in report["experiments"] if row["lever"] is not None]


def _train_longer(budget_s: float) -> str:
    """What a script that ended too soon is to do, as a clause. The longest lead-in may take as long again as the experiment."""
    enough = format_about(budget_s + LeadLimits().most_s)
    return f"let the script train longer, {enough} or more (more epochs, more steps)"
