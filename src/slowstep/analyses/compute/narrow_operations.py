"""Operations that multiply numbers of 16 bits on the processor, and whether it has instructions for these."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.pass_work import looks_of_training
from slowstep.analyses.steps.trainer import Trainer
from slowstep.timeline.timeline import Timeline

# By type what a processor computes with, as Linux calls it: of x86, and of ARM.
_NATIVE = {"float16": frozenset(("avx512_fp16", "amx_fp16", "fphp", "asimdhp")), "bfloat16": frozenset(("avx512_bf16", "amx_bf16", "bf16"))}
BFLOAT16 = "bfloat16"


@dataclass(frozen=True, kw_only=True, slots=True)
class NarrowOperations:
    """Of the type that most of them have. None is unknown."""

    dtype: str
    share: float  # of all operations that multiply, in the passes that were looked at
    is_native: bool | None  # whether the processor has instructions for it
    has_bfloat16: bool  # whether it has those of the other type


def find_narrow_operations(timeline: Timeline, trainer: Trainer) -> NarrowOperations | None:
    """None where no graph was looked at, or none of its operations multiplies so."""
    looks = looks_of_training(timeline, trainer, "graph_work")
    counts = {name: int(looks[name].sum() or 0) for name in ("multiplying", *_NATIVE)}
    dtype = max(_NATIVE, key=lambda name: counts[name])
    if not counts[dtype]:
        return None
    flags = trainer.facts.cpu_flags
    return NarrowOperations(
        dtype=dtype,
        share=min(counts[dtype] / max(counts["multiplying"], 1), 1.0),
        is_native=None if flags is None else bool(flags & _NATIVE[dtype]),
        has_bfloat16=bool(flags and flags & _NATIVE[BFLOAT16]),
    )
