"""The section `ledger` of a report: the account of every stage, in their order, and of its largest parts."""

from __future__ import annotations

from collections.abc import Sequence

from slowstep.analyses.ledger.ledger import Ledger
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.unseen_stages import unseen_stages
from slowstep.document.ledger_rows import LedgerRow, PartRow, unseen_row
from slowstep.part_words import part_in_words
from slowstep.parts import UNKNOWN, Part
from slowstep.stages import STAGES, UNATTRIBUTED

# Below this a part is numerical dust and is not listed.
SMALLEST_SHARE = 1e-6
# Of parts of a stage, those beyond these many are too small to be read: where steps are marked, so are ranges, which have many names.
PARTS_WITH_RANGES = 12


def unseen_ledger() -> list[LedgerRow]:
    """The account of a window of which nothing was seen."""
    return [unseen_row(stage) for stage in (*STAGES, UNATTRIBUTED)]


def ledger_section(m: Measurements) -> list[LedgerRow]:
    """The account of every stage: null of those that are unseen."""
    ledger = m.ledger
    if not ledger.whole:
        return unseen_ledger()
    unseen, most_parts = unseen_stages(m), PARTS_WITH_RANGES if m.are_steps_marked else None
    return [unseen_row(stage) if stage in unseen else _stage(ledger, stage, most_parts) for stage in (*STAGES, UNATTRIBUTED)]


def _stage(ledger: Ledger, stage: str, most_parts: int | None) -> LedgerRow:
    ns, whole = ledger.total(stage), ledger.whole
    # What is not attributed has no parts, but for what is known within the bounds of others.
    seen = [part for part in ledger.parts_of(stage) if stage != UNATTRIBUTED or part == UNKNOWN]
    parts = [_part(ledger, part) for part in seen if ledger.total_of(part) / whole >= SMALLEST_SHARE]
    parts.sort(key=lambda row: -(row["share"] or 0.0))
    row: LedgerRow = {"stage": stage, "share": ns / whole, "ms_per_step": ns / ledger.steps / 1e6, "parts": parts[:most_parts]}
    _bound(row, ledger, ledger.parts_of(stage))
    return row


def _part(ledger: Ledger, part: Part) -> PartRow:
    ns = ledger.total_of(part)
    row = part_row(part, share=ns / ledger.whole, ms_per_step=ns / ledger.steps / 1e6)
    _bound(row, ledger, (part,))
    return row


def _bound(row: LedgerRow | PartRow, ledger: Ledger, parts: Sequence[Part]) -> None:
    """Say between which shares lies what some parts took, where that is not known."""
    low, high = (end / ledger.whole for end in ledger.bounds(*parts))
    if low < high:
        row["share_low"], row["share_high"] = low, high


def part_row(part: Part, *, share: float | None, ms_per_step: float | None) -> PartRow:
    """A part of the ledger as a row of the report."""
    place = part.place
    return {
        "name": part_in_words(part),
        "kind": part.kind.value,
        "subject": part.name,
        "place": None
        if place is None
        else {"file": place.file, "line": place.line, "last_line": place.last_line, "function": place.function},
        "share": share,
        "ms_per_step": ms_per_step,
    }
