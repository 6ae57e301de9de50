"""Events behind updates and requests for input, asked after by another thread through the driver; never while a graph is captured."""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.frameworks.torch.inside import backward, dataloader, module
from slowstep.frameworks.torch.inside._answers.device_events import DeviceEvents
from slowstep.frameworks.torch.inside._waits import KNOWN
from slowstep.frameworks.torch.inside.optimizer import install_events
from slowstep.record.device.cuda import CudaEvents, CudaMissing
from slowstep.record.patch import Unfit
from slowstep.record.recorder import Recorder
from slowstep.record.steps.spans import RecordedWaits
from slowstep.record.writing.format import CONTROL_BYTES, CONTROL_FILE

SUCCESS, NOT_READY, CAPTURING = 0, 600, 900
HERE = sys._getframe().f_code, 0


@dataclass
class FakeCuda:
    """A device with one stream, and the driver that tells of it. Work is numbered; an event stands behind what was issued before it."""

    issued: int = 0
    done: int = 0
    current: int = 0
    capturing: bool = False
    recorded: int = 0
    # The capture mode of each thread that made one its own, and what a question of another thread spoils.
    modes: threading.local = field(default_factory=threading.local)
    spoiled: bool = False
    answer: int | None = None

    def torch(self) -> Any:
        fake = self

        class Event:
            cuda_event = 7
            behind = 0

            def record(self) -> None:
                self.behind = fake.issued
                fake.recorded += 1
                fake.event = self

        cuda = SimpleNamespace(current_device=lambda: self.current, is_current_stream_capturing=lambda: self.capturing, Event=Event)
        return SimpleNamespace(cuda=cuda, compiler=SimpleNamespace(is_compiling=lambda: False), version=SimpleNamespace(cuda="12.4"))

    def load(self, name: str) -> Any:
        assert name == "libcuda.so.1"

        def exchange(mode: Any) -> int:
            self.modes.own = ctypes.cast(mode, ctypes.POINTER(ctypes.c_int))[0]
            return SUCCESS

        def query(handle: ctypes.c_void_p) -> int:
            assert handle.value == 7
            # As a thread in the usual mode: the question fails, and so does the capture.
            self.spoiled |= self.capturing and getattr(self.modes, "own", None) != 1
            if self.answer is not None:
                return self.answer
            return CAPTURING if self.spoiled else SUCCESS if self.done >= self.event.behind else NOT_READY

        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=exchange, cuEventQuery=query)


@dataclass(frozen=True)
class Place:
    type: str
    index: int


class Optimizer:
    def __init__(self, *places: Place) -> None:
        self.param_groups = [{"params": [SimpleNamespace(device=place) for place in places]}]


FIRST, SECOND = Place("cuda", 0), Place("cuda", 1)
MODEL = Optimizer(FIRST, FIRST)


class FakeRecorder:
    def __init__(self) -> None:
        self.level, self.live, self.spent_ns = 1, [True], 0
        self.before_waits: list[Any] = []
        self.after_waits: list[Any] = []
        self.before_forwards: list[Any] = []
        self.before_backwards: list[Any] = []
        self.device_probes: list[Any] = []
        self.forgetters: list[Any] = []
        self.optimizer_undos: list[Any] = []
        self.introduced: list[dict[str, Any]] = []
        self.faults: list[Exception] = []
        self.introduce, self.fault = self.introduced.append, self.faults.append


@pytest.fixture
def cuda() -> FakeCuda:
    return FakeCuda()


@pytest.fixture
def recorder() -> FakeRecorder:
    return FakeRecorder()


@pytest.fixture
def events(cuda: FakeCuda, recorder: FakeRecorder) -> DeviceEvents:
    return DeviceEvents(recorder, cuda.torch(), lambda: CudaEvents(cuda.load))  # type: ignore[arg-type]


def asked(events: DeviceEvents) -> bool | None:
    """By another thread, as the sampler asks."""
    told: list[bool | None] = []
    thread = threading.Thread(target=lambda: told.append(events.is_idle(*HERE)))
    thread.start()
    thread.join()
    return told[0]


def update(events: DeviceEvents, cuda: FakeCuda, optimizer: Any = None) -> None:
    """The second one of two, behind the first of which a loader told of its request."""
    events.updated(optimizer or MODEL, (), {})
    events.received()
    cuda.issued += 1
    events.updated(optimizer or MODEL, (), {})


