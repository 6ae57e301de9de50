"""The report as plain data: the types of report.json, `slowstep/report/1`. Terminal and JSON are drawn from the same dict."""

from __future__ import annotations

import json
import math
from importlib import resources
from typing import Any, Final, Literal, NotRequired, TypedDict, cast

from slowstep.document.bench import BenchRow, SandboxRow, unbalanced_bench
from slowstep.document.pipeline import PipelineRow

SCHEMA: Final = "slowstep/report/1"
# Shares may have been rounded on their way into a file.
SUM_TOLERANCE: Final = 1e-4


class StartupPartRow(TypedDict):
    """A part of the time between the start of the command and the first update, in seconds."""

    name: str
    s: float


class NotReadRow(TypedDict):
    """What of the machine was not read beside the training: the monitor, and why this machine does not show it."""

    monitor: str
    reason: str


class Periodic(TypedDict):
    """Something that is not in every step: its period in steps (None where it was seen once), ms each, and its share of the window."""

    name: str
    every_steps: float | None
    ms: float
    share: float


class RankStage(TypedDict):
    """One of a rank's largest stages."""

    stage: str
    share: float


class RankRow(TypedDict):
    """One training of the recording: a rank of the job (`number` is `rank`), or a training of its own (`rank` is None).

    `own_ms` is the step without gradient sharing, None where that was not seen. `state` and `report` are None without a report.
    """

    number: int
    rank: int | None
    pid: int
    steps: int
    samples_per_s: float | None
    step_ms: float | None
    own_ms: float | None
    stages: list[RankStage]
    state: str | None
    rule: str | None
    report: str | None


class IntervalRow(TypedDict):
    """A factor of throughput with its interval; an end that could not be told is None."""

    value: float
    low: float | None
    high: float | None


class ExperimentFacts(TypedDict):
    """How the levers of `experiments` were tried. `precision` was asked for, `reached` is half the width of the widest interval of a
    lever that was not given up.

    `needed_s` are the fewest seconds with which its levers may have a verdict, None where none was tested.
    `trustworthy` is whether the control, which has no lever, gained nothing, and every lever was undone; None where that is not known.
    `distrust` is why it is not, as a clause. `problem` is why the training had to be ended before its time. `busy`: other processes took
    so much of the cores that levers which need some gain less than alone.
    """

    seed: int | None
    steps_per_block: int | None
    precision: float
    reached: float | None
    budget_s: float
    needed_s: NotRequired[float | None]
    took_s: float | None
    ended_by: str
    exit_code: int | None
    problem: NotRequired[str | None]
    trustworthy: bool | None
    distrust: str | None
    foreign_share: float | None
    busy: NotRequired[bool]
    sandbox: SandboxRow
    outcome: NotRequired[OutcomeRow | None]


class ChangeRow(TypedDict):
    """A change of one call in the script: how it is written there, and its place (file:line). The call `makes` a loader, or the settings
    that all loaders of a trainer are made by, and `others` more than the lever has changed.
    """

    text: str
    place: str
    makes: str
    others: int


class OutcomeRow(TypedDict):
    """The largest gain that was proved. Throughputs are by the clock; where the gain is the corrected one (`used`) they are not its ratio.

    `losses`: bit for bit the same, compared (`numerics` of the lever's row), not compared since the data came in another order, or not
    compared at all. `change` is None where the lever is no argument of one call, or where that is is not known.
    """

    lever: str
    gain: IntervalRow
    throughput: ThroughputsRow | None
    used: Literal["wall", "corrected"] | None
    losses: Literal["same", "compared", "other order", "not compared"]
    change: ChangeRow | None


class CaptureFacts(TypedDict):
    """The trace of a few steps that a profiler captured, which steps, and how much longer they took. None is unknown."""

    file: str
    steps: str
    extra_ms: float | None


class InTurn(TypedDict):
    """One of several trainings that follow one another in a script: its updates, and the time from the first to the last of them."""

    steps: int
    s: float
    samples_per_s: float | None
    judged: bool


