"""Builds what was measured of a training from a few figures, for tests of rules. Times are given in milliseconds a step.

What a test does not name is that of a healthy training: steps of 19.5 ms on a processor of four cores, whose loader's one worker keeps up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from made_parts import lines_part
from made_topics import of_topics, with_topics
from slowstep.analyses.after_update.after_update_topic import AfterUpdateTopic
from slowstep.analyses.batches.demand import Demand
from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.compute.between_forwards import NOTHING
from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.compute.compute_topic import ComputeTopic
from slowstep.analyses.compute.embedding_tables import EmbeddingTables
from slowstep.analyses.compute.fixed_cost import FixedCost
from slowstep.analyses.compute.work import Work
from slowstep.analyses.input.input_facts import InputFacts
from slowstep.analyses.input.input_topic import InputTopic
from slowstep.analyses.input.loop_input import LoopInput
from slowstep.analyses.input.padding import PaddingLook
from slowstep.analyses.input.restarts import Restarts
from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.ledger.saves import Saves
from slowstep.analyses.machine.devices import DeviceUse
from slowstep.analyses.machine.load import Load
from slowstep.analyses.machine.machine import Machine
from slowstep.analyses.machine.machine_topic import MachineTopic
from slowstep.analyses.machine.memory import Memory
from slowstep.analyses.machine.own_cost import OwnCost
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.over_time.over_time import OverTime, Unsteady
from slowstep.analyses.over_time.pace import EVEN
from slowstep.analyses.over_time.startup import Startup
from slowstep.analyses.over_time.startup_parts import StartupKind, StartupPart
from slowstep.analyses.python.calls import TimedFunction
from slowstep.analyses.python.concurrent_threads import ConcurrentThreads
from slowstep.analyses.python.garbage import Garbage
from slowstep.analyses.python.python_topic import PythonTopic
from slowstep.analyses.sharing.sharing import Sharing
from slowstep.analyses.steps.steps import Floats, Steps
from slowstep.analyses.steps.trainer import Trainer
from slowstep.analyses.steps.training_topic import TrainingTopic
from slowstep.analyses.steps.trends import Trend
from slowstep.frameworks._known import plain, words_of_loop
from slowstep.parts import BACKWARD, BODY, OPTIMIZER, Part, PartKind
from slowstep.stages import STAGES
from slowstep.timeline.coverage import KINDS, UNSEEN, CoverageLevel, KindCoverage
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Frame, ProcessFacts

MS, GIB, MIB = 1e6, 1 << 30, 1 << 20
BEGIN_NS, WARMUP = 1_000_000_000, 3
SCRIPT, DATA = "/home/user/project/train.py", "/home/user/project/data.py"
EVERY_STEP = KindCoverage(CoverageLevel.EXACT)
OF_RECORDINGS = dict.fromkeys(KINDS, EVERY_STEP) | dict.fromkeys(("device", "dispatches", "allocations"), UNSEEN)
MADE_BY_LOOP = lines_part("preprocess", "train.py", 24)
PerStep = float | Sequence[float] | Floats
# ms per step.
HEALTHY: dict[Part, PerStep] = {
    Part("preprocess", PartKind.TRANSPORT): 0.5,
    BODY: 6.0,
    BACKWARD: 12.0,
    OPTIMIZER: 1.0,
}


def measurements(
    *,
    steps: int = 200,
    ledger: Mapping[Part, PerStep] | None = None,
    workers: int | None = 1,
    making_ms: float = 6.5,
    cores: float = 4.0,
    stacks: Mapping[Part, int] | None = None,
    timed: Mapping[Part, int] | None = None,
    samples: PerStep = 16.0,
    **changes: Any,
) -> Measurements:
    """The measurements of a healthy training but for what is said.

    `ledger` has ms per step by part, one number or one for each step, beside the parts of `HEALTHY` that it does not name; the
    steps are as long as all of it. `workers` is None for a loop without a loader; `making_ms` is what making a step's batch takes;
    `stacks` is how many of them name a part, `timed` in how many gaps calls that were timed do. Others are fields of topics, or topics: a
    value, or for a dataclass the fields of it that change, as in `machine={"ranks": 2}`.
    """
    within = {part: 1.0 for part in ledger or {} if part.kind is PartKind.SAVING_FUNCTION}
    parts = replace(
        _parts(HEALTHY | dict(ledger or {}), steps), gap_stacks=dict(stacks or {}), timed=dict(timed or {}), written_within=within
    )
    of_steps = _steps(parts.ns, samples)
    found = of_topics(
        training=TrainingTopic(words=plain()),
        trainer=_trainer(of_steps, workers, cores),
        steps=of_steps,
        ledger=parts,
        input=_input(of_steps, workers, making_ms),
        saves=Saves(count=0, every_steps=None, writes_each=None, bytes_each=None, where=None),
        compute=_compute(parts),
        machine=MachineTopic(
            resources=_machine(cores),
            load=Load(tree_cores=1.3, foreign_cores=0.0, stolen_cores=0.0, cores=cores),
            cores=cores,
            delay_ns=sum((parts.of(stage, PartKind.CORE_WAIT) for stage in STAGES), np.zeros(steps)),
            pace=EVEN,
            stopped=(0, 0.0),
            own_cost=OwnCost(ns_per_step=2000.0, share=1e-4, once_ns=0.0),
        ),
        over_time=_over_time(steps),
        after_update=AfterUpdateTopic(gaps=None, gap_lines=None, activities={}, outgrown=frozenset()),
        python=PythonTopic(
            garbage=Garbage(recorded=True, kinds=(), let_go=0, asked_at=None, in_workers_ns=0.0, in_waits_ns=0.0),
            concurrent_threads=ConcurrentThreads(looked_at=True, threads=()),
            has_stacks=True,
            files={},
        ),
        sharing=Sharing(rank=None, ranks=1, seen=False, own_ns=parts.ns.sum(axis=0)),
        coverage=OF_RECORDINGS,
    )
    return changed(found, **changes)


def changed(m: Measurements, **changes: Any) -> Measurements:
    """The same with other values of some fields, each by its name in whichever topic it is."""
    topics = {name: m.topic(name) for name in sorted(m.provided)}
    for name, value in changes.items():
        home = name if name in topics else next(topic for topic, of in topics.items() if _has(of, name))
        topics[home] = _change(topics[home], value) if home == name else _with(topics[home], name, value)
    if "words" not in changes:
        words = words_of_loop(frame.file for frame in topics["trainer"].way_to_update)
        topics["training"] = replace(topics["training"], words=words)
    return with_topics(m, **topics)


def _has(of: Any, name: str) -> bool:
    """Whether a dataclass has a field, itself or inside one of its fields."""
    return is_dataclass(of) and (hasattr(of, name) or any(_has(getattr(of, each.name), name) for each in fields(of)))


def _with(of: Any, name: str, value: Any) -> Any:
    """A dataclass with a field changed, its own or that of one of its fields."""
    own = [each.name for each in fields(of)]
    home = name if name in own else next(each for each in own if _has(getattr(of, each), name))
    inner = getattr(of, home)
    return replace(of, **{home: _change(inner, value) if home == name else _with(inner, name, value)})


def _change(of: Any, value: Any) -> Any:
    """A value, or of a dataclass one with the fields changed for which a dict says how."""
    if not (isinstance(value, Mapping) and is_dataclass(of)):
        return value
    for name, each in value.items():
        of = _with(of, name, each)
    return of


def _compute(ledger: Ledger) -> ComputeTopic:
    return ComputeTopic(
        device="cpu",
        work=_work(),
        fixed_cost=_fixed_cost(float(ledger.ns.sum(axis=0).mean())),
        trainer_cpu_ns=float(ledger.of("compute").mean()),
        before_update=None,
        own_update=None,
        in_backward=None,
        blocked=Blocked(share=0.0, line=None),
        between_forwards=NOTHING,
        tables=EmbeddingTables(looks=8, found=()),
    )


def fed(
    workers: int,
    *,
    cpu_ms: float,
    blocked_ms: float = 0.0,
    helped_ms: float = 0.0,
    queued_ms: float = 0.0,
    delay_ms: float = 0.0,
    storage: bool = False,
    spinning_cores: float = 0.0,
    foreign_cores: float = 0.0,
    cores: float = 4.0,
    body_ms: float = 19.0,
    **changes: Any,
) -> dict[str, Any]:
    """What `measurements` takes for a training that waits for a loader whose batches take so long to make.

    Each step needs one: it takes `body_ms`, and half a millisecond to receive one from a worker.

    Making one computes, is blocked (on storage or on something unseen), waits for threads that help, and for a core. The training thread
    itself waits for a core for `delay_ms`; its other threads use `spinning_cores`.
    """
    making_ms = cpu_ms + blocked_ms + helped_ms + queued_ms
    receive_ms = 0.5 if workers else 0.02
    rest_ms = body_ms + receive_ms + delay_ms
    waited_ms = max(making_ms / workers - rest_ms, 0.0) if workers else making_ms
    of_wait = waited_ms / making_ms
    step_ms = rest_ms + waited_ms
    own = cpu_ms + helped_ms
    used = (body_ms + own) / step_ms + spinning_cores
    given: dict[str, Any] = {
        "workers": workers,
        "making_ms": making_ms,
        "cores": cores,
        "ledger": {
            Part("preprocess", PartKind.SAMPLES): cpu_ms * of_wait,
            Part("read", PartKind.STORAGE if storage else PartKind.BLOCKED): blocked_ms * of_wait,
            Part("preprocess", PartKind.LOCK_WAIT): helped_ms * of_wait,
            Part("preprocess", PartKind.PRODUCER_CORE_WAIT): queued_ms * of_wait,
            Part("preprocess", PartKind.TRANSPORT): receive_ms,
            **_body(body_ms, delay_ms),
        },
        "demand": {
            "cpu_ns": own * MS,
            "queued_ns": queued_ms * MS,
            "blocked_share": blocked_ms / making_ms,
            "idle_share": None if not workers else max(1 - making_ms / workers / rest_ms, 0.0),
        },
        "input": {
            "helpers_share": helped_ms / making_ms,
            "helpers": helped_ms / (making_ms - queued_ms),
            "queueing_share": queued_ms / making_ms,
        },
        "trainer_cpu_ns": (body_ms + (0.0 if workers else cpu_ms)) * MS,
        "load": {"tree_cores": used, "foreign_cores": foreign_cores},
        "machine": {"tree_cores": used},
    }
    return merged(given, changes)


def loop_fed(
    making_ms: float,
    *,
    blocked_ms: float = 0.0,
    part: Part = MADE_BY_LOOP,
    cores: float = 4.0,
    spinning_cores: float = 0.0,
    body_ms: float = 19.0,
    steps: int = 200,
    **changes: Any,
) -> dict[str, Any]:
    """The same for a loop without a loader that makes its own batches, in `part`; `blocked_ms` of it without computing."""
    used = (body_ms + making_ms - blocked_ms) / (body_ms + making_ms) + spinning_cores
    given: dict[str, Any] = {
        "workers": None,
        "cores": cores,
        "steps": steps,
        "ledger": {
            Part("preprocess", PartKind.TRANSPORT): 0.0,
            part: making_ms - blocked_ms,
            Part("read", PartKind.BLOCKED): blocked_ms,
            **_body(body_ms, 0.0),
        },
        "loop_input": LoopInput(
            made_ns=per_step(making_ms - blocked_ms, steps),
            blocked_ns=per_step(blocked_ms, steps),
            delay_ns=np.zeros(steps),
            others_ns=np.zeros(steps),
            parts=(part,),
            largest=part,
            maker=None,
            other=None,
            stacks=100,
            of_stacks=100,
            timed=3,
        ),
        "trainer_cpu_ns": (body_ms + making_ms - blocked_ms) * MS,
        "load": {"tree_cores": used},
        "machine": {"tree_cores": used},
    }
    return merged(given, changes)


def _body(body_ms: float, delay_ms: float) -> dict[Part, PerStep]:
    """Of 19 ms as in `HEALTHY`, of more or less in proportion."""
    parts = {part: float(np.mean(ms)) * body_ms / 19.0 for part, ms in HEALTHY.items() if part.stage == "compute"}
    return {**parts, Part("compute", PartKind.CORE_WAIT): delay_ms}


def merged(given: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Both, with the changes inside of dicts that both have."""
    both = {name: merged(given[name], value) for name, value in changes.items() if isinstance(value, dict) and name in given}
    return {**given, **changes, **both}