def test_the_device_is_idle_when_it_has_done_what_was_issued_up_to_the_update(events: DeviceEvents, cuda: FakeCuda) -> None:
    assert asked(events) is None

    update(events, cuda)
    assert asked(events) is False

    cuda.done = cuda.issued
    assert asked(events) is True


def test_a_request_for_input_is_behind_what_was_issued_since(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    cuda.done = cuda.issued
    cuda.issued += 1  # a micro-batch

    events.requested()

    assert asked(events) is False


def test_nobody_asks_while_the_device_is_given_work(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    events.requested()
    events.received()

    assert asked(events) is None


def test_behind_an_update_nothing_is_known_until_it_was_told_once_when_the_device_is_given_work_again(
    events: DeviceEvents, cuda: FakeCuda
) -> None:
    events.updated(MODEL, (), {})
    assert asked(events) is None

    events.received()
    events.updated(MODEL, (), {})
    assert asked(events) is True


def test_where_neither_requests_nor_forwards_are_told_the_device_is_never_called_idle(events: DeviceEvents, cuda: FakeCuda) -> None:
    for backwards in (0, 1, 2, 0, 0):
        events.updated(MODEL, (), {})
        cuda.done, cuda.issued = cuda.issued, cuda.issued + 50
        assert asked(events) is not True
        for _ in range(backwards):
            events.is_passed_back()
            assert asked(events) is not True


def test_when_no_more_requests_are_told_that_is_found_at_the_next_backward_pass(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    cuda.done = cuda.issued

    events.is_passed_back()
    assert asked(events) is None
    events.updated(MODEL, (), {})
    assert asked(events) is None


def test_of_two_optimizers_the_one_that_is_followed_by_a_request_is_asked_behind(events: DeviceEvents, cuda: FakeCuda) -> None:
    first, second = Optimizer(FIRST), Optimizer(FIRST)
    for _ in range(2):
        events.updated(first, (), {})
        behind_first = asked(events)
        events.is_passed_back()
        events.updated(second, (), {})
        behind_second = asked(events)
        events.requested()
        events.received()

    assert (behind_first, behind_second) == (None, True)


def test_a_request_of_another_thread_says_nothing(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    for called in (events.requested, events.received, events.is_passed_back):
        thread = threading.Thread(target=called)
        thread.start()
        thread.join()

    assert cuda.recorded == 1
    assert asked(events) is False


def test_a_graph_that_another_thread_captures_is_not_spoiled_by_the_question(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    cuda.capturing = True

    # By one thread after the other: the system gives them the same number.
    for _ in range(20):
        assert asked(events) is False
    assert not cuda.spoiled


def test_no_event_is_recorded_into_a_graph(events: DeviceEvents, cuda: FakeCuda) -> None:
    cuda.capturing = True

    update(events, cuda)
    events.requested()

    assert cuda.recorded == 0
    assert asked(events) is None


@pytest.mark.parametrize("optimizer", [Optimizer(Place("cpu", 0)), Optimizer(FIRST, SECOND), Optimizer(Place("mps", 0)), Optimizer(SECOND)])
def test_of_a_device_that_is_not_the_only_and_the_current_one_nothing_is_known(
    optimizer: Optimizer, events: DeviceEvents, cuda: FakeCuda
) -> None:
    update(events, cuda, optimizer)

    assert cuda.recorded == 0
    assert asked(events) is None


def test_what_the_driver_does_not_say_is_not_known(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)
    cuda.answer = 201

    assert asked(events) is None


def test_a_forked_child_asks_nothing_of_its_parents_device(events: DeviceEvents, cuda: FakeCuda) -> None:
    update(events, cuda)

    events.forget()

    assert asked(events) is None


def test_without_a_driver_it_is_said_once_and_nothing_is_asked(recorder: FakeRecorder, cuda: FakeCuda) -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    events = DeviceEvents(recorder, cuda.torch(), lambda: CudaEvents(missing))  # type: ignore[arg-type]
    for _ in range(3):
        update(events, cuda)

    assert asked(events) is None
    assert [note["state"] for note in recorder.introduced] == ["off"]
    assert not recorder.faults


def test_a_fault_ends_the_asking_and_is_counted(events: DeviceEvents, recorder: FakeRecorder, cuda: FakeCuda) -> None:
    for _ in range(2):
        events.updated(object(), (), {})

    assert len(recorder.faults) == 1
    assert cuda.recorded == 0


def test_a_driver_that_is_too_old_is_a_missing_one() -> None:
    with pytest.raises(CudaMissing):
        CudaEvents(lambda name: object())


def test_undone_nothing_stays_behind(recorder: FakeRecorder, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: list[Any] = []
    registered = SimpleNamespace(register_optimizer_step_post_hook=lambda hook: hooks.append(hook) or SimpleNamespace(remove=hooks.clear))
    monkeypatch.setitem(sys.modules, "torch", cuda.torch())
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", registered)  # type: ignore[arg-type]

    undo = install_events(recorder)  # type: ignore[arg-type]
    told = [recorder.device_probes, recorder.before_waits, recorder.after_waits, recorder.before_forwards, recorder.before_backwards]
    assert len(hooks) == 1
    assert [len(callers) for callers in told] == [1] * len(told)
    undo()
    recorder.optimizer_undos[0]()

    assert not sum(told, hooks)


def test_a_torch_without_cuda_or_without_a_compiler_to_ask_records_no_events(
    recorder: FakeRecorder, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = cuda.torch()
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch.optim.optimizer", SimpleNamespace(register_optimizer_step_post_hook=None))  # type: ignore[arg-type]
    torch.version.cuda = None
    install_events(recorder)  # type: ignore[arg-type]
    assert not recorder.optimizer_undos

    torch.version.cuda = "12.4"
    del torch.compiler
    with pytest.raises(Unfit):
        install_events(recorder)  # type: ignore[arg-type]


@pytest.fixture
def real(tmp_path: Path) -> Iterator[tuple[Recorder, list[str]]]:
    """A recorder, and what it was told of since it was made."""
    (tmp_path / CONTROL_FILE).write_bytes(b"\1" + bytes(CONTROL_BYTES - 1))
    recorder, told = Recorder(str(tmp_path), level=2), list[str]()
    for name in ("before_waits", "after_waits", "before_forwards", "before_backwards"):
        getattr(recorder, name).append(functools.partial(told.append, name))
    yield recorder, told
    recorder.stop("exit")


def test_a_loader_tells_when_it_is_asked_for_input_and_when_that_was_received_or_there_is_none(real: tuple[Recorder, list[str]]) -> None:
    data = pytest.importorskip("torch.utils.data")
    recorder, told = real
    undo = dataloader.install(recorder)
    try:
        assert len(list(data.DataLoader([1]))) == 1
        assert told == ["before_waits", "after_waits"] * 2
    finally:
        undo()


def test_a_loader_whose_batches_take_next_to_no_time_tells_when_each_was_received(real: tuple[Recorder, list[str]]) -> None:
    data = pytest.importorskip("torch.utils.data")
    recorder, told = real
    undo = dataloader.install(recorder)
    try:
        batches = iter(data.DataLoader([1, 2]))
        next(batches)
        me = recorder.local.me
        me.quick = batches.__dict__[KNOWN]
        told.clear()
        next(batches)
        assert told == ["after_waits"]
        with pytest.raises(StopIteration):
            next(batches)
        assert told == ["after_waits"] * 2
    finally:
        undo()


def test_input_that_the_script_names_tells_the_same(real: tuple[Recorder, list[str]]) -> None:
    recorder, told = real

    assert len(list(RecordedWaits(recorder, iter([1]), dataset="list"))) == 1

    assert told == ["before_waits", "after_waits"] * 2


def test_a_call_of_a_model_and_a_backward_pass_tell_before_they_give_work(real: tuple[Recorder, list[str]]) -> None:
    torch = pytest.importorskip("torch")
    recorder, told = real
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    model[0].register_forward_hook(lambda *_: told.append("forward"))
    undos = [module.install(recorder), backward.install(recorder)]
    try:
        loss = model(torch.ones(1)).sum()
        loss.register_hook(lambda _: told.append("backward"))
        loss.backward()
        with torch.no_grad():
            model(torch.ones(1))
    finally:
        for undo in undos:
            undo()

    assert told == ["before_forwards", "forward", "before_backwards", "backward", "before_forwards", "forward"]
