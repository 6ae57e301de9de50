"""What the notes and steps of a benched training say: its loader, its compute, and both together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from slowstep.document.bench import ComputeRow
from slowstep.prove.bench import core_waits
from slowstep.prove.bench.loader_bound import Bound, is_crowded, judge
from slowstep.prove.bench.loader_speed import Point, change_of_cache, curve, from_storage, own_point, share_from_storage
from slowstep.prove.bench.loader_stages import SampleStage, carried, read_builtin_calls, stages
from slowstep.prove.bench.over_starts import over_starts, point_over_starts
from slowstep.prove.bench.overlap import Whole, are_silent, arm_rate, known_steps, put_together, received
from slowstep.prove.bench.pipeline_prefixes import ParallelCallsCurve, StageCost, calls_curve, stage_costs
from slowstep.prove.stats.design import AS_IS, CONTROL, FIRST
from slowstep.prove.stats.figures import FEWEST_BLOCKS, Figure, combined, exactly, ratio, scaled
from slowstep.reason_words import sentence
from slowstep.reasons import SAID, Reason, Wording
from slowstep.record.experiment.arms import NOT_IN_TIME, READY_NS
from slowstep.record.writing import format as contract
from slowstep.workflow.bench_act import BenchMeasurements
from slowstep.workflow.bench_reasons import LEAST_SAID, of_busy_machine, of_cache
from slowstep.workflow.bench_rows import figure

# The one arm with a lever.
_CACHED: Final = FIRST
# The steps' samples are counted in batches by their first dimension; where they and the loader's own count differ by more, by the loader's.
_SAME: Final = 0.01

TOO_FEW_STEPS: Final = Wording("bench-few-steps", "too few steps in the time; give it a larger --budget")
UNKNOWN_SAMPLES: Final = Wording("samples-of-steps-unknown", "the number of samples in a step is unknown")
NO_WHOLE_BATCH: Final = Wording("no-whole-batch", "each batch is trained on in several steps, and no block of steps holds a whole one")
NOT_MEASURED: Final = Wording("parts-not-measured", "not measured")

CROWDED: Final = Wording(
    "loader-waited-for-cores",
    "the loader waited for cores, because of other processes or of bursts of its own: on a quiet machine it may be faster",
)
UNKNOWN_OVERLAP: Final = Wording(
    "overlap-unknown",
    "how much of the pipeline runs while the training computes is unknown, so its halves do not give the whole",
)
BY_INDICES: Final = Wording(
    "samples-by-indices",
    "samples are counted by the loader's indices, because the first dimension of a batch is not its number of samples",
)
SILENT_BLOCKS: Final = Wording(
    "silent-blocks",
    "left out of compute alone: {blocks:count block of steps|blocks of steps} in which the number of samples is unknown",
)
LEVER_SAID: Final = Wording("bench-lever", "{lever}: {state}, because {reason}")
TOGETHER: Final = Wording(
    "loaders-together",
    "the training reads {loaders} loaders: the one that the training waits for most was measured alone{which}; compute alone has cached "
    "batches of all",
)
UNEXPLAINED: Final = Wording(
    "training-unexplained",
    "that loader and the compute do not explain the training: the other loaders, which are in neither half, may",
)
FEEDING: Final = Wording("feeding-loader", "the script reads {loaders} loaders: the one that feeds the training was measured{which}")
WHOLE_STREAM: Final = Wording(
    "whole-stream", "each worker reads the whole stream unless the data set divides it: more workers may repeat samples"
)
STARTS_IN_COMPUTE: Final = Wording(
    "starts-in-compute", "of a stream, compute alone includes the start of workers at each epoch: without it, it is faster"
)
_WHICH: Final = Wording("which-data-set", ", that of data set {dataset}{length}{batches}")
_LENGTH: Final = Wording("length-of-data-set", " of {samples:count sample}")
_BATCHES: Final = Wording("batches-of-data-set", ", in batches of {size:,}")


class BenchFound:
    """What the notes and steps of a training say."""

    def __init__(self, measured: BenchMeasurements) -> None:
        self._measured = measured
        notes = measured.notes
        self.description: dict[str, Any] = next((n for n in notes if n["part"] == "loader"), {})
        self.together: int = self.description.get("read_together", 1)
        self.cores: float | None = self.description.get("cores")
        self.drains = [n for n in notes if n["part"] == "drain"]
        self._parts = next((n for n in notes if n["part"] == "parts"), None)
        self.point = own_point(self.drains) if self.drains else None
        # Of a pipeline; a loader has none.
        self._stages: list[dict[str, Any]] | None = self.description.get("stages")
        self.points = curve(self.drains) if len(self.drains) > 1 and not self.is_pipeline else ()
        self._factor = _factor(self.point)
        self.as_is, self.cached = self._rate((AS_IS, CONTROL)), self._rate((_CACHED,))
        self.load = measured.load
        self.is_busy = measured.load is not None and measured.load.busy
        self._no_compute = None if self.cached is not None else self._why_no_compute()
        self.compute = self._compute()

    @property
    def is_pipeline(self) -> bool:
        """Whether the training reads a pipeline that the framework runs in threads of its own."""
        return self._stages is not None

    @property
    def runs_ahead(self) -> bool | None:
        """Whether that works while the training computes; None where only a part does, or nobody tells."""
        found: bool | None = self.drains[0].get("runs_ahead") if self.drains else None
        return found

    def stage_costs(self) -> tuple[StageCost, ...]:
        """What the stages of that cost; none where it was not cut."""
        return () if self._stages is None else stage_costs(self._stages, self._measured.notes)

    def calls_curve(self, costs: Sequence[StageCost]) -> ParallelCallsCurve | None:
        """Its dearest map with other numbers of calls at once; None where none was tried."""
        return None if self._stages is None else calls_curve(self._stages, self._measured.notes, costs)

    def stages(self) -> tuple[SampleStage, ...]:
        """The parts of a sample."""
        return stages(self._parts, self._transported())

    def stages_reason(self) -> str | None:
        """Why parts are missing, or not left out one by one."""
        if self.is_pipeline:
            return None
        if self._parts is None:
            return sentence(self._measured.reason or NOT_MEASURED())
        found = self._parts["reason"] or self._parts["left_out_reason"]
        return None if found is None else str(found)

    def bound(self) -> Bound | None:
        """What the loader is bound by."""
        if self.point is None or self.is_pipeline:
            return None
        calls = read_builtin_calls(self._parts) if self._parts is not None and self._parts["rows"] else None
        return judge(self.point, cores=self.cores, first=self.drains[0], calls=calls, points=self.points, carrying=carried(self.stages()))

    def whole(self) -> Whole | None:
        """Both halves together, as they were in this start; None where one is missing. What binds would bind in other starts, too."""
        found = None if self.point is None else self._whole(self.point, self.cached, self.point.workers)
        # Of several loaders only one was measured alone, and the compute has cached batches of all: the others are in neither half.
        if found is None or (self.together > 1 and not found.agrees):
            return None
        printed = self.whole_over_starts()
        return found if printed is None else replace(found, binds=printed.binds)

    def whole_over_starts(self) -> Whole | None:
        """Both halves together, with intervals that hold other starts."""
        if self.point is None or self.cached is None:
            return None
        point = point_over_starts(self.point, self.waiting(self.point))
        whole = self._whole(point, self.compute_over_starts(), point.workers)
        return None if whole is None else replace(whole, real=self.as_is_over_starts())

    def waiting(self, point: Point) -> float:
        """How many times as fast a loader may be on a quiet machine; 1 where this one was quiet."""
        if self.load is None or not self.is_busy:
            return 1.0
        if self.is_pipeline:
            return core_waits.of_pipeline(point, self.cores, self.load.foreign_cores)
        return core_waits.of_loader(point, self.cores)

    def compute_over_starts(self) -> Figure | None:
        """The compute alone, as other starts may have it."""
        return None if self.cached is None else over_starts(self.cached, waiting=self._steps_waited((_CACHED,)))

    def as_is_over_starts(self) -> Figure | None:
        """The training as it is, as other starts may have it."""
        if self.as_is is None:
            return None
        # What it waits for may have waited for a core itself.
        waiting = max(self._steps_waited((AS_IS, CONTROL)), 1.0 if self.point is None else self.waiting(self.point))
        return over_starts(self.as_is, waiting=waiting)

    def _steps_waited(self, arms: tuple[int, ...]) -> float:
        return core_waits.of_steps(self._measured.steps, arms) if self.is_busy else 1.0

    def compute_that_counts(self) -> Figure | None:
        """The compute as it counts for how sure it is that another number of workers is faster: the loader's figures alone say that.

        Only where computing is the larger part of a sum does that hang on how well the compute is known: what there is to hide is the rest.
        """
        return self.cached if self._is_mostly_computing() else exactly(self.cached)

    def wholes(self) -> dict[int, Whole]:
        """The whole by the number of workers, as this start had it."""
        return self._wholes(self._points_by_workers(), self.compute_that_counts())

    def wholes_of_next_start(self) -> dict[int, Whole]:
        """The same as the next start may have it, which is the one that proves a gain, and with all that is not known of the compute."""
        points = {workers: point_over_starts(point, of_next=True) for workers, point in self._points_by_workers().items()}
        return self._wholes(points, None if self.cached is None else over_starts(self.cached, of_next=True))

    def _points_by_workers(self) -> dict[int, Point]:
        """As far as the curve goes. Without a curve a worker makes batches as the thread does."""
        points = {point.workers: point for point in self.points}
        if self.is_pipeline and self.point is not None:
            return {self.point.workers: self.point}
        if not points and self.point is not None:
            points = {self.point.workers: self.point} | ({1: self.point} if not self.point.workers else {})
        return points

    def _wholes(self, points: Mapping[int, Point], compute: Figure | None) -> dict[int, Whole]:
        found = {workers: self._whole(point, compute, workers) for workers, point in points.items()}
        return {workers: whole for workers, whole in found.items() if whole is not None}

    @property
    def lacks_overlap(self) -> bool:
        """Whether it is not known if loading and computing overlap, which decides what the halves make together."""
        return self.is_pipeline and self.point is not None and self.runs_ahead is None and not self._measured.is_asynchronous

    @property
    def lacks_others(self) -> bool:
        """Whether both halves are known and say nothing about the whole: the training reads another loader, which is in neither."""
        return self.together > 1 and None not in (self.point, self.cached) and self.whole() is None

    @property
    def lacks_samples(self) -> bool:
        """Whether the loader is known, and blocks on cached batches do not tell how many samples they trained on."""
        return self.point is not None and self.cached is None and self._why_no_samples() is not None

    @property
    def lacks_steps(self) -> bool:
        """Whether the time was too short for the steps that tell how fast the compute is."""
        return self.compute is not None and (self._no_compute == TOO_FEW_STEPS() or self._is_worth_waiting())

    @property
    def refuses_cached(self) -> bool:
        """Whether the training was not given cached batches, and would not be in more time."""
        refused = any(note["state"] == contract.LEVER_NOT_APPLICABLE for note in self._measured.lever_notes)
        return self.cached is None and refused and not self._is_worth_waiting()

    def _is_worth_waiting(self) -> bool:
        """Whether the lever was only not ready in time, and with a larger budget is given more."""
        plan = self._measured.plan
        if self.compute is None or plan is None or plan.ready_s is None:
            return False
        return self._no_compute == SAID(said=NOT_IN_TIME) and plan.ready_s * 1e9 < READY_NS

    def notes(self) -> list[Reason]:
        """What the reader must know beside the numbers."""
        found = self._loaders_notes()
        if self.load is not None and (busy := of_busy_machine(self.load)) is not None:
            found.append(busy)
        elif self.point is not None and not self.is_pipeline and is_crowded(self.point, self.cores):
            found.append(CROWDED())
        if self.lacks_overlap:
            found.append(UNKNOWN_OVERLAP())
        found += [*self._cache_notes(), *self._stream_notes()]
        if self._factor != 1.0:
            found.append(BY_INDICES())
        if self.cached is not None and (left_out := self._silent_blocks()):
            found.append(SILENT_BLOCKS(blocks=left_out))
        bad = [note for note in self._measured.lever_notes if note["state"] in (*contract.LEVER_GIVEN_UP, contract.LEVER_NOT_UNDONE)]
        return [*found, *(LEVER_SAID(lever=note["name"], state=note["state"], reason=note["reason"]) for note in bad)]

    def _loaders_notes(self) -> list[Reason]:
        """Of several loaders, which was measured."""
        if self.together > 1:
            alone = TOGETHER(loaders=self.together, which=self._which())
            return [alone, UNEXPLAINED()] if self.lacks_others else [alone]
        if self._measured.loaders > 1:
            return [FEEDING(loaders=self._measured.loaders, which=self._which())]
        return []

    def _stream_notes(self) -> list[Reason]:
        """What is otherwise with a data set that is a stream."""
        found = []
        if self.description.get("stream") and self.description.get("divides") is not True and len(self.points) > 1:
            found.append(WHOLE_STREAM())
        if self.description.get("stream") and self.point is not None and (self.point.starting or 0.0) >= LEAST_SAID:
            found.append(STARTS_IN_COMPUTE())
        return found

    def _cache_notes(self) -> list[Reason]:
        if not self.drains:
            return []
        told = self.description
        before = from_storage(told.get("read_before_bytes"), told.get("storage_before_bytes"))
        return of_cache(before, share_from_storage(self.drains[0]), change_of_cache(self.drains))

    def _is_mostly_computing(self) -> bool:
        """Whether the training thread makes its batches itself, and computing takes it longer."""
        point = self.point
        if point is None or point.samples_per_s is None or self.cached is None:
            return False
        if point.workers or self.runs_ahead or self._measured.is_asynchronous:
            return False
        return self.cached.value < point.samples_per_s.value

    def _whole(self, point: Point, compute: Figure | None, workers: int) -> Whole | None:
        """Both halves together, with the loader of a point and so many workers."""
        if point.samples_per_s is None or compute is None or self.lacks_overlap:
            return None
        return put_together(
            point.samples_per_s,
            compute,
            self.as_is,
            workers=int(bool(self.runs_ahead)) if self.is_pipeline else workers,
            is_asynchronous=self._measured.is_asynchronous,
            receive_ms=self._receive_ms(),
            # Where the workers of a stream are started anew, they are under cached batches too: that is in both halves.
            starting_ms=0.0 if self.description.get("stream") else point.edge_ms,
            core_ms=self._core_ms(point),
        )

    def _which(self) -> Reason | None:
        """The loader that was measured, so that it is distinguished from another of the same data set."""
        told = self.description
        if told.get("dataset") is None:
            return None
        length = None if told["dataset_length"] is None else _LENGTH(samples=told["dataset_length"])
        batches = None if told["batch_size"] is None else _BATCHES(size=told["batch_size"])
        return _WHICH(dataset=told["dataset"], length=length, batches=batches)

    def _transported(self) -> Point | None:
        """The loader with workers: what it has none of is no part of its samples' time."""
        return self.point if self.point is not None and self.point.workers else None

    def _rate(self, arms: tuple[int, ...]) -> Figure | None:
        plan = self._measured.plan
        figure = None if plan is None else arm_rate(self._measured.steps, plan, arms)
        return None if figure is None else scaled(figure, self._factor)

    def _compute(self) -> ComputeRow | None:
        if self._measured.plan is None:
            return None
        cpu_ms = self._compute_cpu_ms()
        return {
            "samples_per_s": figure(self.compute_over_starts()),
            "as_is_samples_per_s": figure(self.as_is_over_starts()),
            "steps": int((~self._measured.steps.settling).sum()),
            "cpu_ms_per_sample": None if cpu_ms is None else cpu_ms.value,
            "reason": None if self._no_compute is None else sentence(self._no_compute),
        }

    def _why_no_compute(self) -> Reason:
        said = next((n["reason"] for n in self._measured.lever_notes if n["state"] in contract.LEVER_GIVEN_UP), None)
        if said:
            return SAID(said=str(said))
        return self._why_no_samples() or self._measured.reason or TOO_FEW_STEPS()

    def _why_no_samples(self) -> Reason | None:
        steps = self._measured.steps
        counted = ~steps.settling & (steps.arm == _CACHED)
        if not counted.any() or known_steps(steps, counted).any():
            return None
        if (counted & are_silent(steps)).any() or not received(steps)[counted].any():
            return UNKNOWN_SAMPLES()
        return NO_WHOLE_BATCH()

    def _silent_blocks(self) -> int:
        """How many blocks on cached batches hold a step whose samples are not known."""
        steps = self._measured.steps
        return len(np.unique(steps.block[~steps.settling & (steps.arm == _CACHED) & are_silent(steps)]))

    def _compute_cpu_ms(self) -> Figure | None:
        """CPU ms per sample of the training's own process on cached batches: its workers rest then."""
        used = [note for note in self._measured.block_notes if note["arm"] == _CACHED]
        steps = self._measured.steps
        known = known_steps(steps, ~steps.settling & (steps.arm == _CACHED))
        if not used or not known.any():
            return None
        per_step = float(received(steps)[known].mean()) * self._factor
        per_ns = ratio([note["cpu_ns"] for note in used], [note["steps"] for note in used], least=FEWEST_BLOCKS)
        return None if per_ns is None else scaled(per_ns, 1 / (1e6 * per_step))

    def _core_ms(self, point: Point) -> Figure | None:
        """CPU ms per sample of loader and compute together, over the cores; None where one of them is not known."""
        compute = self._compute_cpu_ms()
        if compute is None or self.cores is None or point.samples <= 0:
            return None
        # Without workers receiving is in the process's own time.
        made = point.per_batch("process_ns", "trainer_cpu_ns") if point.workers else point.per_batch("process_ns")
        if made is None:
            return None
        loader = scaled(made, point.batches / point.samples / 1e6)
        return scaled(combined(np.add, compute, loader), 1 / self.cores)

    def _receive_ms(self) -> float:
        """What receiving a batch that lies ready takes beyond giving out a cached one, per sample, as the lever saw it in the training."""
        # The last note is of the most receipts.
        facts = (note.get("facts") or {} for note in reversed(self._measured.lever_notes) if note["state"] == contract.LEVER_EFFECT)
        floor_ns = next((fact["floor_ns"] for fact in facts if fact.get("floor_ns")), None)
        point = self.point
        if floor_ns is None or point is None or point.samples <= 0:
            return 0.0
        return float(floor_ns) / 1e6 / (point.samples / point.batches)


def _factor(point: Point | None) -> float:
    """Samples by the loader's count over samples by the recorder's."""
    if point is None or point.samples <= 0 or point.seen <= 0:
        return 1.0
    factor = point.samples / point.seen
    return 1.0 if abs(factor - 1) <= _SAME else factor
