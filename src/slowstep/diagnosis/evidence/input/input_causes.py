"""What the rules on causes of slow input have in common: where the making of batches spends its time, and what less of it would gain."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from slowstep.analyses.batches.transfer import RECEIVE_NS
from slowstep.analyses.input.input_facts import InputFunction
from slowstep.analyses.input.stragglers import Stragglers
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.python.calls import DOMINANT_SHARE, TimedFunction
from slowstep.analyses.python.functions import shown
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.input.input_side import (
    ATTAINED,
    COMFORTABLE,
    QUEUED_PESSIMISTIC,
    RELIEF_EXPECTED,
    SAVES_AT_LEAST,
    SIDE_BY_SIDE,
    InputSide,
    concurrent_ns,
    core_bound_ns,
    crowded,
    keeps_up,
    relieved_ns,
    relieved_queue_ns,
    workers_needed,
    workers_save,
)
from slowstep.diagnosis.gain import Case, Counterfactual, share_queued
from slowstep.findings import Evidence
from slowstep.units import format_share

# A cause must hold this share of making batches: below it the making's other work is what matters.
CAUSE_SHARE = 0.20
# One slow sample is an accident, two a coincidence.
FEWEST_SLOW_STEPS = 3
# What one sample in twenty does is how a data set is, not an exception in it.
MOST_SLOW_SAMPLES = 0.05
# More files than this per sample are no picture with its label and mask any more.
FILES_PER_SAMPLE = 8
# A container that nearly every sample opens; not each, because a sample may be left out or be seen twice in the timed batches.
EVERY_SAMPLE = 0.9

OPENS = ("method io.open", "method _io.open", "method posix.open", "built-in function open")
FILE_CALLS = (
    *OPENS,
    "of '_io.BufferedReader'",
    "of '_io.FileIO'",
    "of '_io._IOBase'",
    "of '_io.TextIOWrapper'",
    "method posix.stat",
    "method posix.fstat",
    "method posix.lstat",
    "method posix.close",
    "method posix.scandir",
    "method posix.listdir",
)
# Formats that hold many samples, and are made to be opened once: what opens and closes one, and file and function that show that it is.
CONTAINERS = (
    ("zipfile.ZipFile", "zipfile", "ZipFile.__init__"),
    ("zipfile.ZipFile", "zipfile", "ZipFile.close"),
    ("tarfile.TarFile", "tarfile", "TarFile.__init__"),
    # A tar file has no table of contents: who asks for a member by its name has all headers walked, once for each opening.
    ("tarfile.TarFile", "tarfile", "TarFile._load"),
    ("h5py.File", "h5py/_hl/files", "File.__init__"),
    ("h5py.File", "h5py/_hl/files", "File.close"),
    ("netCDF4.Dataset", "netCDF4", "Dataset.__init__"),
    ("pyarrow.parquet.ParquetFile", "pyarrow/parquet", "ParquetFile.__init__"),
    ("sqlite3.connect", None, "sqlite3.connect"),
    ("lmdb.open", None, "lmdb.open"),
    # Newer versions have a type of that name, whose making is no call of a function: what it calls is seen, and its end.
    ("lmdb.open", "lmdb/_envid", "env_keys"),
    ("lmdb.open", None, "'close' of 'Environment' objects"),
)
# numpy's own file of arrays is a zip file, one per sample by habit.
NUMPY_ARCHIVE, NUMPY_READS = "NpzFile.__init__", "NpzFile.__getitem__"
RECEIVES = ("'recv_into' of '_socket.socket'", "'recv' of '_socket.socket'", "'read' of '_ssl._SSLSocket'")


@dataclass(frozen=True, kw_only=True, slots=True)
class FileCost:
    """Opening and reading files, as shares of making batches; `container` where it is one that is made to be opened once."""

    opens_per_sample: float
    share: float
    container: InputFunction | None


def file_cost(m: Measurements) -> FileCost | None:
    """What opening files costs where there are many per sample, or a container is opened for each; None otherwise."""
    opens = sum(_often(f) for f in m.input.facts.named(*OPENS) if f.file is None)
    container = _container(m)
    if container is not None and container.share >= CAUSE_SHARE:
        return FileCost(opens_per_sample=max(opens, _often(container)), share=container.share, container=container)
    # A socket is read through the same buffers as a file.
    share = sum(f.share for f in m.input.facts.named(*FILE_CALLS) if f.file is None) - receive_share(m)
    if opens < FILES_PER_SAMPLE or share < CAUSE_SHARE:
        return None
    return FileCost(opens_per_sample=opens, share=share, container=None)


def _often(function: InputFunction) -> float:
    """Calls per sample; none where that is not known."""
    return function.calls_per_sample or 0.0


def _container(m: Measurements) -> InputFunction | None:
    """The container that is opened for every sample and costs most, its closing with it."""
    archives = {f.calls_per_sample for f in m.input.facts.named(NUMPY_ARCHIVE)}
    found: dict[str, list[InputFunction]] = defaultdict(list)
    for f in m.input.facts.functions:
        kind = _container_of(f)
        if kind is not None and _often(f) >= EVERY_SAMPLE and not (archives and "ZipFile" in f.name):
            found[kind].append(f)
    if not found:
        return None
    kind, parts = max(found.items(), key=lambda row: sum(f.share for f in row[1]))
    often = min(map(_often, parts))
    return replace(max(parts, key=lambda f: f.share), name=kind, calls_per_sample=often, share=min(sum(f.share for f in parts), 1.0))


def _container_of(f: InputFunction) -> str | None:
    """What opens the container that a function opens or closes."""
    kinds = (
        kind
        for kind, file, name in CONTAINERS
        if f.name.endswith(name) and (file is None) == (f.file is None) and (file or "") in (f.file or "")
    )
    return next(kinds, None)


def loads_archives(m: Measurements) -> bool:
    """Whether nearly every sample opens an archive of numpy's, and reading whole arrays of it counts. The same one or its own: unknown."""
    opened = any(_often(f) >= EVERY_SAMPLE for f in m.input.facts.named(NUMPY_ARCHIVE))
    return opened and bool(m.input.facts.named(NUMPY_READS, at_least=CAUSE_SHARE))


