"""What is known of the input beyond waits and producers: where its making spends time, what it reads, what a batch is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import polars as pl

from slowstep.analyses.batches.fetch_concurrency import FetchConcurrency, find_fetch_concurrency
from slowstep.analyses.batches.producers import worker_processes
from slowstep.analyses.input.input_sizes import InputSizes, find_input_sizes
from slowstep.analyses.python.functions import is_library
from slowstep.analyses.python.garbage import collected_ns
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.record.writing.own_frames import is_own
from slowstep.timeline.intervals import Ints
from slowstep.timeline.timeline import Frame, Timeline

SECOND_NS = 1_000_000_000
# The spread of fewer seconds than this says nothing.
SECONDS_AT_LEAST = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFunction:
    """A function called while batches are made: calls per sample (None: how many samples there were is unknown), and its share of
    the making (what it calls included).

    Of a built-in function `file` and `line` are None; `caller` is the Python function that spends most time in it.
    """

    name: str
    file: str | None
    line: int | None
    calls_per_sample: float | None
    share: float
    caller: str | None
    is_users: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """One pass over the dataset (an epoch): means over its batches. None is unknown."""

    samples: float
    making_ns_per_sample: float  # without queueing for a core
    blocked_ns_per_sample: float  # of it, in which no thread of the producer computed
    storage_bytes_per_sample: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Forms:
    """What the batches that were looked at are made of, means."""

    tensors: float
    size_bytes: float
    spare_bytes: float  # what 8 bits per value would save, in the tensors whose values fit into them
    types: str
    array_bytes: float  # in NumPy's arrays, which travel through a pipe and not in shared memory


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkReceived:
    """What the machine received per second over the window, and by what share of it single seconds differ (standard deviation)."""

    bytes_per_s: float
    spread: float


@dataclass(frozen=True, kw_only=True, slots=True)
class InputFacts:
    """Facts of the training's input. None and empty are unknown."""

    functions: tuple[InputFunction, ...]  # most time first
    dataset_length: int | None
    sample_bytes: float | None  # of one sample as it stands in a batch
    sizes: InputSizes | None  # of the model's inputs, early and late in the run
    memory_available_bytes: int | None  # on this machine when recording began
    passes: tuple[Pass, ...]  # in order; the last one may be cut short
    forms: Forms | None
    read_calls_per_sample: float | None
    read_bytes_per_sample: float | None
    storage_bytes_per_sample: float | None
    storage_bytes_per_step: Floats  # read in the fetches that ended in each step
    helpers_share: float | None  # CPU time of a producer's other threads, by the producers' time
    helpers: float | None  # such threads busy at once on average, while the one that makes the batch does not queue for a core
    queueing_share: float | None  # of the producers' time, in which they waited for a core
    received: NetworkReceived | None  # by the machine's busiest kind of network interface, everybody's
    fetch_concurrency: FetchConcurrency | None  # whether batches that several workers make hold each other up

    def named(self, *patterns: str, at_least: float = 0.0) -> tuple[InputFunction, ...]:
        """The functions whose name or file contains one of the patterns, with at least this share."""
        return tuple(f for f in self.functions if f.share >= at_least and any(p in f.name or p in (f.file or "") for p in patterns))

    def around(self, share: float) -> InputFunction | None:
        """The user's function with least time that still holds `share` of the making; None where no function of the user's does."""
        holding = [f for f in self.functions if f.is_users and f.share >= share]
        return min(holding, key=lambda f: f.share, default=None)


