"""The stages of which nothing was seen, so that their time is unknown and not nothing."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.profiled.not_shown import no_device
from slowstep.parts import PartKind
from slowstep.stages import RESULT_STAGES
from slowstep.timeline.coverage import UNSEEN, CoverageLevel

# What tells reading from preprocessing is what making each batch took: without it all waiting for input stands as `preprocess`.
BY_BATCHES: Final = ("read",)
COPIES: Final = ("h2d", "d2h")
# Where neither is there, nothing shows what is done with results, which has no events of its own.
NAMES: Final = frozenset({"annotations", "python"})
ON_A_DEVICE: Final = ("h2d", "gradient_sharing", "d2h")


def unseen_stages(m: Measurements) -> frozenset[str]:
    """Those of which nothing was charged and nothing could have been, as what would show them was not traced or recorded."""
    return _in_trace(m) if m.has("facts") else _in_recording(m)


def _in_recording(m: Measurements) -> frozenset[str]:
    """With an accelerator its copies, with other ranks what is shared with them."""
    # Whether the device idles, now and then, does not tell on what it works.
    copies = COPIES if m.compute.device != "cpu" and _level(m, "device") is not CoverageLevel.EXACT else ()
    unseen = m.sharing.ranks > 1 and not m.sharing.seen and not m.ledger.of("gradient_sharing").any()
    hidden = (*_input(m), *copies, *(("gradient_sharing",) if unseen else ()))
    return frozenset(stage for stage in hidden if not m.ledger.parts_of(stage, PartKind.FROM_CAPTURE))


def _input(m: Measurements) -> tuple[str, ...]:
    return BY_BATCHES if _level(m, "batches") is CoverageLevel.NONE else ()


def _level(m: Measurements, kind: str) -> CoverageLevel:
    """How what is of a kind is known."""
    return m.coverage.get(kind, UNSEEN).known


def _in_trace(m: Measurements) -> frozenset[str]:
    """What the trace has no events of."""
    requests = m.device.requests
    unseen = [
        *_input(m),
        *(() if requests.height and (requests["end_ns"] > requests["start_ns"]).any() else ("preprocess",)),
        *(() if m.facts.recorded & NAMES else RESULT_STAGES),
        *(() if no_device(m) is None else ON_A_DEVICE),
    ]
    return frozenset(stage for stage in unseen if not m.ledger.share(stage))