def receive_share(m: Measurements) -> float:
    """Share of making batches spent in receiving from sockets."""
    return sum(f.share for f in m.input.facts.named(*RECEIVES) if f.file is None)


def nearer_cause(m: Measurements) -> bool:
    """Whether a rule knows why the dominant function takes its time: that one then leads."""
    return file_cost(m) is not None or receive_share(m) >= CAUSE_SHARE


def few_slow_samples(m: Measurements) -> Stragglers | None:
    """The slow samples, where they are too many for a coincidence and few enough to be exceptions."""
    found = m.over_time.stragglers
    if found is None or found.steps < FEWEST_SLOW_STEPS or (found.of_samples and found.count > MOST_SLOW_SAMPLES * found.of_samples):
        return None
    return found


def hidden_by_workers(side: InputSide) -> bool:
    """Whether enough workers would hide the producers behind the training: then their number is the cause."""
    return concurrent_ns(side, 1_000_000) <= side.rest_ns / COMFORTABLE


def cores_leave_most(m: Measurements, side: InputSide) -> bool:
    """Whether workers that cannot keep up use so much of the cores already that any number of them would leave most of the waits.

    Other processes' use of the cores does not count: it is nothing that the making does.
    """
    if not m.input.demand.workers or keeps_up(side, m.input.demand.workers):
        return False
    left = core_bound_ns(m, side, ATTAINED, by_others=False) - side.rest_ns
    return left > (1 - DOMINANT_SHARE) * float(side.removable_ns.mean())


def more_workers_help(m: Measurements, side: InputSide) -> bool:
    """Whether more workers would save a part of the step that counts: then too-few-workers or serial-loader says so."""
    workers = workers_needed(side, m.input.demand.workers)
    if m.input.demand.workers:
        return workers_save(m, side, workers)
    return max(side.rest_ns, concurrent_ns(side, workers)) <= (1 - SAVES_AT_LEAST) * float(m.step_ns.mean())


