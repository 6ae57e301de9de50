"""What each stage of the input pipeline takes, as plain data: the section `pipeline` of a report."""

from __future__ import annotations

from typing import Final, TypedDict

# Why nothing is told of the stages where nobody says why they were not read.
FEW_READINGS: Final = "few-readings"
FEW_BATCHES: Final = "few-batches"


class StageOfPipelineRow(TypedDict):
    """One stage as it runs, and what it takes for a batch; what it reads follows it, one deeper.

    `ms` of all its calls together lies between `ms_low` and `ms_high`; `at_once` of them are made at most, `busy` are under way on average.
    `ready` is the share of its buffer, or of as many results as a map makes calls at once, that is filled. `written` are the stages of the
    script that it does, `function` the one to look at; Python runs one for each element where `in_python`.
    """

    name: str
    depth: int
    written: list[str]
    elements: float
    bytes: float
    ms: float
    ms_low: float
    ms_high: float
    at_once: int
    busy: float | None
    buffer: int | None
    ready: float | None
    function: str | None
    file: str | None
    line: int | None
    in_python: bool


class PipelineRow(TypedDict):
    """The stages, from the last one to the sources, over so many batches that came `batch_ms` apart; `slowest` is the index of that which
    holds up the training. `unread` is why nothing was counted, or no more from some time on.
    """

    stages: list[StageOfPipelineRow]
    batches: int
    batch_ms: float | None
    slowest: int | None
    unread: str | None