def per_step(ms: PerStep, steps: int = 200) -> Floats:
    """ns per step of ms: one number, or one for each step."""
    return np.asarray(np.broadcast_to(np.asarray(ms, dtype=np.float64) * MS, steps))


def every(k: int, ms: float, steps: int = 200) -> list[float]:
    """ms in every k-th step, 0 in the others."""
    return [ms if (step + 1) % k == 0 else 0.0 for step in range(steps)]


def _parts(ms: Mapping[Part, PerStep], steps: int) -> Ledger:
    """Of whole ns, so that the steps are exactly as long."""
    rows = {part: np.round(per_step(value, steps)) for part, value in ms.items()}
    kept = {part: row for part, row in rows.items() if row.any()}
    return Ledger(parts=tuple(kept), ns=np.vstack(list(kept.values())), gap_stacks={})


def _steps(ns: Floats, samples: PerStep) -> Steps:
    count = ns.shape[1]
    return Steps(
        boundary="request for input",
        edges_ns=BEGIN_NS + np.concatenate(([0], np.cumsum(ns.sum(axis=0)))).astype(np.int64),
        excluded=np.zeros(count, dtype=bool),
        samples=per_step(samples, count) / MS,
        batch_size=round(float(np.median(per_step(samples, count))) / MS),
        batch_size_from="the loader's index counts",
        batch_sizes=None,
        size_changes=(),
        batches_per_step=1.0,
        requests_per_step=1.0,
        warmup=WARMUP,
        asked_warmup=None,
        includes_warmup=False,
        total=count + WARMUP,
        only_counted=0,
        eventful=np.zeros(count, dtype=bool),
        period=1,
        whole_periods=False,
    )


