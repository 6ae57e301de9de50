"""The garbage collector's hook: what it records, what it leaves alone, and that nothing of it stays."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorded import Record, make_folder, processes
from slowstep.record.patch import Undo
from slowstep.record.recorder import Recorder, now
from slowstep.record.steps.garbage_collections import OLDEST, SHORTEST_NS, install

pytestmark = pytest.mark.usefixtures("small_heap")
# A full collection walks through all of these: milliseconds.
OBJECTS = 200_000


@pytest.fixture
def kept() -> list[Any]:
    return [[] for _ in range(OBJECTS)]


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    """One that has begun, while Python begins no collection by itself."""
    recorder, threshold = Recorder(make_folder(tmp_path / "recording")), gc.get_threshold()
    recorder.ensure_open()
    recorder.watch()
    gc.disable()
    yield recorder
    gc.set_threshold(*threshold)
    gc.enable()
    recorder.stop("exit")


@pytest.fixture
def undo(recorder: Recorder) -> Iterator[Undo]:
    undo = install(recorder)
    yield undo
    undo()


def _recorded(recorder: Recorder) -> list[list[Record]]:
    """The collections of each process."""
    recorder.stop("exit")
    found = processes(recorder.folder)
    assert [process.faults for process in found] == [{}] * len(found)
    return [process.of("COLLECTION") for process in found]


def test_a_long_collection_is_recorded_on_its_thread_with_its_generation(recorder, undo, kept):
    circle: list[Any] = []
    circle.append(circle)
    del circle
    begun_ns = now()
    # Nothing happens where another thread's collection still goes on: then the circle is still there.
    while not gc.collect():
        time.sleep(0.01)
    ended_ns = now()

    (collection,) = _recorded(recorder)[0]
    assert (collection.thread, collection.a) == (threading.get_native_id(), OLDEST)
    assert begun_ns <= collection.t0 < collection.t1 <= ended_ns
    assert collection.t1 - collection.t0 >= SHORTEST_NS
    assert collection.b >= 1


def test_a_short_collection_leaves_no_record(recorder, undo, kept):
    gc.collect()
    for _ in range(50):
        gc.collect(0)

    assert sum(record.a == 0 for record in _recorded(recorder)[0]) < 50


def test_a_call_that_asks_for_a_collection_is_named_by_its_line(recorder, undo, kept):
    gc.collect()
    line = test_a_call_that_asks_for_a_collection_is_named_by_its_line.__code__.co_firstlineno + 1

    (collection,) = _recorded(recorder)[0]
    texts = {note["id"]: note["text"] for note in processes(recorder.folder)[0].noted("text")}
    assert (collection.extra, texts[collection.c]) == (1, f"{__file__}:{line}")


@pytest.mark.slow
def test_a_collection_that_python_begins_is_not_taken_for_one_that_was_asked_for(recorder, undo, kept):
    gc.set_threshold(1000, 1, 1)
    gc.enable()
    more = [[] for _ in range(2 * OBJECTS)]
    gc.disable()

    found = _recorded(recorder)[0]
    assert len(more) == 2 * OBJECTS
    assert OLDEST in {collection.a for collection in found}
    assert {(collection.extra, collection.c) for collection in found} == {(0, 0)}


def test_a_thread_that_collects_in_a_process_in_which_nothing_trains_leaves_no_file(tmp_path, kept):
    recorder = Recorder(make_folder(tmp_path / "recording"))
    undo = install(recorder)
    gc.collect()
    undo()

    assert processes(recorder.folder) == []


@pytest.mark.slow
def test_a_fork_records_its_own_collections(recorder, undo, kept):
    gc.collect()
    child = os.fork()
    if not child:
        recorder.forget()
        recorder.ensure_open()
        recorder.watch()
        gc.collect()
        gc.collect()
        recorder.stop("exit")
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

    assert sorted(map(len, _recorded(recorder))) == [1, 2]


def test_the_scripts_own_callbacks_are_called_as_without_it_and_nothing_stays(recorder, kept):
    seen: list[tuple[str, str]] = []

    def earlier(phase: str, info: dict[str, Any]) -> None:
        seen.append(("earlier", phase))

    def later(phase: str, info: dict[str, Any]) -> None:
        seen.append(("later", phase))

    before = list(gc.callbacks)
    gc.callbacks.append(earlier)
    recorder.undos.append(install(recorder))
    gc.callbacks.append(later)
    gc.collect()
    recorder.stop("steps")
    # The hook is still there, and must not take itself away while Python walks through the list.
    gc.collect()
    recorder.leave()

    assert gc.callbacks == [*before, earlier, later]
    gc.callbacks[:] = before
    assert seen == [("earlier", "start"), ("later", "start"), ("earlier", "stop"), ("later", "stop")] * 2


def test_a_script_that_empties_the_list_of_callbacks_takes_it_away(recorder, kept):
    before = list(gc.callbacks)
    undo = install(recorder)
    gc.callbacks.clear()
    undo()
    gc.collect()

    assert gc.callbacks == []
    gc.callbacks[:] = before
    assert _recorded(recorder) == [[]]


def test_what_goes_wrong_in_it_is_counted_and_not_shown_to_the_script(recorder, undo, kept, capfd, monkeypatch):
    monkeypatch.setattr(recorder, "text_id", lambda text: 1 / 0)
    gc.collect()

    recorder.stop("exit")
    assert processes(recorder.folder)[0].health["recorder-fault"] == 1
    assert capfd.readouterr().err == ""