def find_input_facts(timeline: Timeline, trainer: Trainer, steps: Steps) -> InputFacts:
    """Gather the facts of the loaders that feed the training."""
    read = trainer.waits["iterator"].unique().to_list()
    iterators = timeline.table("iterators").filter(pl.col("process") == trainer.process, pl.col("iterator").is_in(read))
    workers = worker_processes(timeline, trainer, read)
    processes = workers or [trainer.process]
    fetches = _fetches(timeline, processes, None if workers else trainer.thread)
    plain = fetches.filter(~pl.col("profiled"), pl.col("start_ns") >= int(steps.edges_ns[0]), pl.col("end_ns") <= int(steps.edges_ns[-1]))
    builtins, collates, forms = (
        timeline.table(name).filter(pl.col("process").is_in(processes)) for name in ("builtins", "collates", "batch_forms")
    )
    return InputFacts(
        functions=_functions(builtins),
        dataset_length=next((int(n) for n in iterators["dataset_length"].to_list()[::-1] if n is not None), None),
        sample_bytes=_sample_bytes(collates["bytes"].drop_nulls(), _mean(fetches["samples"])),
        sizes=find_input_sizes(timeline, trainer, processes),
        memory_available_bytes=trainer.facts.memory_available_bytes,
        passes=_passes(trainer, fetches),
        forms=_forms(forms),
        read_calls_per_sample=_per_sample(plain, "read_calls"),
        read_bytes_per_sample=_per_sample(plain, "read_bytes"),
        storage_bytes_per_sample=_per_sample(plain, "storage_bytes"),
        storage_bytes_per_step=_storage_per_step(fetches, steps),
        helpers_share=_share_of_wall(plain, "other_cpu_ns"),
        helpers=_helpers(plain),
        queueing_share=_share_of_wall(plain, "delay_ns"),
        received=_received(timeline, steps),
        fetch_concurrency=find_fetch_concurrency(fetches) if len(workers) > 1 else None,
    )


def _fetches(timeline: Timeline, processes: list[int], thread: int | None) -> pl.DataFrame:
    """The batches that these processes made, those of one thread alone where it is given, with the garbage collected meanwhile."""
    fetches = timeline.table("fetches").filter(~pl.col("failed"), pl.col("process").is_in(processes)).sort("end_ns")
    if thread is not None:
        fetches = fetches.filter(pl.col("thread") == thread)
    return fetches.with_columns(collected_ns=collected_ns(timeline, fetches))


def _sample_bytes(batch_bytes: pl.Series, per_batch: float | None) -> float | None:
    """Of the usual batch; None where its size or its samples are not known."""
    return float(batch_bytes.median()) / per_batch if len(batch_bytes) and per_batch else None  # type: ignore[arg-type]


def _functions(rows: pl.DataFrame) -> tuple[InputFunction, ...]:
    """The timed functions of all producers together, most time first."""
    whole = rows.group_by("process").agg(pl.col("samples").max(), pl.col("wall_ns").max())
    samples, wall_ns = int(whole["samples"].sum()), int(whole["wall_ns"].sum())
    if not wall_ns:
        return ()
    merged = (
        rows.sort("total_ns", descending=True)
        .group_by("function", "file", "first_line", maintain_order=True)
        .agg(pl.col("calls").sum(), pl.col("total_ns").sum(), pl.col("caller").first())
        .sort("total_ns", descending=True)
    )
    return tuple(_function(row, samples, wall_ns) for row in merged.iter_rows(named=True))


def _function(row: dict[str, object], samples: int, wall_ns: int) -> InputFunction:
    file, line, name = row["file"], row["first_line"], str(row["function"])
    return InputFunction(
        name=name,
        file=None if file is None else str(file),
        line=None if line is None else int(str(line)),
        calls_per_sample=int(str(row["calls"])) / samples if samples else None,
        share=min(int(str(row["total_ns"])) / wall_ns, 1.0),
        caller=None if row["caller"] is None else str(row["caller"]),
        is_users=file is not None and not is_library(Frame(file=str(file), function=name, first_line=0, line=0)) and not is_own(str(file)),
    )


def _passes(trainer: Trainer, fetches: pl.DataFrame) -> tuple[Pass, ...]:
    """The fetches by the start of the loader before them: workers do not know which pass a batch belongs to.

    A pass in which the model is only judged by the training's samples makes them as well.
    """
    others = trainer.other_starts.filter(pl.col("loader").is_in(trainer.starts["loader"].implode()))
    starts = np.sort(np.concatenate((trainer.starts["start_ns"].to_numpy(), others["start_ns"].to_numpy())))
    if not len(starts) or fetches.is_empty():
        return ()
    batches = _by_pass(fetches, np.searchsorted(starts, fetches["start_ns"].to_numpy(), side="right"))
    # Profiled ones are slower: of those alone where there are no others.
    usual = ~pl.col("profiled") | pl.col("profiled").all()
    read = pl.col("storage_bytes").is_not_null() & (pl.col("samples") > 0)
    made, read_bytes = pl.col("made").filter(usual).sum(), pl.col("storage_bytes").filter(read).sum()
    rows = batches.group_by("pass", maintain_order=True).agg(
        samples=pl.col("made").sum(),
        making_ns_per_sample=pl.col("making_ns").filter(usual).sum() / made,
        blocked_ns_per_sample=pl.col("blocked_ns").filter(usual).sum() / made,
        storage_bytes_per_sample=pl.when(read.any()).then(read_bytes / pl.col("samples").filter(read).sum()),
    )
    return tuple(Pass(**row) for row in rows.drop("pass").cast(pl.Float64).iter_rows(named=True))