def _input(of_steps: Steps, workers: int | None, making_ms: float) -> InputTopic:
    """Of a loop without a loader that which tells of none."""
    steps = of_steps.count
    is_fed = workers is not None
    making_ns = making_ms * MS if is_fed else None
    return InputTopic(
        facts=_input_facts(steps),
        loader=_loader(workers, of_steps.batch_size) if workers is not None else None,
        loader_changes=(),
        demand=Demand(
            workers=workers or 0,
            wall_ns=making_ns,
            cpu_ns=making_ns,
            collate_ns=0.5 * MS if is_fed else None,
            batch_bytes=4e6 if is_fed else None,
            idle_share=0.5 if workers else None,
            blocked_share=0.0 if is_fed else None,
        ),
        counted=None,
        unmatched_share=0.0,
        filling_ns=np.zeros(steps),
        made_by_loader=_made_on_the_training_thread(steps, making_ms) if workers == 0 else (),
        fetch_function=_fetch_function() if is_fed else None,
        collate_function=None,
        timed_fetches=3 if is_fed else 0,
        held_transfer_share=0.0,
        sampler_time=None,
        rebuilt=None,
        loop_input=None,
        prefetch_threads=None,
        pipeline=None,
        padding=PaddingLook(looks=24, found=()),
        stored_reads=None,
    )


