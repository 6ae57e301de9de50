"""What a report is built of: the sections of one training, what is known of the other ranks, and what an experiment showed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from slowstep.diagnosis.law import Diagnosis
from slowstep.diagnosis.tried import Tried
from slowstep.document.experiment_rows import ExperimentFacts, ExperimentRow
from slowstep.document.finding_rows import HealthRow
from slowstep.document.ledger_rows import LedgerRow
from slowstep.document.loader_setting_rows import LoaderSettingRow
from slowstep.document.pipeline import PipelineRow
from slowstep.document.run_rows import Run
from slowstep.document.throughput_rows import Overhead, Throughput


@dataclass(frozen=True, kw_only=True, slots=True)
class Sections:
    """What one training, live or as a trace, tells by itself. Each section was made by itself: a fault in one costs no other."""

    run: Run
    throughput: Throughput
    ledger: Sequence[LedgerRow]
    diagnosis: Diagnosis
    health: tuple[HealthRow, ...]
    overhead: Overhead
    pipeline: PipelineRow | None = None
    loader_settings: Sequence[LoaderSettingRow] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSection:
    """What one report of a job says of the other ranks: more of its run, notes, and who is missing. Of a lone training, nothing."""

    run: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    health: tuple[HealthRow, ...] = ()


ALONE: Final = RankSection()


@dataclass(frozen=True, kw_only=True, slots=True)
class ExperimentSection:
    """What an experiment showed. `tried` is what that changes in the diagnosis; `options` are the words that ask for the same levers
    again.
    """

    facts: ExperimentFacts
    rows: Sequence[ExperimentRow]
    tried: Tried
    health: tuple[HealthRow, ...]
    options: tuple[str, ...] = ()