def workers_take_most(m: Measurements, side: InputSide) -> bool:
    """Whether workers would take most of making its batches off a loop without a loader."""
    after = max(side.rest_ns + RECEIVE_NS, concurrent_ns(side, workers_needed(side, 0)))
    left = after - side.rest_ns
    return crowded(m, side) is None and left <= (1 - DOMINANT_SHARE) * float(side.removable_ns.mean())


def most_of_making(m: Measurements) -> tuple[Evidence, ...]:
    """The function that holds most of making samples, and what it calls for that; nothing where none does."""
    function = m.input.fetch_function
    if function is None:
        return ()
    return (most_of_it_in(m, function), *called_for_it(function))


def most_of_a_sample(m: Measurements) -> tuple[Evidence, ...]:
    """The same beside a finding that is about something else than how long samples take to make."""
    function = m.input.fetch_function
    if function is None:
        return ()
    return (replace(most_of_it_in(m, function), name="most of making a sample in"), *called_for_it(function))


def most_of_it_in(m: Measurements, function: TimedFunction) -> Evidence:
    """As evidence: the function, its share and its place."""
    return Evidence(name="most of it in", value=function.name, unit="", where=f"{format_share(function.share)}, {timed_at(m, function)}")


def timed_at(m: Measurements, function: TimedFunction) -> str:
    """Where a function is whose calls were timed, as reports show it."""
    return f"{shown(function.file, m.trainer.facts.script)}:{function.line}"


def called_for_it(function: TimedFunction) -> tuple[Evidence, ...]:
    """What a function that makes samples calls, most time first."""
    called = sorted((*function.parts, *function.into), key=lambda row: -row[1])
    return tuple(Evidence(name="in it", value=name, unit="", where=f"{format_share(share)} of making samples") for name, share in called)


def place(m: Measurements, function: InputFunction) -> str | None:
    """Where a function is, as reports show it; None for a built-in one."""
    return None if function.file is None else f"{shown(function.file, m.trainer.facts.script)}:{function.line}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Spared:
    """Shares of making batches that a fix spares: as expected, pessimistic and optimistic."""

    expected: float
    pessimistic: float
    optimistic: float


def sparing(
    m: Measurements, side: InputSide, spared: Spared, assumes: str, *, is_cpu: bool = True, lost_ns: Floats | float = 0.0
) -> Counterfactual:
    """What sparing a share of making batches does to the waits for them, and to what is lost to workers that take the cores (ns per step);
    `is_cpu` where it spares CPU time in proportion.
    """
    workers = m.input.loader.num_workers if m.input.loader is not None else 0
    waits, queue = side.removable_ns + lost_ns, side.own_queued_ns + lost_ns

    def case(share: float, slowed: float = 0.0, queued: float = 1.0) -> Case:
        share = min(max(share, 0.0), 1.0)
        if workers == 0:
            removed = (waits + side.filling_ns) * share
            return Case(removed_ns=removed, delay_share=share_queued(queue * share, removed))
        cpu_ns = share * side.cpu_ns if is_cpu else 0.0
        slowed = slowed if is_cpu else 0.0
        relieved, freed = (take(side, cpu_ns, slowed=slowed, queued=queued) for take in (relieved_ns, relieved_queue_ns))
        removed = waits + side.filling_ns * share + relieved
        beside = concurrent_ns(side, workers, spared_wall_ns=share * side.wall_ns, spared_cpu_ns=cpu_ns)
        return Case(removed_ns=removed, concurrent_ns=beside, delay_share=share_queued(queue + freed, removed))

    return Counterfactual(
        assumes=assumes,
        expected=case(spared.expected, RELIEF_EXPECTED),
        pessimistic=case(spared.pessimistic, queued=QUEUED_PESSIMISTIC),
        optimistic=case(spared.optimistic, SIDE_BY_SIDE),
    )
