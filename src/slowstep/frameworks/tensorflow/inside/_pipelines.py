"""What TensorFlow counts of each stage of a tf.data pipeline, read between two steps now and then; the pipeline is not kept alive."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slowstep.frameworks.tensorflow.inside._handed import HandedIterators, resource_of
from slowstep.frameworks.tensorflow.inside._model import model_of, nodes_in
from slowstep.frameworks.tensorflow.inside._stages import stages_of
from slowstep.record.recorder import now

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# To read a pipeline of six stages takes 0.35 ms (TensorFlow 2.21, two busy cores): often at first, so that short trainings have several
# readings, then in a sixteenth of the time that has passed.
_FIRST_EVERY_NS: Final = 500_000_000
_LAST_EVERY_NS: Final = 30_000_000_000
_PART_OF_TIME: Final = 16
# Nor may it take more than a thousandth of the time, by the reading that took least: others wait for cores, or for the GIL.
_PAUSE: Final = 1000
# One that takes so long is not read again: the training waits for it. The first one sets up what is called.
_LONGEST_NS: Final = 50_000_000
_MOST_AT_ONCE: Final = 4
# Why a pipeline is not read.
AUTOTUNE_OFF: Final = "autotune-off"
TOO_SLOW: Final = "too-slow"
NOT_READ: Final = "unreadable"
SEVERAL_REPLICAS: Final = "several-replicas"


@dataclass(slots=True)
class LivePipeline:
    """One iterator; `iterator` is the number of its waits, None of one whose batches a compiled function takes. `fetched_by` is the thread
    (native id) that has fetched eagerly of it since the last reading; None where none has.
    """

    live: weakref.ref[Any]
    iterator: int | None
    number: int = 0
    ended: bool = False
    fetched_by: int | None = None

    @property
    def is_read_on(self) -> bool:
        """Whether it may have counted more by now: of what a compiled function takes nobody sees it."""
        return self.iterator is None or self.fetched_by is not None


class Pipelines:
    """The pipelines that feed trainings; `feeds` tells whether an iterator that is made just now does, for a compiled function."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._handed = recorder.shared(HandedIterators)
        self.feeds: Callable[[], bool] = _none_does
        self.forget()
        recorder.forgetters.append(self.forget)

    def forget(self) -> None:
        """Know none, as in a forked child."""
        self._known: list[LivePipeline] = []
        self._numbers = 0
        self._first_ns = self._due_ns = self._fastest_ns = 0
        # Several threads may train; what another one is reading needs no second reading.
        self._reading = threading.Lock()

    def made(self, iterator: Any) -> bool:
        """An iterator was made: whether a compiled function that trains reads it. Raises TypeError where it takes no weak references."""
        feeds = bool(self._recorder.live[0]) and held_dataset(iterator) is not None and self.feeds()
        if feeds:
            self.add(iterator, None)
        return feeds

    def add(self, iterator: Any, number: int | None) -> LivePipeline:
        """Read this one from now on, as long as it lives. Raises TypeError where it takes no weak references."""
        added = LivePipeline(weakref.ref(iterator), number)
        self._known = [*(each for each in self._known if each.live() is not None), added]
        return added

    def divided(self, dataset: Any, number: int) -> None:
        """The waits of this number are for batches that are divided among replicas: say which stages were written; nothing counts them."""
        self._numbers += 1
        self._recorder.note({"kind": "pipeline", "id": self._numbers, "iterator": number, "stages": stages_of(dataset)})
        self._recorder.note({"kind": "pipeline_unread", "id": self._numbers, "why": SEVERAL_REPLICAS})

    def numbered(self, iterator: Any, number: int) -> LivePipeline | None:
        """The one that was added when its iterator was made, now that its waits have this number; None where none was."""
        found = next((each for each in self._known if each.live() is iterator), None)
        if found is not None:
            found.iterator = number
        return found

    def feeding(self) -> Any:
        """The data set of the iterator that feeds the training, of several that which was made last; None where none is known."""
        found = [(each.is_read_on, each.live()) for each in self._known]
        living = [(is_read_on, iterator) for is_read_on, iterator in found if iterator is not None]
        return held_dataset(sorted(living, key=lambda one: one[0])[-1][1]) if living else None

    def read(self, at_ns: int, fetched_by: int | None = None) -> None:
        """Write down what the living ones have counted, if that is due; of those alone that this thread fetches of, where it is given.

        To be asked where no graph runs or is made; raises nothing.
        """
        if at_ns < self._due_ns or not self._known or not self._reading.acquire(blocking=False):
            return
        try:
            # Where there is none to read, whoever asks next need not wait.
            if self._recorder.live[0] and (chosen := self._chosen(fetched_by)):
                self._read(at_ns, chosen)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)
        finally:
            self._reading.release()

    def _chosen(self, fetched_by: int | None) -> list[tuple[LivePipeline, Any]]:
        """Those to be read, with their iterators: the newest of those that are read on, then of the others."""
        found = [(each, each.live()) for each in self._known if not each.ended and fetched_by in (None, each.fetched_by)]
        # What an iterator gives in the place of its own has no stages.
        living = [(each, iterator) for each, iterator in found if iterator is not None and not self._handed.is_replaced(iterator)]
        return sorted(living, key=lambda one: one[0].is_read_on)[-_MOST_AT_ONCE:]

    def _read(self, at_ns: int, chosen: list[tuple[LivePipeline, Any]]) -> None:
        self._first_ns = self._first_ns or at_ns
        every_ns = min(max((at_ns - self._first_ns) // _PART_OF_TIME, _FIRST_EVERY_NS), _LAST_EVERY_NS)
        # Whatever comes of it.
        self._due_ns = at_ns + every_ns
        is_first, began_ns = not self._numbers, now()
        for pipeline, iterator in chosen:
            pipeline.fetched_by = None
            self._read_one(pipeline, iterator)
        took_ns = now() - began_ns
        if is_first:
            # The first one sets up what is called.
            self._recorder.once_ns += took_ns
        else:
            self._recorder.spent_ns += took_ns
            self._fastest_ns = min(self._fastest_ns or took_ns, took_ns)
            self._due_ns = max(self._due_ns, at_ns + self._fastest_ns * _PAUSE)

    def _read_one(self, pipeline: LivePipeline, iterator: Any) -> None:
        is_first, began_ns = not pipeline.number, now()
        if is_first:
            self._introduce(pipeline, iterator)
        try:
            nodes = nodes_in(model_of(resource_of(iterator)))
        except Exception as error:  # whatever TensorFlow makes of an iterator that it cannot read
            missing = sys.modules["tensorflow"].errors.NotFoundError
            self._give_up(pipeline, AUTOTUNE_OFF if isinstance(error, missing) else NOT_READ)
            return
        self._recorder.note({"kind": "pipeline_nodes", "id": pipeline.number, "at_ns": began_ns, "nodes": nodes})
        if not is_first and now() - began_ns > _LONGEST_NS:
            self._give_up(pipeline, TOO_SLOW)

    def _introduce(self, pipeline: LivePipeline, iterator: Any) -> None:
        self._numbers += 1
        pipeline.number = self._numbers
        note = {"kind": "pipeline", "id": pipeline.number, "iterator": pipeline.iterator, "stages": []}
        try:
            note["stages"] = stages_of(held_dataset(iterator))
        finally:
            self._recorder.note(note)

    def _give_up(self, pipeline: LivePipeline, why: str) -> None:
        pipeline.ended = True
        self._recorder.note({"kind": "pipeline_unread", "id": pipeline.number, "why": why})


def held_dataset(iterator: Any) -> Any:
    """The data set of an iterator; None of one in a graph."""
    return vars(iterator).get("_dataset")


def _none_does() -> bool:
    return False
