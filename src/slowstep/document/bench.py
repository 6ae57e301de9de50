"""What `slowstep bench` measured, as plain data: the section `bench` of a report. Every figure has its 95 % interval.

Intervals of speeds hold what other starts of the script make on this machine, and where other processes kept it busy also what it would
make on a quiet one: so two of these sections of one script can be held against each other.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict, cast


class SandboxRow(TypedDict):
    """Where a sandboxed training was run: `claims` is what may be said of it, `write_ratio` its writing speed by that outside."""

    kind: str
    claims: str
    warnings: list[str]
    write_ratio: float | None


class FigureRow(TypedDict):
    """A value and the ends of its interval; an end is null where too little was measured to tell it."""

    value: float
    low: float | None
    high: float | None


class LoaderRow(TypedDict):
    """The script's own loader alone, over whole epochs of `epoch_batches` where these are known: the start of workers is in its figures.

    `starting` is the share of the time in which workers are started and ended. `page_cache`: how the first reading found it, after what
    the training had read; `from_storage`: the share of its bytes from storage. `reason`: why there is no figure, or what the one there is
    lacks. `workers` is null of a pipeline that the framework runs in threads of its own.

    `mb_per_s` are of the batches that it gives. `read_mb_per_s` is what its read calls return, `storage_mb_per_s` what came from storage
    for it, `received_mb_per_s` what this machine received meanwhile, for whomever: null where the loader was seen to use no connection.
    """

    workers: int | None
    prefetch_factor: int | None
    batch_size: int | None
    dataset: str
    dataset_length: int | None
    stream: bool
    samples_per_s: FigureRow | None
    batches_per_s: FigureRow | None
    mb_per_s: FigureRow | None
    read_mb_per_s: FigureRow | None
    storage_mb_per_s: FigureRow | None
    received_mb_per_s: FigureRow | None
    batches: int
    start_s: float | None
    epoch_batches: float | None
    starting: float | None
    page_cache: Literal["warm", "cold", "mixed", "unknown"]
    from_storage: float | None
    reason: str | None


class StageRow(TypedDict):
    """A part of making one sample; its share is that of the sum of all parts."""

    kind: Literal["read", "decode", "own", "transform", "collate", "transport"]
    name: str
    ms_per_sample: float
    interval: FigureRow | None
    share: float
    left_out_ms: float | None
    note: str | None


class CutStageRow(TypedDict):
    """A stage of a pipeline, which was cut after it: how fast all stages up to it are, between the edges of epochs, and what it adds.

    `then` are the stages behind it that only hand on, which are in its figures. `added_ms_per_sample` is the time that a sample takes
    longer than without it, in this start of the script: below zero where it hides what others take. CPU times are those of all threads of
    the process. `function` is what the stage calls, `place` its file and line; `in_python` tells that it runs in Python for each element,
    `reads_several` that the stage joins pipelines, which were not cut. `start_s` is the time to the first element. `reason`: why there is
    no figure, or what the one there is lacks.
    """

    kind: str
    then: list[str]
    function: str | None
    place: str | None
    in_python: bool
    reads_several: bool
    samples_per_s: FigureRow | None
    added_ms_per_sample: FigureRow | None
    cpu_ms_per_sample: float | None
    added_cpu_ms_per_sample: float | None
    start_s: float | None
    reason: str | None


class ParallelCallsPointRow(TypedDict):
    """All stages up to a map that makes so many calls at once; null: as many as the framework chooses."""

    calls: int | None
    samples_per_s: FigureRow | None
    reason: str | None


class ParallelCallsRow(TypedDict):
    """The map that costs most with other numbers of calls at once: the number of its stage, and what the script asks for."""

    stage: int
    own: int | None
    points: list[ParallelCallsPointRow]


class CutPipelineRow(TypedDict):
    """A pipeline cut after each of its stages, from the reader on. `dearest` is the number of the stage that surely adds time, and most;
    null where none does. `runs_ahead`: whether it works while the training computes; null where a part of it does, or that is unknown.
    `calls`: null where no map was tried.
    """

    stages: list[CutStageRow]
    dearest: int | None
    runs_ahead: bool | None
    calls: ParallelCallsRow | None


class PointRow(TypedDict):
    """The loader with a number of workers."""

    workers: int
    samples_per_s: FigureRow | None
    batches_per_s: FigureRow | None
    batches: int
    reason: str | None


class SweepRow(TypedDict):
    """The curve, and the fewest workers that no others are surely faster than."""

    points: list[PointRow]
    bend: int | None


class BoundEvidenceRow(TypedDict):
    """A value, the threshold that it is held against, and where that comes from."""

    name: str
    value: float | str | None
    unit: str
    threshold: float | None
    source: str | None


class BoundRow(TypedDict):
    """What the loader is bound by."""

    kind: Literal["cpu", "storage", "network", "blocked", "transport", "start", "undetermined"]
    sentence: str
    evidence: list[BoundEvidenceRow]


class ComputeRow(TypedDict):
    """The training on cached batches, and as it is, in interleaved blocks of one process."""

    samples_per_s: FigureRow | None
    as_is_samples_per_s: FigureRow | None
    steps: int
    cpu_ms_per_sample: float | None
    reason: str | None


class WholeRow(TypedDict):
    """Both halves put together, and held against the training as it is.

    Beside no compute are `starting_ms_per_sample`, in the loader's half, where an epoch waits for its first batch. In neither half, and
    added to the compute, are `receiving_ms_per_sample`, for the receipt of batches that lie ready. `binds` is "both" where the halves add
    up, or their intervals overlap.
    """

    how: Literal["max", "sum"]
    binds: Literal["loader", "compute", "both"]
    cores_bound: bool
    predicted: FigureRow
    starting_ms_per_sample: float
    receiving_ms_per_sample: float
    real: FigureRow | None
    log_error: float | None
    agrees: bool | None
    sentence: str


class BenchRow(TypedDict):
    """The whole section. `stages`, `sweep` and `bound` are those of `bench data`; null where nothing could be measured. `pipeline` is there
    in their place where the training reads one that is made of stages.

    `reason` says why something is missing, `foreign_share` is what other processes used of the cores, and `next_because` is why the next
    command helps most.
    """

    half: Literal["data", "compute"]
    ended_by: str
    reason: str | None
    foreign_share: float | None
    sandbox: SandboxRow
    loader: LoaderRow | None
    stages: list[StageRow]
    stages_reason: str | None
    sweep: SweepRow | None
    pipeline: NotRequired[CutPipelineRow]
    bound: BoundRow | None
    compute: ComputeRow | None
    whole: WholeRow | None
    next_because: str


def unbalanced_bench(bench: BenchRow) -> list[str]:
    """The accounts of the section that do not add up: shares of parts that are not 1 in all, values outside of their intervals."""
    found = []
    shares = sum(row["share"] for row in bench["stages"])
    if bench["stages"] and abs(shares - 1) > 1e-6:
        found.append(f"the shares of the stages sum to {shares:.6f}, not 1")
    for path, figure in _figures(bench, "$.bench"):
        value, low, high = figure["value"], figure["low"], figure["high"]
        if (low is not None and low > value) or (high is not None and high < value):
            found.append(f"{path}: {value} lies outside of its interval")
    return found


def _figures(node: Any, path: str) -> list[tuple[str, FigureRow]]:
    if isinstance(node, dict):
        if node.keys() == FigureRow.__annotations__.keys():
            return [(path, cast("FigureRow", node))]
        return [found for key, value in node.items() for found in _figures(value, f"{path}.{key}")]
    if isinstance(node, list):
        return [found for number, value in enumerate(node) for found in _figures(value, f"{path}[{number}]")]
    return []
