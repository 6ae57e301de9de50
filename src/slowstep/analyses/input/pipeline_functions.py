"""Which stages of a pipeline as the script wrote it are in a stage as it runs: the framework fuses some, and puts others in."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

import polars as pl

from slowstep.analyses.python.functions import shown
from slowstep.parts import CodePlace

# One that is several, the last one first; else a name without what says how it is done.
_FUSED: Final = {"ShuffleAndRepeat": ("Repeat", "Shuffle"), "MapAndBatch": ("Batch", "Map"), "MapAndFilter": ("Filter", "Map")}
_PARALLEL: Final = "Parallel"
_HOW: Final = re.compile(rf"^({_PARALLEL}|Forever|Finite|Memory|File)|(Dataset)?(V\d+)?(Impl)?$")
MAP: Final = "Map"
_CALLING: Final = (MAP, "Filter", "FlatMap", "Interleave", "Scan", "TakeWhile", "Generator")


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineFunction:
    """A function of the script's, or of a library's, in a stage: its name, and where it begins."""

    name: str
    place: CodePlace


@dataclass(frozen=True, kw_only=True, slots=True)
class WrittenStage:
    """One stage as the script wrote it: `given` is the function it was given, `in_python` are those that Python runs for each element. It
    `loops` where that function goes over the parts of an element one by one.
    """

    kind: str
    is_generator: bool
    reads: str | None
    given: PipelineFunction | None
    in_python: tuple[PipelineFunction, ...]
    loops: bool = False

    @property
    def functions(self) -> tuple[PipelineFunction, ...]:
        """Those that may take its time: in Python where it calls any, else what it was given."""
        return self.in_python or (() if self.given is None else (self.given,))

    @property
    def is_parallel(self) -> bool:
        """Whether it makes several calls at once, or lets the framework choose how many."""
        return self.kind.startswith(_PARALLEL)


def written_stages(stages: pl.DataFrame, functions: pl.DataFrame, script: str | None) -> tuple[WrittenStage, ...]:
    """Those of one pipeline, from the last one to its sources."""
    found: dict[tuple[int, bool], dict[PipelineFunction, None]] = defaultdict(dict)
    for row in functions.iter_rows(named=True):
        place = CodePlace(shown(row["file"], script), row["first_line"])
        found[row["stage"], row["in_python"]][PipelineFunction(name=row["name"], place=place)] = None
    return tuple(
        WrittenStage(
            kind=row["kind"],
            is_generator=row["generator"],
            reads=row["reads"],
            given=next(iter(found[row["stage"], False]), None),
            in_python=tuple(found[row["stage"], True]),
            loops=row["loops"],
        )
        for row in stages.sort("stage").iter_rows(named=True)
    )


def match_stages(names: Sequence[str], written: Sequence[WrittenStage]) -> list[tuple[WrittenStage, ...]]:
    """Of each stage as it runs, by name, which of the script's it does; both from the last one to the sources."""
    tokens = [(token, at) for at, name in enumerate(names) for token in kinds_of(name)]
    kinds = [kinds_of(stage.kind)[0] for stage in written]
    whose: dict[int, int] = {}
    for block in SequenceMatcher(None, [token for token, _ in tokens], kinds, autojunk=False).get_matching_blocks():
        whose |= {block.b + k: tokens[block.a + k][1] for k in range(block.size)}
    for stage, kind in enumerate(kinds):
        # Maps that follow one another are made one.
        if stage not in whose and stage - 1 in whose and kind == kinds[stage - 1] == MAP:
            whose[stage] = whose[stage - 1]
    return [tuple(written[stage] for stage in sorted(whose) if whose[stage] == at) for at in range(len(names))]


def kinds_of(name: str) -> tuple[str, ...]:
    """What a stage does, in the words of the script: ("Batch", "Map") of `MapAndBatch`."""
    bare = _HOW.sub("", _HOW.sub("", name)) or name
    return _FUSED.get(bare, (bare,))


def calls_functions(name: str) -> bool:
    """Whether a stage calls a function that the script has written, for each of its elements."""
    return any(kind in _CALLING for kind in kinds_of(name))
