"""Two reports side by side as plain data, `slowstep/comparison/1`: how much faster the second is, what differs, where the time went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, Literal, TypedDict

from slowstep.findings import EvidenceCode

COMPARISON_SCHEMA: Final = "slowstep/comparison/1"
# What should be the same in two runs of one training; where one differs it may be the change itself, or why they cannot be compared.
FACTS: Final = ("name", "framework", "device", "cores", "ranks", "batch_size", "batches_per_step", "num_workers", "threads", "levers")
# Facts of the machine: with another one the ratio is the machine's as much as the training's.
MACHINE: Final = ("device", "cores")

# The rule of diagnosis/rules/machine/foreign_load.py, which has how much of the machine others used.
FOREIGN_LOAD: Final = "foreign-load"

ComparedState = Literal["faster", "slower", "cannot distinguish", "not comparable"]


class BusyMachine(TypedDict):
    """What other processes used of the machine during a run; `up_to` is how many times as fast it may be without them, None unknown."""

    cores: float
    of: float | None
    up_to: float | None


class ComparedRun(TypedDict):
    """One of the two runs."""

    name: str
    recording: str | None
    started: str | None
    samples_per_s: float | None
    steps_per_s: float | None
    step_ms: float | None
    state: str
    rule: str | None
    gain: dict[str, Any] | None
    """The predicted gain of its first finding, as in report.json."""
    busy: BusyMachine | None


class ThroughputRatio(TypedDict):
    """The second run's throughput by the first's; the ends of its 90 % interval are None where a side has none."""

    of: Literal["samples", "steps"]
    value: float
    low: float | None
    high: float | None


class FactDifference(TypedDict):
    """A fact in which the runs differ."""

    fact: str
    before: Any
    after: Any


class StageChange(TypedDict):
    """A stage's time per `per` of the comparison, ms; None where it was not seen."""

    stage: str
    before_ms: float | None
    after_ms: float | None


class Comparison(TypedDict):
    """Two runs of one training."""

    schema: str
    before: ComparedRun
    after: ComparedRun
    state: ComparedState
    ratio: ThroughputRatio | None
    per: Literal["step", "sample"]
    same_script: bool | None
    """Whether both ran a script of one name; None where a run's command is not known, as a trace's."""
    differs: list[FactDifference]
    ledger: list[StageChange]


def compare_reports(before: Mapping[str, Any], after: Mapping[str, Any]) -> Comparison:
    """Compare two documents of report.json. Samples/s are compared where both are known, else steps/s.

    Runs of different numbers of ranks are compared by the samples/s of all their ranks together.
    """
    together = _ranks(before) != _ranks(after)
    ratio = _ratio(before, after, together=together)
    per = _per(before, after)
    return {
        "schema": COMPARISON_SCHEMA,
        "before": _side(before, together=together),
        "after": _side(after, together=together),
        "state": _state(ratio),
        "ratio": ratio,
        "per": per,
        "same_script": _is_one_script(before["run"], after["run"]),
        "differs": _differences(before["run"], after["run"]),
        "ledger": _ledger(before, after, per),
    }


def is_slower_by(comparison: Comparison, share: float) -> bool | None:
    """Whether the second run surely lost more than this share of the throughput; None where nothing is sure, for want of an interval."""
    ratio = comparison["ratio"]
    if ratio is None or ratio["high"] is None:
        return None
    return ratio["high"] < 1 - share


def _side(report: Mapping[str, Any], *, together: bool) -> ComparedRun:
    run, speed, verdict = report["run"], report["throughput"], report["verdict"]
    first = report["findings"][0]["gain"] if report["findings"] and verdict["rule"] else None
    return {
        "name": run["name"],
        "recording": run.get("recording"),
        "started": run.get("started"),
        "samples_per_s": _samples_per_s(report, together=together),
        "steps_per_s": speed["steps_per_s"],
        "step_ms": speed["step_ms"]["median"],
        "state": verdict["state"],
        "rule": verdict["rule"],
        "gain": first,
        "busy": _busy(report),
    }