def _made_on_the_training_thread(steps: int, making_ms: float) -> tuple[MadeByLoader, ...]:
    return (MadeByLoader(batches=steps, ns=per_step(making_ms, steps), each_ns=making_ms * MS, dataset="MaskFolder"),)


def _loader(workers: int, batch_size: int | None) -> Loader:
    return Loader(
        num_workers=workers,
        prefetch_factor=2 if workers else None,
        batch_size=batch_size,
        dataset="MaskFolder",
        collate="default_collate",
        collate_file=DATA,
        collate_where="data.py:70",
        collate_is_default=True,
        read_together=1,
        waited_share=1.0,
        iterators=(0,),
        other_loaders=(),
        is_named=True,
    )


def _fetch_function() -> TimedFunction:
    return TimedFunction(name="__getitem__", file=DATA, line=20, share=1.0, path=("__getitem__",), parts=(("load", 0.35), ("resize", 0.3)))


def _input_facts(steps: int) -> InputFacts:
    return InputFacts(
        functions=(),
        dataset_length=None,
        sample_bytes=250_000.0,
        sizes=None,
        memory_available_bytes=None,
        passes=(),
        forms=None,
        read_calls_per_sample=0.06,
        read_bytes_per_sample=60.0,
        storage_bytes_per_sample=0.0,
        storage_bytes_per_step=np.zeros(steps),
        helpers_share=0.0,
        helpers=0.0,
        queueing_share=0.0,
        received=None,
        fetch_concurrency=None,
    )


def _fixed_cost(step_ns: float) -> FixedCost:
    tenth = step_ns / 10
    return FixedCost(
        value_ns=tenth, likely_ns=tenth, low_ns=0.8 * tenth, high_ns=1.2 * tenth, step_ns=step_ns, samples=16.0, source="made", smaller=8
    )


