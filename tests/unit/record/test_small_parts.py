"""The recorder's small parts: batches, known objects, marks, callers, tracebacks, thinning, facts."""

from __future__ import annotations

import functools
import json
import signal
import sys
import threading
import traceback
from collections import UserDict
from collections.abc import Callable, Iterator
from dis import opmap
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import pytest

from slowstep.record.patch import Unfit, find
from slowstep.record.steps.cpu_marks import build_marks
from slowstep.record.steps.known import Known
from slowstep.record.system import facts
from slowstep.record.timing.batches import bytes_in, samples_in
from slowstep.record.timing.callers import call_of, call_path, training_frame
from slowstep.record.timing.tracebacks import is_from_signal_handler, without_own_frames
from slowstep.record.writing.threads import ThreadState
from slowstep.record.writing.writer import one_in


class Array:
    """Looks like an array of four-byte numbers."""

    def __init__(self, *shape: int) -> None:
        self.shape = shape
        self.nbytes = 4
        for length in shape:
            self.nbytes *= length


@pytest.mark.parametrize(
    ("batch", "samples", "size_bytes"),
    [
        (None, -1, -1),
        ([], -1, -1),
        ("text", -1, -1),
        (Array(), -1, 4),
        (Array(8, 3), 8, 96),
        ([Array(8), Array(9)], 8, 68),
        (("id", Array(5)), 5, 20),
        ({"ids": Array(6, 2), "mask": Array(6)}, 6, 72),
        (UserDict(ids=Array(7)), 7, 28),
        ([["a", "b"], {"x": [Array(3)]}], 3, 12),
        ([[[[[Array(3)]]]]], -1, -1),
    ],
)
def test_a_batch_tells_its_samples_and_bytes(batch: Any, samples: int, size_bytes: int) -> None:
    assert (samples_in(batch), bytes_in(batch)) == (samples, size_bytes)


class Failing:
    """A batch of the user's that fails at whatever it is asked, but for what it holds."""

    def __getattribute__(self, name: str) -> Any:
        raise ValueError(name)

    def __getattr__(self, name: str) -> Any:
        raise ValueError(name)

    def __len__(self) -> int:
        raise ValueError

    @property
    def shape(self) -> Any:
        raise ValueError

    def keys(self) -> Any:
        raise ValueError

    values = __iter__ = __bool__ = __eq__ = keys  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Fields(dict[str, Any]):
    """As many write it: an attribute that it lacks is a KeyError."""

    __getattr__ = dict.__getitem__


class Counting:
    """Counts how often it is asked."""

    asked = 0

    @property
    def shape(self) -> tuple[int, ...]:
        Counting.asked += 1
        return (7,)


class Lying:
    shape = (Failing(),)
    nbytes = Failing()


@pytest.mark.parametrize(
    ("make", "samples"),
    [
        (Failing, -1),
        (lambda: [Failing(), Array(4)], 4),
        (lambda: Fields(x=Array(5)), 5),
        (Mock, -1),
        (MagicMock, -1),
        (lambda: [MagicMock(), Array(3)], 3),
        (Counting, -1),
        (Lying, -1),
    ],
)
def test_no_code_of_the_users_is_asked_for_the_size_of_a_batch(make: Callable[[], Any], samples: int) -> None:
    batch = make()

    found = samples_in(batch), bytes_in(batch) >= 0

    assert found == (samples, samples >= 0)
    assert Counting.asked == 0


def test_an_object_keeps_its_number_and_another_gets_the_next() -> None:
    known = Known()
    one, two = Array(), Array()

    assert [known.get(one), known.add(one), known.get(one), known.get(two), known.add(two)] == [None, 1, 1, None, 2]


def test_an_object_at_the_place_of_a_dead_one_is_new() -> None:
    known = Known()
    dead = Array()
    known.add(dead)
    entry = known._numbers.pop(id(dead))
    other = Array()

    known._numbers[id(other)] = entry
    del dead

    assert known.get(other) is None


@pytest.mark.parametrize(
    ("used_bytes", "keep_one_in"), [(0, 1), (499, 1), (500, 2), (749, 2), (750, 4), (875, 8), (999, 512), (1000, 512), (2000, 512)]
)
def test_the_fuller_a_recording_the_fewer_steps_keep_their_details(used_bytes: int, keep_one_in: int) -> None:
    assert one_in(used_bytes, 1000) == keep_one_in


class Marked:
    """A recorder that only knows when marks were made."""

    def __init__(self) -> None:
        self.at: list[int] = []
        self.me = ThreadState()

    def event(self, kind: int, t0: int, *rest: int) -> None:
        self.at.append(t0)


