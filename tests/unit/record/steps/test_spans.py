"""`slowstep.steps` and `slowstep.span`: free without a recording, exact with one."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

import slowstep
from recorded import Process, make_folder, only
from slowstep.record import active
from slowstep.record.recorder import Recorder
from slowstep.record.steps import spans
from slowstep.record.steps.cpu_marks import OFF
from slowstep.record.writing.format import END, FAILED, READY_UNKNOWN
from slowstep.sources.recording import SOURCE
from slowstep.stages import STAGES


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    monkeypatch.setattr(active, "recorders", [recorder])
    yield recorder
    recorder.stop("test")


def ended(recorder: Recorder) -> Process:
    recorder.stop("exit")
    return only(recorder.folder)


def test_without_a_recording_steps_is_iter() -> None:
    iterator = iter([1, 2])

    assert slowstep.steps(iterator) is iterator
    assert type(slowstep.steps([1])) is type(iter([]))


def test_without_a_recording_all_spans_are_one_that_does_nothing() -> None:
    one, other = slowstep.span("validation"), slowstep.span("other", stage="no such stage")

    assert one is other
    # The next call finds it in the module, without asking where it lives.
    assert "span" in vars(slowstep)
    with one as nothing:
        assert nothing is None


def test_an_empty_input_has_one_wait_for_nothing(recorder: Recorder) -> None:
    assert list(slowstep.steps([])) == []

    assert [record.flags for record in ended(recorder).of("WAIT")] == [END]


def test_a_batch_that_fails_when_it_is_asked_for_its_size_has_its_wait(recorder: Recorder) -> None:
    class Lazy:
        @property
        def shape(self) -> int:
            raise KeyError("not loaded yet")

    class Loader(list[Any]):
        __iter__ = MagicMock(side_effect=lambda: iter([Lazy(), Mock(), [1]]))

    given = list(slowstep.steps(Loader()))

    waits = [record for record in ended(recorder).of("WAIT") if record.flags != END]
    assert (len(given), [wait.c for wait in waits]) == (3, [-1, -1, -1])


def test_each_batch_is_a_wait_with_its_index(recorder: Recorder) -> None:
    class Batch:
        shape = (16, 3)

    batches = [Batch(), Batch()]

    assert list(slowstep.steps(batches)) == batches

    process = ended(recorder)
    waits = [(record.b, record.c, record.flags) for record in process.of("WAIT")]
    assert waits == [(0, 16, 0), (1, 16, 0), (-1, -1, END)]
    (note,) = process.noted("iterator")
    assert {record.a for record in process.of("WAIT")} == {note["id"]}
    assert (note["dataset"], note["marked"]) == ("list", True)


def test_a_wait_inside_another_one_is_the_same_wait(recorder: Recorder) -> None:
    class OfAFramework(spans.RecordedWaits[Any]):
        pass

    inner = OfAFramework(recorder, iter([[1], [2]]), dataset="Own", framework="made")

    assert list(spans.RecordedWaits(recorder, inner, dataset="Outer", framework="other")) == [[1], [2]]

    process = ended(recorder)
    own, outer = (note["id"] for note in process.noted("iterator"))
    assert [(wait.a, wait.flags) for wait in process.of("WAIT")] == [(own, 0), (own, 0), (outer, END)]
    assert {fetch.c for fetch in process.of("FETCH_DELAY")} == {own}


def test_what_a_loader_reads_of_another_one_of_its_kind_is_not_what_is_waited_for(recorder: Recorder) -> None:
    inner = spans.RecordedWaits(recorder, iter([1]), dataset="Own")

    assert list(spans.RecordedWaits(recorder, inner, dataset="Outer")) == [1]

    process = ended(recorder)
    _, outer = (note["id"] for note in process.noted("iterator"))
    assert [(wait.a, wait.flags) for wait in process.of("WAIT")] == [(outer, 0), (outer, END)]


def test_a_wait_around_one_that_knows_more_says_what_that_knows(recorder: Recorder) -> None:
    class Batch:
        shape = (16, 3)

    class Loader(Iterator[Any]):
        """Of a framework, whose hook records no wait inside another one."""

        def __init__(self) -> None:
            self.left = [(Batch(), 8), (object(), 8), (object(), -1)]

        def __next__(self) -> Any:
            if not self.left:
                raise StopIteration
            batch, samples = self.left.pop(0)
            recorder.local.me.borrower.lend(7, 5, samples, 2)
            return batch

    list(spans.RecordedWaits(recorder, Loader(), dataset="Outer"))

    process = ended(recorder)
    waits = [wait for wait in process.of("WAIT") if wait.flags != END]
    # Number, batch, samples (those that can be seen in it, else those that were lent), and how many were ready.
    assert [(wait.a, wait.b, wait.c, wait.extra) for wait in waits] == [(7, 5, 16, 2), (7, 5, 8, 2), (7, 5, -1, 2)]
    # Whoever lends says how it was made.
    assert process.of("FETCH") == []


def test_what_was_lent_for_one_batch_is_not_said_of_the_next(recorder: Recorder) -> None:
    def batches() -> Iterator[int]:
        recorder.local.me.borrower.lend(7, 5, 8, 2)
        yield 1
        yield 2

    list(spans.RecordedWaits(recorder, batches(), dataset="Outer"))

    process = ended(recorder)
    (outer,) = (note["id"] for note in process.noted("iterator"))
    assert [(wait.a, wait.b, wait.c, wait.extra) for wait in process.of("WAIT") if wait.flags != END] == [
        (7, 5, 8, 2),
        (outer, 1, -1, READY_UNKNOWN),
    ]


def test_what_is_lent_is_passed_on_to_the_outermost_wait(recorder: Recorder) -> None:
    class OfAFramework(spans.RecordedWaits[Any]):
        pass

    def batches() -> Iterator[int]:
        recorder.local.me.borrower.lend(7, 5, 8, 2)
        yield 1

    list(spans.RecordedWaits(recorder, OfAFramework(recorder, batches(), dataset="Inner"), dataset="Outer"))

    (wait,) = (wait for wait in ended(recorder).of("WAIT") if wait.flags != END)
    assert (wait.a, wait.b, wait.c, wait.extra) == (7, 5, 8, 2)


def test_of_each_batch_it_is_recorded_what_the_thread_did_meanwhile(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    # The clocks go with the other one while the thread computes, however busy the machine is.
    computed_ns = [0]
    monkeypatch.setattr(spans, "thread_time_ns", lambda: computed_ns[0])
    monkeypatch.setattr(spans, "process_time_ns", lambda: 3 * computed_ns[0])

    def batches() -> Iterator[int]:
        begun_ns = time.monotonic_ns()
        time.sleep(0.021)
        computed_ns[0] += time.monotonic_ns() - begun_ns
        yield 1
        time.sleep(0.05)
        yield 2

    list(slowstep.steps(batches()))

    process = ended(recorder)
    made, waits = process.of("FETCH"), [wait for wait in process.of("WAIT") if not wait.flags]
    assert [(each.t0, each.t1, each.a) for each in made] == [(wait.t0, wait.t1, wait.b) for wait in waits]
    assert 20_000_000 <= made[0].c <= made[0].t1 - made[0].t0
    assert made[1].c == 0
    beside = process.of("FETCH_DELAY")
    assert [each.c for each in beside] == [waits[0].a] * 2
    assert (beside[0].a >= 40_000_000, beside[1].a) == (True, 0)


def test_between_marked_steps_a_request_for_a_batch_costs_no_clocks(recorder: Recorder) -> None:
    recorder.local.me.marking = OFF

    list(slowstep.steps([1, 2]))

    assert ended(recorder).of("FETCH") == []


def test_no_batch_takes_more_processor_time_than_time(recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    readings = itertools.count(step=1_000_000_000)
    monkeypatch.setattr(spans, "thread_time_ns", lambda: next(readings))

    list(slowstep.steps([1]))

    (made,) = ended(recorder).of("FETCH")
    assert made.c == made.t1 - made.t0


def test_what_is_noted_of_any_input_can_be_read_back(recorder: Recorder) -> None:
    list(slowstep.steps([1, 2]))

    recorder.stop("exit")
    timeline = SOURCE.read(Path(recorder.folder))
    assert timeline.table("iterators").select("dataset", "num_workers").rows() == [("list", 0)]
    assert [row.name for row in timeline.health if "notes" in row.name] == []


def test_what_the_input_raises_passes_and_is_flagged(recorder: Recorder) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise LookupError("broken")

    with pytest.raises(LookupError, match="broken"):
        list(slowstep.steps(broken()))

    assert [record.flags for record in ended(recorder).of("WAIT")] == [0, FAILED]


def test_a_span_has_its_name_and_stage(recorder: Recorder) -> None:
    with slowstep.span("validation", stage="store"):
        pass
    with slowstep.span("validation"):
        pass

    process = ended(recorder)
    (text,) = process.noted("text")
    assert text["text"] == "validation"
    assert [(record.a, STAGES[record.b]) for record in process.of("SPAN")] == [(text["id"], "store"), (text["id"], "output")]


def test_an_exception_passes_through_a_span_and_is_flagged(recorder: Recorder) -> None:
    with pytest.raises(LookupError), slowstep.span("validation"):
        raise LookupError

    assert [record.flags for record in ended(recorder).of("SPAN")] == [FAILED]


def test_an_unknown_stage_is_counted_as_output_and_said(recorder: Recorder) -> None:
    with slowstep.span("validation", stage="nonsense"):
        pass

    process = ended(recorder)
    assert [STAGES[record.b] for record in process.of("SPAN")] == ["output"]
    assert process.health == {"unknown-stage": 1}


def test_spans_after_the_end_of_the_recording_cost_nothing(recorder: Recorder) -> None:
    recorder.stop("steps")

    assert slowstep.span("one") is slowstep.span("other")
    assert slowstep.steps(iter(())) is not None
    assert sorted(os.listdir(recorder.folder)) == ["control", "launcher.jsonl"]