def _over_time(steps: int) -> OverTime:
    nothing = np.zeros(steps)
    return OverTime(
        events=(),
        trend=Trend(first=19.5 * MS, last=19.5 * MS, growth_low=0.0, growth_likely=0.0),
        growth=None,
        graph=None,
        written=None,
        growing_saves=None,
        startup=Startup(parts=(StartupPart(kind=StartupKind.IMPORT, of="torch", ns=int(1300 * MS)),), excess_ns=0),
        trained_ns=int(steps * 19.5 * MS),
        restarts=Restarts(
            count=0,
            with_workers=0,
            forks_per_step=0.0,
            used_up=0,
            cut_short=0,
            batches_each=None,
            start_ns=nothing,
            cold_ns=nothing,
            collected_ns=nothing,
        ),
        validations=None,
        stragglers=None,
        unsteady=Unsteady(variation=0.0, part=BODY, part_share=0.0),
    )


def _trainer(steps: Steps, workers: int | None, cores: float) -> Trainer:
    ends = steps.edges_ns[1:]
    asked = steps.edges_ns[:-1] if workers is not None else steps.edges_ns[:0]
    spans = TABLE["spans"].empty()
    place = {"process": [0] * len(ends), "thread": [100] * len(ends)}
    return Trainer(
        process=0,
        thread=100,
        optimizer=0,
        facts=_facts(cores),
        update_start_ns=ends - int(MS),
        update_end_ns=ends,
        waits=_rows("waits", {"start_ns": asked, "end_ns": asked + int(MS) // 2}),
        other_waits=TABLE["waits"].empty(),
        starts=TABLE["starts"].empty(),
        other_starts=TABLE["starts"].empty(),
        ends=spans,
        other_ends=spans,
        spans=spans,
        all_updates=_rows("updates", {**place, "start_ns": ends - int(MS), "end_ns": ends, "optimizer": [0] * len(ends)}),
        collections=TABLE["collections"].empty(),
    )


def _rows(table: str, columns: Mapping[str, Any]) -> pl.DataFrame:
    given = pl.DataFrame(columns, schema={name: TABLE[table].schema[name] for name in columns})
    return pl.concat([TABLE[table].empty(), given], how="diagonal")


def _facts(cores: float) -> ProcessFacts:
    return ProcessFacts(
        pid=100,
        role="trainer",
        script=SCRIPT,
        cwd="/home/user/project",
        python="3.11.7",
        framework_version="2.13.0",
        cores_allowed=int(cores),
        cpu_quota=None,
        threads=int(cores),
        training_frames={0: Frame(file=SCRIPT, function="main", first_line=10, line=30)},
        forward_frame=Frame(file=SCRIPT, function="main", first_line=10, line=26),
        training_paths={},
        forward_path=(),
        graph_nodes=20,
        graph_elements=None,
        event_cost_ns=400.0,
        events=1000,
        sampler_cpu_ns=1000,
        import_path=("/home/user/project", "/usr/lib/python3.11/site-packages"),
        notes={"facts": {}, "optimizers": [{"kind": "optimizer", "id": 0, "type": "SGD", "params": 10}]},
    )


def _machine(cores: float) -> Machine:
    nothing = Memory(resident_bytes=None, growth=None, early=None, limit=None, swap_in_per_s=None, swap_out_per_s=None)
    return Machine(
        tree_cores=1.3,
        idle_cores=None,
        pressure={},
        queueing=None,
        throttling=None,
        quota_cores=None,
        cores_at_start=None,
        cores_now=None,
        worker_cores=None,
        workers_cores=None,
        inherited_cores=None,
        threads=int(cores),
        ranks=1,
        major_faults_per_s=None,
        memory=nothing,
        devices=(),
    )


def _work() -> Work:
    return Work(
        loop=None,
        outside_model=None,
        bodies_timed=3,
        untimed=None,
        forward_line=None,
        forward_function=None,
        convolutions=None,
        dtypes={"float32": 100},
        modes={},
        looks=10,
        accelerators={},
        accelerator_built=True,
        accelerators_hidden=False,
    )


def device(**changes: Any) -> DeviceUse:
    """An accelerator that is busy, at its best."""
    healthy = DeviceUse(
        device=0,
        name="H1",
        readings=40,
        busy_share=0.95,
        working=40,
        state=0,
        sm_mhz=1900.0,
        most_sm_mhz=2000,
        lowered={},
        power_w=500.0,
        power_limit_w=700.0,
        default_power_limit_w=700.0,
        temperature_c=60.0,
        memory_share=0.25,
        shared=None,
        others_bytes=None,
        link=(5, 16),
        most_link=(5, 16),
    )
    return replace(healthy, **changes)
