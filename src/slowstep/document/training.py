"""What one training, recorded or traced, tells by itself: the sections of its report."""

from __future__ import annotations

from collections.abc import Iterable

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.law import Diagnosis
from slowstep.document.ledger import ledger_section, unseen_ledger
from slowstep.document.overhead import UNKNOWN, overhead_section
from slowstep.document.pipeline_section import pipeline_section
from slowstep.document.rows import health_row
from slowstep.document.run_rows import Run
from slowstep.document.sections import Sections
from slowstep.document.throughput import throughput_section
from slowstep.document.throughput_rows import NO_THROUGHPUT
from slowstep.faults import Attempts
from slowstep.health import Health


def sections_of_training(run: Run, m: Measurements, diagnosis: Diagnosis, health: Iterable[Health], attempt: Attempts) -> Sections:
    """What a training of this run tells. What of it cannot be made is left out, and is one of the faults of `attempt`."""
    return Sections(
        run=run,
        throughput=attempt.otherwise(NO_THROUGHPUT, throughput_section, m, attempt),
        ledger=attempt.otherwise(unseen_ledger(), ledger_section, m),
        diagnosis=diagnosis,
        health=tuple(map(health_row, health)),
        overhead=attempt.otherwise(UNKNOWN, overhead_section, m),
        pipeline=attempt.otherwise(None, pipeline_section, m),
    )