class Run(TypedDict):
    """What ran. An open dict: further keys may follow. None is unknown."""

    name: str
    command: list[str]
    framework: str | None
    ranks: int
    steps: int
    step_boundary: str | None
    batch_size: int | float | None
    batch_size_from: str | None
    device: str | None
    started: str | None
    duration_s: float | None
    startup_s: float | None
    warmup_steps: int | None
    provisional: NotRequired[bool]
    """Whether there are too few steps for a verdict: ledger and findings are of what there is. Those of a recording claim no gain."""
    startup: NotRequired[list[StartupPartRow] | None]
    """The start-up's parts, in the order in which they come; None where the start is not known."""
    not_read: NotRequired[list[NotReadRow]]
    """What this machine does not show of itself, so that nothing was measured of it; absent where everything was read."""
    periodic: NotRequired[list[Periodic]]
    """What is not in every step: validation, checkpoints, epoch changes, and what was found by its period alone."""
    batch_sizes: NotRequired[list[int]]
    """The smallest and the largest usual batch size, where it changes among the steps looked at; `batch_size` is that of most batches."""
    batch_size_assumed: NotRequired[bool]
    """Whether no loader told the batch size: it is the leading dimension of batches, or of the model's input and output alike."""
    batches_per_step: NotRequired[float | None]
    """Batches that the usual step trains on: more than one where gradients are accumulated. What it makes of several is one."""
    steps_per_batch: NotRequired[float]
    """Of loaders that take turns, the steps from one batch to the next of the one that is read least; absent where each step has one."""
    asynchronous: NotRequired[bool]
    """Whether the framework's calls return before their work is done; absent where they do not."""
    updates_per_step: NotRequired[float]
    """Updates in each call of a framework that makes several at once, which then is a step; absent where it makes one."""
    in_turn: NotRequired[list[InTurn]]
    """Of trainings that follow one another in a script, each with an optimizer of its own, all of them in their order."""
    notes: NotRequired[list[str]]
    """Sentences that the reader must see beside the numbers, e.g. that the machine was busy."""
    rank: NotRequired[int | None]
    """Of a recording with several trainings: the rank in its job that this report is of; None for a training of its own."""
    training: NotRequired[int]
    """The number of this training among `rank_rows`."""
    trainings: NotRequired[int]
    pid: NotRequired[int]
    all_samples_per_s: NotRequired[float | None]
    """Samples/s of all recorded ranks of the job together; `throughput` is that of this rank alone."""
    rank_rows: NotRequired[list[RankRow]]
    """All trainings of the recording."""
    missing_ranks: NotRequired[list[int]]
    """Ranks of the job that left neither recording nor trace here: the first of them where they are very many."""
    capture: NotRequired[CaptureFacts]
    """Of a recording in which a profiler captured a few steps."""
    experiment: NotRequired[ExperimentFacts]
    """Of a recording in which levers were tried."""
    next_command: NotRequired[str]
    """The command that helps most now."""
    before_next: NotRequired[str]
    """What has to be done before that command can help."""


class Spread(TypedDict):
    """Milliseconds of a step without periodic events."""

    median: float | None
    p05: float | None
    p95: float | None


class Ends(TypedDict):
    """The ends of a 90 % interval."""

    low: float
    high: float


class Throughput(TypedDict):
    """How fast the training went; the interval is that of another run like it on this machine."""

    samples_per_s: float | None
    steps_per_s: float | None
    steps_per_s_interval: NotRequired[Ends]
    step_ms: Spread


class PlaceRow(TypedDict):
    """Where a part is in the user's code; `last_line` where it is the lines of a loop, `function` the one that it is in."""

    file: str
    line: int | None
    last_line: int | None
    function: str | None


class Bounds(TypedDict, total=False):
    """The least and the most of the window that something takes, where it is not known whether the device worked meanwhile."""

    share_low: float
    share_high: float


class PartRow(Bounds):
    """A named piece of a stage: its share of the window (0 to 1), not of the stage.

    `name` is its words, for people; `kind` what it is, `subject` the user's or a framework's own name, where there is one.
    """

    name: str
    kind: str
    subject: str | None
    place: PlaceRow | None
    share: float | None
    ms_per_step: float | None


class LedgerRow(Bounds):
    """One stage's account. A null share says that the stage could not be seen."""

    stage: str
    share: float | None
    ms_per_step: float | None
    parts: list[PartRow]


class VerdictRow(TypedDict):
    """The answer; `code` is that of the reason for it, None where the title of the finding of `rule` is the answer."""

    state: Literal["bottleneck", "healthy", "undetermined"]
    stage: str | None
    healthy: bool | None
    rule: str | None
    summary: str
    answer: NotRequired[str]
    """The summary without the state, which stands beside it."""
    code: NotRequired[str | None]