def _by_pass(fetches: pl.DataFrame, of_pass: Ints) -> pl.DataFrame:
    """What each fetch made, in which pass, and how long that computed and was blocked."""
    making = pl.col("end_ns") - pl.col("start_ns") - pl.col("delay_ns").fill_null(0) - pl.col("collected_ns")
    computed = (pl.col("cpu_ns") - pl.col("collected_ns")).clip(lower_bound=0)
    return fetches.select(
        pl.Series("pass", of_pass),
        "profiled",
        "samples",
        "storage_bytes",
        made=pl.col("samples").fill_null(1).clip(lower_bound=1),
        making_ns=making,
        blocked_ns=(making - computed - pl.col("other_cpu_ns").fill_null(0)).clip(lower_bound=0),
    )


def _forms(rows: pl.DataFrame) -> Forms | None:
    if rows.is_empty():
        return None
    means = [_mean(rows[name]) or 0.0 for name in ("tensors", "bytes", "spare_bytes")]
    arrays = _mean(rows["array_bytes"]) or 0.0
    return Forms(tensors=means[0], size_bytes=means[1], spare_bytes=means[2], types=str(rows["types"][0]), array_bytes=arrays)


def _received(timeline: Timeline, steps: Steps) -> NetworkReceived | None:
    """From the readings of network interfaces: loopback or all others, whichever received more."""
    rows = timeline.table("network").filter(pl.col("time_ns").is_between(int(steps.edges_ns[0]), int(steps.edges_ns[-1]))).sort("time_ns")
    kinds = [_rates(group) for group in rows.partition_by("loopback")]
    rates = max((rate for rate in kinds if len(rate) >= SECONDS_AT_LEAST), key=np.mean, default=None)
    if rates is None or not rates.mean():
        return None
    return NetworkReceived(bytes_per_s=float(rates.mean()), spread=float(rates.std() / rates.mean()))


def _rates(rows: pl.DataFrame) -> Floats:
    """Bytes received in each whole second."""
    time_ns, size = rows["time_ns"].to_numpy(), rows["received_bytes"].to_numpy().astype(np.float64)
    if not len(time_ns):
        return np.zeros(0)
    return np.diff(np.interp(np.arange(time_ns[0], time_ns[-1], SECOND_NS), time_ns, size))


def _storage_per_step(fetches: pl.DataFrame, steps: Steps) -> Floats:
    read = fetches.filter(pl.col("storage_bytes").is_not_null())
    step, inside = steps.stretch_at(read["end_ns"].to_numpy())
    weights = read["storage_bytes"].to_numpy().astype(np.float64)[inside]
    return np.bincount(step[inside], weights=weights, minlength=steps.stretches).astype(np.float64)[~steps.excluded]


def _per_sample(fetches: pl.DataFrame, column: str) -> float | None:
    known = fetches.filter(pl.col(column).is_not_null(), pl.col("samples") > 0)
    samples = int(known["samples"].sum())
    return float(known[column].sum()) / samples if samples else None


def _share_of_wall(fetches: pl.DataFrame, column: str) -> float | None:
    known = fetches.filter(pl.col(column).is_not_null())
    wall_ns = int((known["end_ns"] - known["start_ns"]).sum())
    return float(known[column].sum()) / wall_ns if wall_ns else None


def _helpers(fetches: pl.DataFrame) -> float | None:
    known = fetches.filter(pl.col("other_cpu_ns").is_not_null(), pl.col("delay_ns").is_not_null())
    running_ns = int((known["end_ns"] - known["start_ns"] - known["delay_ns"]).clip(lower_bound=0).sum())
    return float(known["other_cpu_ns"].sum()) / running_ns if running_ns else None


def _mean(values: Iterable[object]) -> float | None:
    known = [float(str(value)) for value in values if value is not None]
    return sum(known) / len(known) if known else None
