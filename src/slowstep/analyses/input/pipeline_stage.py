"""A stage of an input pipeline as it runs: what it takes for a batch, in which thread, and which stages of the script it does."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.input.pipeline_functions import PipelineFunction, WrittenStage


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineThread:
    """Who runs a stage: the training's own request for a batch ("asks"), the thread that reads ahead for another stage ("feeds"), or the
    calls that a stage makes at once, so many at most ("calls"); `of` is the number of that stage.
    """

    does: str
    of: int
    servers: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class PipelineStage:
    """One stage as it runs.

    What is counted is per batch that the training gets: the elements and bytes that it gives, and the time in it, in all its calls
    together and without its inputs: `busy_ns`, of which `low_ns` were seen at least, and `high_ns` may have been at most. `into` is the
    number of the one that reads it, `written` are the stages of the script that it does. `full` is the share of its buffer, or of the
    calls that a map makes at once, that lies ready, on average. None is unknown, or that it has none. Where it is not known how much of
    what was not counted is its own (`is_shared`), `elements` are what it gives at most, and `busy_ns` is what was counted. The framework
    chooses how many calls are made at once where `is_tuned`.
    """

    name: str
    depth: int
    into: int | None
    elements: float
    bytes: float
    busy_ns: float
    low_ns: float
    high_ns: float
    thread: PipelineThread
    parallelism: int | None
    is_tuned: bool
    buffer_size: int | None
    full: float | None
    is_shared: bool
    written: tuple[WrittenStage, ...]

    @property
    def is_in_python(self) -> bool:
        """Whether Python runs a function for each of its elements."""
        return any(stage.in_python for stage in self.written)

    @property
    def functions(self) -> tuple[PipelineFunction, ...]:
        """All that may take its time, in the order of the stages that the script wrote."""
        return tuple(dict.fromkeys(function for stage in self.written for function in stage.functions))

    @property
    def function(self) -> PipelineFunction | None:
        """The one to be looked at; of several in one stage of the script's what that was given, and of several such stages none."""
        if len(self.functions) == 1:
            return self.functions[0]
        given = [stage.given for stage in self.written if stage.functions]
        return given[0] if len(given) == 1 else None

    @property
    def works(self) -> bool:
        """Whether it does anything but hand on what others made."""
        return self.into is not None and self.buffer_size is None

    @property
    def bound_ns(self) -> float:
        """The time from batch to batch that it alone allows."""
        return self.busy_ns / self.thread.servers

    @property
    def most_ns(self) -> float:
        """The time in it at most, as far as that is not a matter of chance."""
        return self.high_ns if self.is_shared else self.busy_ns


def way_to_training(stages: tuple[PipelineStage, ...], stage: PipelineStage) -> list[PipelineStage]:
    """A stage, the one that reads it, and so on to the training's request."""
    way = [stage]
    while way[-1].into is not None:
        way.append(stages[way[-1].into])
    return way