class MeasuredRow(TypedDict):
    """A gain that an experiment measured."""

    value: float
    low: float
    high: float


class GainRow(TypedDict):
    """A factor of throughput: 1.8 means 1.8 times. Where `predicted` is known and `high` is not, it is `low` or more.
    `unknown_because` is why nothing was predicted. `steady_low` is the lower end at the pace of this run: what a verdict rests on, where
    `low` is that of another run, which may meet a slower machine.
    """

    predicted: float | None
    low: float | None
    high: float | None
    assumes: str
    measured: MeasuredRow | None
    unknown_because: NotRequired[str]
    steady_low: NotRequired[float]


class EvidenceRow(TypedDict):
    """One measured value behind a finding."""

    name: str
    value: float | int | str | None
    unit: str
    threshold: float | None
    where: str | None


class FixRow(TypedDict):
    """One thing to do: the lever that can try it, one that does more than it and so bounds what it gains, and one that may change another
    loader than the fix is for.
    """

    text: str
    lever: str | None
    bounded_by: NotRequired[str | None]
    lever_in_doubt: NotRequired[str | None]
    changes_numerics: bool


class FoldedRow(TypedDict):
    """A finding that claims parts of another one, and is folded into it."""

    rule: str
    title: str
    names: NotRequired[str | None]
    fixes: list[FixRow]


class FindingRow(TypedDict):
    """One problem, the ledger parts it claims, and what fixing it would gain; `folded` is what the rules named by `also` advise. What lies
    `outside` the script stands among `run.notes` on the screen.
    """

    rule: str
    stage: str
    title: str
    share: float
    claims: list[str]
    also: list[str]
    folded: NotRequired[list[FoldedRow]]
    outside: NotRequired[bool]
    gain: GainRow
    evidence: list[EvidenceRow]
    fixes: list[FixRow]


class Next(TypedDict):
    """What binds once the top finding is fixed: its stage, and in words its demand, of the kind `code`."""

    stage: str | None
    code: NotRequired[str]
    predicted: str | None
    demand: NotRequired[str]
    """The same without the stage, which stands beside it."""


class NotJudgedRow(TypedDict):
    """A rule that could not judge; `advisory` where all that it could have found is advice, `lever` where an experiment would tell.

    `code` is that of the reason, which is its sentence. `pressing` is advice that could not be given yet, and is worth reading
    nevertheless; `in_verdict` where the verdict's summary gives the same reason.
    """

    rule: str
    code: NotRequired[str]
    reason: str
    advisory: NotRequired[bool]
    lever: NotRequired[str]
    pressing: NotRequired[bool]
    in_verdict: NotRequired[bool]


class HealthRow(TypedDict):
    """A counted loss or doubt."""

    name: str
    severity: Literal["info", "notice", "data_loss", "error"]
    count: int
    remedy: str


class ThroughputsRow(TypedDict):
    """Samples (or steps, as `per` says) per second by the clock: as it is, and with the lever."""

    per: Literal["sample", "step"]
    as_is_per_s: float
    per_s: float


class ExperimentRow(TypedDict):
    """A lever that was tried, the control, or a finding that no lever tries.

    `role` says what its gain is of (`prove/choose.py`, and `control`, `none`); `gain` is `wall` or `corrected`, as `used` says and
    for the reason `why`; its high end is without what the lever has left of what it takes away (`prove/stats/kept.py`). `held_back` is why
    a gain that is seen to be small refutes nothing: others had the cores that the lever asks for ("load"), what it changes came in too few
    blocks ("seldom"), it may shorten steps that were counted as if it did not ("long steps"), or it leaves so much of what it is to take
    away that the fix may gain more ("kept"); `reason` says it in words. `below` is the share under which gains could not be told from none,
    null with fewer rounds than a verdict takes. A row that is not "measured" has no verdict but "loss not finite"; a gain of it is what it
    gained until it was given up. `changes` is what else the lever changes. `how` says whether it was measured in blocks of one training or
    by whole runs; `rounds` are pairs of those then.
    """

    lever: str | None
    role: Literal["fix", "bound", "other", "control", "none"]
    rule: str | None
    state: Literal["measured", "not applicable", "failed", "unmeasured", "untried"]
    reason: str | None
    predicted: IntervalRow | None
    gain: IntervalRow | None
    wall: IntervalRow | None
    corrected: IntervalRow | None
    used: Literal["wall", "corrected"] | None
    why: str | None
    verdict: Literal["proved", "refuted", "cannot distinguish", "upper bound", "loss not finite"] | None
    held_back: Literal["load", "seldom", "long steps", "kept"] | None
    below: float | None
    rounds: int
    steps: int
    effect: int | None
    facts: dict[str, Any]
    changes: list[str]
    changes_numerics: bool
    numerics: dict[str, Any] | None
    how: Literal["blocks", "re-runs"] | None
    throughput: ThroughputsRow | None