def _busy(report: Mapping[str, Any]) -> BusyMachine | None:
    """None where the machine was the training's own. Its interval reaches up to what it does where it waits for no core."""
    load = next((finding for finding in report["findings"] if finding["rule"] == FOREIGN_LOAD), None)
    rows = () if load is None else load["evidence"]
    cores = next((row["value"] for row in rows if row.get("code") == EvidenceCode.USED_BY_OTHERS), None)
    if cores is None:
        return None
    reach = _reach(report["throughput"])
    return {"cores": cores, "of": report["run"].get("cores"), "up_to": None if reach is None else math.exp(reach[1])}


def _ranks(report: Mapping[str, Any]) -> int:
    return int(report["run"].get("ranks") or 1)


def _samples_per_s(report: Mapping[str, Any], *, together: bool) -> float | None:
    """Those of the rank that the report is of, or of all ranks `together`; None where one of these was not recorded."""
    alone: float | None = report["throughput"]["samples_per_s"]
    if not together or _ranks(report) == 1:
        return alone
    recorded = sum(row["report"] is not None for row in report["run"].get("rank_rows") or ())
    of_all: float | None = report["run"].get("all_samples_per_s")
    return of_all if recorded == _ranks(report) else None


def _ratio(before: Mapping[str, Any], after: Mapping[str, Any], *, together: bool) -> ThroughputRatio | None:
    """None where neither samples/s nor steps/s are known of both, or steps do not hold the same number of samples."""
    old, new = before["throughput"], after["throughput"]
    samples_before, samples_after = (_samples_per_s(report, together=together) for report in (before, after))
    if samples_before and samples_after:
        of: Literal["samples", "steps"] = "samples"
        value = samples_after / samples_before
    elif old["steps_per_s"] and new["steps_per_s"] and not together and _step_size(before) == _step_size(after):
        of = "steps"
        value = new["steps_per_s"] / old["steps_per_s"]
    else:
        return None
    old_reach, new_reach = _reach(old), _reach(new)
    if old_reach is None or new_reach is None:
        return {"of": of, "value": value, "low": None, "high": None}
    # The two runs are independent: their errors add as squares, in logarithms. The ratio is least where the first was faster than measured.
    low, high = math.hypot(old_reach[1], new_reach[0]), math.hypot(old_reach[0], new_reach[1])
    return {"of": of, "value": value, "low": value / math.exp(low), "high": value * math.exp(high)}


def _reach(speed: Mapping[str, Any]) -> tuple[float, float] | None:
    """How far the interval of a run's steps/s reaches down and up from them, in logarithms; None where there is none."""
    ends, per_s = speed.get("steps_per_s_interval"), speed["steps_per_s"]
    return None if ends is None or not per_s else (math.log(per_s / ends["low"]), math.log(ends["high"] / per_s))


def _state(ratio: ThroughputRatio | None) -> ComparedState:
    if ratio is None:
        return "not comparable"
    if ratio["low"] is not None and ratio["low"] > 1:
        return "faster"
    if ratio["high"] is not None and ratio["high"] < 1:
        return "slower"
    return "cannot distinguish"


def _is_one_script(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool | None:
    return bool(before["name"] == after["name"]) if before.get("command") and after.get("command") else None


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[FactDifference]:
    rows: list[FactDifference] = [
        {"fact": fact, "before": before.get(fact), "after": after.get(fact)} for fact in FACTS if before.get(fact) != after.get(fact)
    ]
    if before.get("command") and after.get("command") and before["command"] != after["command"]:
        rows.append({"fact": "command", "before": before["command"], "after": after["command"]})
    return rows


def _step_size(report: Mapping[str, Any]) -> tuple[float | None, float]:
    """Samples in a batch, and batches in a step."""
    return report["run"]["batch_size"], report["run"].get("batches_per_step") or 1


def _per(before: Mapping[str, Any], after: Mapping[str, Any]) -> Literal["step", "sample"]:
    """Times of steps of different sizes are compared per sample."""
    (old, old_batches), (new, new_batches) = _step_size(before), _step_size(after)
    return "sample" if old and new and old * old_batches != new * new_batches else "step"


def _ledger(before: Mapping[str, Any], after: Mapping[str, Any], per: str) -> list[StageChange]:
    times = []
    for report in (before, after):
        size, batches = _step_size(report)
        samples = size * batches if per == "sample" and size is not None else 1
        times.append({row["stage"]: row["ms_per_step"] and row["ms_per_step"] / samples for row in report["ledger"]})
    old, new = times
    return [{"stage": stage, "before_ms": old[stage], "after_ms": new.get(stage)} for stage in old]
