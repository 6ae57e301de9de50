"""What the order of a pipeline's stages says: windows that are made one by one, data sets read in turn, a shuffle of what is large."""

from __future__ import annotations

from typing import Final

from slowstep.analyses.input.pipeline import Pipeline
from slowstep.analyses.input.pipeline_functions import WrittenStage, kinds_of
from slowstep.analyses.input.pipeline_stage import PipelineStage

_FLAT_MAP: Final = "FlatMap"
_WINDOW: Final = "Window"
_SHUFFLE: Final = "Shuffle"
# So many bytes of an element are surely more than a name or an index, and so many times those of what it was made of: a picture is ten
# times as large as its file. Both are assumed.
_LARGE: Final = 16 << 10
_TIMES: Final = 2.0


def is_flat(stage: PipelineStage) -> bool:
    """Whether it makes a data set of each element, and reads one after the other; a reader of files by itself is none of the script's."""
    return any(_does(each, _FLAT_MAP) and each.given is not None and not each.is_generator for each in stage.written)


def is_of_windows(pipeline: Pipeline, stage: PipelineStage) -> bool:
    """Whether it makes windows, each a data set of its own, or what joins the elements of one."""
    at = [number for number, each in enumerate(pipeline.written) if _does(each, _WINDOW)]
    # The first of these reads the windows.
    own = {pipeline.written[number] for window in at for number in (window, window - 1) if number >= 0}
    return any(each in own and (_does(each, _WINDOW) or _does(each, _FLAT_MAP)) for each in stage.written)


def shuffled_bytes(pipeline: Pipeline, stage: PipelineStage) -> float | None:
    """How many bytes of each element a shuffle holds that this stage has made larger; None where it holds none, or another one stands
    before the stage already.
    """
    places = [number for number, each in enumerate(pipeline.written) if each in stage.written]
    if not places or stage.elements <= 0:
        return None
    is_shuffled_behind, is_shuffled_before = (
        any(_does(each, _SHUFFLE) for each in part) for part in (pipeline.written[: places[0]], pipeline.written[places[-1] + 1 :])
    )
    size = stage.bytes / stage.elements
    if not is_shuffled_behind or is_shuffled_before or size < _LARGE:
        return None
    number = next((at for at, each in enumerate(pipeline.stages) if each is stage), None)
    read = [each.bytes / each.elements for each in pipeline.stages if each.into == number and each.elements > 0]
    return size if not read or size >= _TIMES * max(read) else None


def _does(stage: WrittenStage, kind: str) -> bool:
    return kind in kinds_of(stage.kind)