def marks_of(*, steps: int, step_ns: int) -> list[int]:
    """When so many steps are marked, whose wait ends at their begin and whose update is in their middle."""
    recorder: Any = Marked()
    mark_wait, mark_update = build_marks(recorder)
    recorder.me.step_ns = step_ns
    for step in range(steps):
        if recorder.me.marking:
            mark_wait(recorder.me, step * step_ns)
        mark_update(recorder.me, step * step_ns + step_ns // 2)
    return recorder.at


def test_every_part_of_a_long_step_is_marked() -> None:
    marks = marks_of(steps=3, step_ns=20_000_000)

    assert [at // 10_000_000 for at in marks] == [0, 1, 2, 3, 4, 5]


def test_of_short_steps_whole_ones_are_marked_now_and_then() -> None:
    marks = marks_of(steps=1200, step_ns=100_000)

    # From the begin of a step (an update) to the wait after the update that ends it.
    later = [at for at in marks if at > 1_000_000]
    assert len(later) in (8, 12)
    begin, wait, update, next_wait = later[:4]
    assert (wait - begin, update - wait, next_wait - update) == (50_000, 50_000, 50_000)


def test_marked_steps_become_rarer_down_to_four_in_a_second() -> None:
    marks = marks_of(steps=40_000, step_ns=1_000_000)

    def steps_in(second: int) -> int:
        return sum(second <= at / 1e9 < second + 1 for at in marks) // 4

    assert steps_in(1) in (18, 19, 20)
    assert steps_in(12) in (7, 8)
    assert steps_in(35) in (3, 4)


def test_the_caller_outside_every_framework_is_the_training_frame() -> None:
    frame = training_frame(sys._getframe())

    assert frame is not None
    assert (frame["file"], frame["function"]) == (__file__, "test_the_caller_outside_every_framework_is_the_training_frame")
    assert frame["line"] == frame["first_line"] + 1


def test_the_way_into_torch_is_told_root_first_with_the_frameworks_that_lead_there() -> None:
    files = (
        "/home/me/train.py",
        "/env/lib/python3.11/site-packages/lightning/loop.py",
        "/env/lib/python3.11/site-packages/torch/optim/sgd.py",
    )
    frame = None
    for line, file in enumerate(files, start=3):
        frame = SimpleNamespace(f_code=_code(file), f_lineno=line, f_lasti=0, f_back=frame)

    path = call_path(frame)  # type: ignore[arg-type]

    assert [(file, line) for file, _, _, line in path["frames"]] == [(files[0], 3), (files[1], 4)]
    assert path["calls"] == [None, None]


def test_the_way_into_torch_tells_where_each_call_ends() -> None:
    text = "found = path_here(\n    1,\n    2,\n)\n"
    here: dict[str, Any] = {"path_here": lambda *_: call_path(sys._getframe())}
    exec(compile(text, "/home/me/train.py", "exec"), here)

    called = [(frame[0], frame[3], call) for frame, call in zip(here["found"]["frames"], here["found"]["calls"], strict=True)]
    assert ("/home/me/train.py", 1, [len("found = "), 4, 1]) in called


def test_the_next_turn_of_a_loop_is_no_call_though_a_generator_runs_in_it() -> None:
    found: list[Any] = []

    def batches() -> Iterator[int]:
        found.append(call_of(sys._getframe(1)))
        yield 1

    for _ in batches():
        found.append(call_of(sys._getframe()))

    assert found[0] is None
    assert found[1] is not None


def test_frames_of_installed_frameworks_are_passed_over() -> None:
    user = SimpleNamespace(f_code=_code("/home/me/torch/train.py"), f_lineno=3, f_back=None)
    framework = SimpleNamespace(f_code=_code("/env/lib/python3.11/site-packages/torch/optim/sgd.py"), f_lineno=9, f_back=user)

    frame: Any = training_frame(framework)  # type: ignore[arg-type]

    assert frame["file"] == "/home/me/torch/train.py"


def _code(file: str) -> Any:
    return SimpleNamespace(
        co_filename=file, co_qualname="train", co_firstlineno=1, co_positions=lambda: iter(()), co_code=bytes([opmap["NOP"], 0])
    )


def _raised(call: Any) -> BaseException:
    try:
        call()
    except BaseException as error:
        return error
    raise AssertionError("nothing was raised")


def test_our_frames_are_taken_out_of_a_traceback() -> None:
    from slowstep.record.patch import all_of

    def fails() -> None:
        raise LookupError

    error = _raised(all_of([fails]))

    before = [entry.name for entry in traceback.extract_tb(error.__traceback__)]
    after = [entry.name for entry in traceback.extract_tb(without_own_frames(error.__traceback__))]
    assert before == ["_raised", "undo", "fails"]
    assert after == ["_raised", "fails"]


class Handlers:
    """The ways in which a signal handler may be written."""

    def method(self, number: int, frame: Any) -> None:
        raise LookupError

    def __call__(self, number: int, frame: Any) -> None:
        raise LookupError


@pytest.mark.parametrize("handler", [Handlers().method, Handlers(), functools.partial(Handlers.method, None)])
def test_what_a_signal_handler_raises_is_told_from_other_exceptions(handler: Any) -> None:
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert is_from_signal_handler(_raised(lambda: signal.raise_signal(signal.SIGUSR1)))
        assert not is_from_signal_handler(_raised(lambda: int("x")))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_process_is_described_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "train.py", "--api-key=abc123"])
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("MY_PASSWORD", "abc123")

    line = facts.process_line({"role": "trainer"}, level=1, started_ns=5)

    assert "abc123" not in repr(line)
    assert line["env"]["OMP_NUM_THREADS"] == "3"
    assert (line["kind"], line["started_ns"], line["level"]) == ("process", 5, 1)


def test_a_thread_without_schedstat_has_no_delay() -> None:
    me = ThreadState()
    me.thread = 0

    assert me.delay_ns() is None
    assert me.delay_ns() is None


def test_a_thread_knows_its_own_delay() -> None:
    me = ThreadState()

    delay_ns = me.delay_ns()

    assert me.thread == threading.get_native_id()
    assert delay_ns is None or delay_ns >= 0


@pytest.mark.parametrize(("root", "owner"), [(json, "json"), (None, "this version")])
def test_what_is_missing_is_named_with_whoever_should_have_it(root, owner):
    with pytest.raises(Unfit, match=f"^{owner} has no loader.Loader$"):
        find(root, "loader.Loader")
