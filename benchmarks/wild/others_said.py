"""Pure: what other tools say of a training, in the form of slowstep's document, so that the same score counts them.

Each tool's own answer is read as its page tells a person to read it: its first finding of weight is its verdict. `READINGS` says which
stages the tool's words for it cover; that it does not tell apart what slowstep tells apart is not held against it (`document`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from suite import Case

Said = dict[str, Any]
INPUT = ("read", "preprocess")
# A bottleneck predicts 1.10x or more (docs/definitions.md): so much of a step it has to hold where a tool ranks all that it finds.
SHARE_AT_LEAST = 1 - 1 / 1.10
AT_MOST = re.compile(r"At most ([\d.]+)x")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What a tool says first, in its own words. `code` is a key of its `stages`, None where it says nothing of weight.

    `gain` is the factor of throughput that it tells, None where it tells none.
    """

    state: str
    code: str | None = None
    texts: tuple[str, ...] = ()
    gain: float | None = None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How the answer of a tool is read: `verdict` finds what it says first, `stages` are those that each of its words covers.

    Where a word covers no stage, it is no statement on where the time of a step is.
    """

    tool: str
    verdict: Callable[[Said], Verdict]
    stages: dict[str, tuple[str, ...]] = field(default_factory=dict)
    note: str = ""

    def name(self, version: str | None) -> str:
        """The tool, its version where it has one of its own, and the note."""
        return " ".join(word for word in (self.tool, version, f"({self.note})" if self.note else None) if word)


def document(reading: Reading, said: Said, case: Case) -> dict[str, Any]:
    """The document that `score.to_outcome` reads. A tool that failed has not said anything: undetermined."""
    if reading.tool == "slowstep" and "failed" not in said:
        return said
    verdict = Verdict(state="undetermined") if "failed" in said else reading.verdict(said)
    stage = best_stage(reading.stages.get(verdict.code or "", ()), case)
    findings = [finding(verdict)] if verdict.code else []
    return {"verdict": {"state": verdict.state, "stage": stage, "rule": verdict.code}, "findings": findings}


def best_stage(stages: tuple[str, ...], case: Case) -> str | None:
    """Of all that a word covers the one that is true: what a tool does not tell apart it is not wrong about."""
    return next((stage for stage in stages if stage in case.stages), stages[0] if stages else None)


def finding(verdict: Verdict) -> dict[str, Any]:
    """All words of a verdict. The gain that it tells is told as the share of the step that would give it."""
    return {
        "rule": verdict.code,
        "title": "\n".join(verdict.texts),
        "evidence": [],
        "fixes": [],
        "claims": ["told"] if verdict.gain else [],
        "share": 1 - 1 / verdict.gain if verdict.gain else 0.0,
        "gain": {"predicted": None},
    }


def traceml(said: Said) -> Verdict:
    """Its `primary_diagnosis`. One of severity "info" is context by its own words, and no bottleneck."""
    kind = said["kind"]
    if kind == "INSUFFICIENT_STEP_TIME_DATA":
        return Verdict(state="undetermined", code=kind, texts=texts(said, "summary", "action"))
    state = "healthy" if said["severity"] == "info" else "bottleneck"
    return Verdict(state=state, code=kind, texts=texts(said, "status", "summary", "action"))


def traceml_compute(said: Said) -> Verdict:
    """The same, with dominant compute as a bottleneck of its own."""
    read = traceml(said)
    return Verdict(state="bottleneck", code=read.code, texts=read.texts) if read.code == "COMPUTE_BOUND" else read


def train_doctor(said: Said) -> Verdict:
    """Its first finding, where its score is the share of a bottleneck: the tool ranks what it finds and does not weigh it."""
    if not said["steps"]:
        return Verdict(state="undetermined")
    first = next(iter(said["findings"]), None)
    if first is None or first["score"] < SHARE_AT_LEAST:
        return Verdict(state="healthy")
    told = AT_MOST.search(first["expected_effect"])
    words = texts(first, "id", "title", "evidence", "suggestion", "expected_effect")
    return Verdict(state="bottleneck", code=first["id"], texts=words, gain=float(told[1]) if told else None)


def gpuprof(said: Said) -> Verdict:
    """The first of its insights of severity high, else medium, that is about the step; those of severity low are remarks."""
    if not said["steps"]:
        return Verdict(state="undetermined")
    coded = [(insight, gpuprof_code(insight["title"])) for insight in said["insights"]]
    for severity in ("high", "medium"):
        for insight, code in coded:
            if code and insight["severity"] == severity:
                return Verdict(state="bottleneck", code=code, texts=texts(insight, "title", "recommendation"))
    return Verdict(state="healthy")


def gpuprof_code(title: str) -> str | None:
    """Its rule, which the answer does not name, by what every title of that rule holds. None of what is not about the time of a step."""
    return next((code for code in GPUPROF_STAGES if code in title), None)


def fournex(said: Said) -> Verdict:
    """Its primary bottleneck as it shows it. "inconclusive" and "insufficient_telemetry" are its words for not knowing."""
    diagnosis, label = said["diagnosis"], said["diagnosis"].get("user_facing_bottleneck")
    if not said["steps"] or label in {"inconclusive", "insufficient_telemetry"}:
        return Verdict(state="undetermined", code=label)
    if label is None:
        return Verdict(state="healthy")
    advised = diagnosis["recommendations"]
    words = (label, *diagnosis["why"], *(text for each in advised for text in (each["title"], each["why"], *each["actions"])))
    return Verdict(state="bottleneck", code=label, texts=tuple(map(str, words)), gain=fournex_gain(advised))


def fournex_of_host(said: Said) -> Verdict:
    """The same, without what it concludes from a device that does no work, where there is none."""
    read = fournex(said)
    return Verdict(state="undetermined", code=read.code, texts=read.texts) if read.code in OF_A_DEVICE else read


def fournex_gain(advised: list[dict[str, Any]]) -> float | None:
    """The middle of the range that it estimates for its first advice."""
    ends = [advised[0].get(f"estimated_speedup_pct_{end}") for end in ("min", "max")] if advised else [None]
    known = [end for end in ends if end is not None]
    return 1 + sum(known) / len(known) / 100 if len(known) == len(ends) else None


def texts(said: dict[str, Any], *names: str) -> tuple[str, ...]:
    return tuple(str(said[name]) for name in names if said.get(name))


def slowstep(said: Said) -> Verdict:
    """Its document is read as it is (`document`)."""
    return Verdict(state=said["verdict"]["state"])


# "work outside traced phases, CPU stalls, logging, checkpointing, validation, or unobserved transfers"
TRACEML_STAGES = {
    "INPUT_BOUND": INPUT,
    "H2D_BOUND": ("h2d",),
    "RESIDUAL_HEAVY": ("output", "store", "compute"),
    "COMPUTE_BOUND": ("compute",),
}
TRAIN_DOCTOR_STAGES = {
    "dataloader_bound": INPUT,
    "cpu_bound_preprocessing": ("preprocess",),
    "pin_memory_off": ("h2d",),
    "host_sync_in_loop": ("d2h",),
    "small_batch": ("compute",),
    "no_mixed_precision": ("compute",),
    "no_torch_compile": ("compute",),
    "checkpoint_in_hot_loop": ("store",),
    "logging_in_hot_loop": ("output", "store"),
    "ddp_accumulation_without_no_sync": ("gradient_sharing",),
    "grad_accumulation_small_micro_batch": ("compute",),
    "cudnn_benchmark_off": ("compute",),
    "cpu_with_accelerator_available": ("compute",),
}
# Parts of the titles of its rules, in the order in which it asks them. What it says of a device is not here: without one its figures are
# those of a mock.
GPUPROF_STAGES = {
    "waiting on the loader": INPUT,
    "unaccounted": ("compute",),
    "Dataloader stall + CPU pegged": ("preprocess",),
    "Dataloader stall + disk hot": ("read",),
    "Cold-cache pattern": ("read",),
    "Cache thrashing": ("read",),
    "Prefetch queue starved": INPUT,
    "Dataloader-worker imbalance": ("preprocess",),
    "Host memory pressure": INPUT,
    "NCCL comm": ("gradient_sharing",),
}
FOURNEX_STAGES: dict[str, tuple[str, ...]] = {
    "input_bound": INPUT,
    "copy_bound": ("h2d",),
    "sync_bound": ("d2h",),
    "launch_bound": ("compute",),
    "underutilized_gpu": ("compute",),
    "shape_instability": ("compute", "preprocess"),
    "memory_pressure": (),
}
OF_A_DEVICE = ("launch_bound", "underutilized_gpu")
READINGS = (
    Reading(tool="slowstep", verdict=slowstep),
    Reading(tool="traceml-ai", verdict=traceml, stages=TRACEML_STAGES),
    Reading(tool="traceml-ai", verdict=traceml_compute, stages=TRACEML_STAGES, note="COMPUTE-BOUND as a bottleneck"),
    Reading(tool="train-doctor", verdict=train_doctor, stages=TRAIN_DOCTOR_STAGES),
    Reading(tool="fournex", verdict=fournex, stages=FOURNEX_STAGES),
    Reading(tool="fournex", verdict=fournex_of_host, stages=FOURNEX_STAGES, note="nothing said of a device"),
    Reading(tool="gpuprof", verdict=gpuprof, stages=GPUPROF_STAGES),
)
