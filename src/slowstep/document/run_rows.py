"""The run of a report as plain data: what ran, its ranks, and what was not in every step."""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict, cast

from slowstep.document.experiment_rows import ExperimentFacts


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
    next_in_python: NotRequired[bool]
    """Whether that is a line of Python, and none for a shell."""
    before_next: NotRequired[str]
    """What has to be done before that command can help."""


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