class OverheadPart(TypedDict):
    """What a part of slowstep cost: hooks, stacks, monitors, or the profiler that `--capture` asks for."""

    name: str
    share: float


class Overhead(TypedDict):
    """What slowstep itself cost the training; `held` says whether recording, without the profiler, keeps to its limit."""

    us_per_step: float | None
    share: float | None
    once_ms: NotRequired[float]
    parts: NotRequired[list[OverheadPart]]
    limit_share: NotRequired[float]
    held: NotRequired[bool]
    call_timing_share_at_most: NotRequired[float | None]
    may_exceed: NotRequired[bool]
    """Whether recording, with all that timing calls may have taken, may cost more than its limit."""


class Report(TypedDict):
    """report.json."""

    schema: str
    run: Run
    throughput: Throughput
    ledger: list[LedgerRow]
    verdict: VerdictRow
    findings: list[FindingRow]
    next: Next | None
    not_judged: list[NotJudgedRow]
    health: list[HealthRow]
    overhead: Overhead
    experiments: list[ExperimentRow]
    pipeline: NotRequired[PipelineRow]
    """What the stages take of an input pipeline that the framework runs in its own threads, where they were looked at."""
    bench: NotRequired[BenchRow]
    """Where one half of the training was measured alone: most of the rest is unknown then."""


NO_THROUGHPUT: Final[Throughput] = {"samples_per_s": None, "steps_per_s": None, "step_ms": {"median": None, "p05": None, "p95": None}}


def bare_run(**known: Any) -> Run:
    """The row of a run of which only this is known."""
    unknown = (
        "framework",
        "step_boundary",
        "batch_size",
        "batch_size_from",
        "device",
        "started",
        "duration_s",
        "startup_s",
        "warmup_steps",
    )
    return cast(Run, dict.fromkeys(unknown) | {"command": [], "ranks": 1, "steps": 0} | known)


def unseen_row(stage: str) -> LedgerRow:
    """The account of a stage that nothing was seen of."""
    return {"stage": stage, "share": None, "ms_per_step": None, "parts": []}


def json_schema() -> dict[str, Any]:
    """The JSON Schema of report.json, as shipped in the package."""
    text = resources.files("slowstep.document").joinpath("report.schema.json").read_text(encoding="utf-8")
    return cast("dict[str, Any]", json.loads(text))


def validate(report: dict[str, Any] | Report) -> None:
    """Hold a report against its schema and its accounts. Raises ValueError with every fault; needs the package jsonschema."""
    found = faults(report)
    if found:
        raise ValueError("no valid report:\n" + "\n".join(sorted(found)))


def faults(report: dict[str, Any] | Report) -> list[str]:
    """What of a report breaks its schema or, where that holds, its accounts; needs the package jsonschema."""
    import jsonschema

    validator = jsonschema.Draft202012Validator(json_schema())
    broken = [f"{error.json_path}: {error.message}" for error in validator.iter_errors(report)]
    return broken or unbalanced(report["ledger"]) + (unbalanced_bench(report["bench"]) if "bench" in report else [])


def unbalanced(ledger: list[LedgerRow]) -> list[str]:
    """The accounts of a ledger that do not add up: shares that are not 1 in all, parts that exceed their stage."""
    faults = []
    shares = [row["share"] for row in ledger if row["share"] is not None]
    if shares and not math.isclose(sum(shares), 1.0, abs_tol=SUM_TOLERANCE):
        faults.append(f"the ledger's shares sum to {sum(shares):.6f}, not 1")
    for row in ledger:
        parts = sum(part["share"] or 0.0 for part in row["parts"])
        if parts > (row["share"] or 0.0) + SUM_TOLERANCE:
            faults.append(f"the parts of {row['stage']} sum to {parts:.6f}, more than its {row['share']}")
    return faults
