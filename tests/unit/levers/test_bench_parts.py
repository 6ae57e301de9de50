"""What `bench data` does inside a training: it finds, times and leaves out what a data set does, and puts everything back."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

from slowstep.frameworks.torch.inside import fetch as torch_fetch
from slowstep.frameworks.torch.inside.tasks import _drain, bench_data
from slowstep.frameworks.torch.inside.tasks import bench_data as _refused
from slowstep.frameworks.torch.inside.tasks._again import LoaderAgain, Noted
from slowstep.frameworks.torch.inside.tasks._calls import CoreClock, Segments, kind_of, short_name
from slowstep.frameworks.torch.inside.tasks._cells import queue_clock
from slowstep.frameworks.torch.inside.tasks._drain import Drain
from slowstep.frameworks.torch.inside.tasks._parts import time_parts
from slowstep.frameworks.torch.inside.tasks._plain import plain
from slowstep.frameworks.torch.inside.tasks._slots import find_slots
from slowstep.frameworks.torch.inside.tasks._watched import SharedTimers
from slowstep.record.experiment.lever import NotApplicable
from slowstep.record.experiment.loader_reading import said


class Compose:
    def __init__(self, *transforms: Any) -> None:
        self.transforms = list(transforms)

    def __call__(self, sample: Any) -> Any:
        for transform in self.transforms:
            sample = transform(sample)
        return sample


def double(sample: Any) -> Any:
    return sample * 2


def loop(sample: Any) -> Any:
    total = 0
    for number in range(5000):
        total += number
    return sample


class Data(Dataset):
    def __init__(self, *transforms: Any, length: int = 32) -> None:
        self.transform, self.length = Compose(*transforms), length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        return self.transform(torch.ones(4))


class Stream(IterableDataset):
    def __init__(self, length: int) -> None:
        self.length = length

    def __iter__(self) -> Any:
        return (torch.ones(4) for _ in range(self.length))


class Iterator(Stream):
    def __next__(self) -> Any:
        return torch.ones(4)


def names(dataset: Any) -> list[str]:
    return [slot.name for slot in find_slots(dataset)]


def test_the_transforms_of_a_compose_are_found_in_their_order():
    assert names(Data(double, loop)) == ["double", "loop"]


def test_they_are_found_in_data_sets_within_data_sets_each_once():
    inner = Data(double)

    assert names(Subset(inner, [0, 1])) == ["double"]
    assert names(ConcatDataset([inner, Data(loop), inner])) == ["double", "loop"]


def test_a_single_function_a_sequential_and_a_pair_are_found():
    data = Data()
    data.transform = double
    assert names(data) == ["double"]

    data.transform = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    assert names(data) == ["ReLU", "Tanh"]

    class Pair:
        def __init__(self) -> None:
            self.transform, self.target_transform = Compose(loop), double

        def __call__(self, image: Any, target: Any) -> Any:
            return self.transform(image), self.target_transform(target)

    data.transforms, data.transform = Pair(), None
    assert names(data) == ["loop", "double"]


def test_what_is_no_function_is_none():
    data = Data()
    data.transform, data.paths, data.kind = None, ["a", "b"], Compose
    data.cycle = data

    assert names(data) == []


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_slot_is_restored(kind: type):
    data = Data()
    data.steps = kind([double, loop])
    before = data.steps

    slots = find_slots(data)
    slots[-1].put(len)
    assert list(data.steps) == [double, len]
    slots[-1].restore()

    assert data.steps == before


def test_the_parts_of_a_sample_are_timed_and_nothing_stays():
    data = Data(double, loop)
    loader = DataLoader(data, batch_size=4)

    parts = time_parts(loader, seconds=0.1, one_thread=True)

    assert parts.reason is None
    assert parts.steps == ["double", "loop"]
    assert {len(row) for row in parts.rows} == {10}
    assert all(row[0] == 4 and row[1] >= row[8] + row[9] > 0 for row in parts.rows)
    assert sum(row[9] for row in parts.rows) > sum(row[8] for row in parts.rows)
    assert {len(row) for row in parts.left_out} == {4}
    assert set(parts.calls) <= {"base", "collate", "0", "1"}
    assert data.transform.transforms == [double, loop]


def test_leaving_out_ends_where_the_data_set_needs_the_transform():
    class Strict(Data):
        def __getitem__(self, index: int) -> Any:
            return super().__getitem__(index).shape

    def as_list(sample: Any) -> list[float]:
        return list(sample)

    def as_tensor(sample: list[float]) -> Any:
        return torch.stack(sample)

    parts = time_parts(DataLoader(Strict(as_list, as_tensor), batch_size=2), seconds=0.05, one_thread=True)

    assert parts.rows
    assert parts.left_out == []
    assert parts.left_out_reason is not None
    assert "as_tensor" in parts.left_out_reason
    assert "AttributeError" in parts.left_out_reason


def test_what_the_data_set_raises_is_the_reason_and_threads_are_as_before():
    def fail(sample: Any) -> Any:
        raise KeyError("label")

    before = torch.get_num_threads()
    data = Data(fail)

    parts = time_parts(DataLoader(data), seconds=0.05, one_thread=True)

    assert parts.reason == "KeyError: 'label'"
    assert data.transform.transforms == [fail]
    assert torch.get_num_threads() == before


@pytest.mark.slow
def test_a_stream_is_begun_again_and_an_empty_one_ends_it():
    assert len(time_parts(DataLoader(Stream(6), batch_size=4), seconds=0.3, one_thread=True).rows) > 2
    assert time_parts(DataLoader(Stream(0), batch_size=4), seconds=0.02, one_thread=True).reason == "ValueError: the data set gave no batch"


def test_a_data_set_that_is_its_own_iterator_is_not_read_in_the_training():
    with pytest.raises(NotApplicable, match="can be read once only"):
        LoaderAgain(DataLoader(Iterator(3)), 0)


def test_a_noted_sampler_ends_where_the_scripts_does_and_knows_the_lengths():
    noted = Noted([[1, 2], [3], 4])

    assert list(noted) == [[1, 2], [3], 4]
    assert list(noted.lengths) == [2, 1, -1]


@pytest.mark.parametrize(("persistent", "workers", "kept"), [(True, 2, True), (True, 0, False), (False, 2, False)])
def test_workers_live_as_long_as_the_loaders_own(persistent, workers, kept):
    again = LoaderAgain(DataLoader(Data(), batch_size=4, num_workers=1, persistent_workers=persistent), workers)

    assert again.is_persistent is kept
    assert again.loader.persistent_workers is kept
    assert again.epoch_batches == 8
    assert LoaderAgain(DataLoader(Stream(3), batch_size=4), 1).epoch_batches is None


def test_without_workers_a_reading_counts_batches_samples_and_time(tmp_path, monkeypatch):
    monkeypatch.setattr(_drain, "OVERTIME", 1e9)
    loader = DataLoader(Data(loop, length=10), batch_size=4)

    began_ns = time.monotonic_ns()
    drained = Drain(loader, 0, str(tmp_path), seconds=0.2).run()
    spent_ns = time.monotonic_ns() - began_ns

    assert drained.reason is None
    batches = sum(row[1] for row in drained.rows)
    assert batches >= 12
    # Batches of 4, 4 and 2, again and again, of which the first of each epoch stands for itself.
    assert drained.epoch_batches == 3
    assert {edge.batches for edge in drained.edges[:-1]} == {3}
    assert {(edge.filled, edge.samples) for edge in drained.edges} == {(1, 4)}
    # The last epoch may have been left in its middle.
    assert batches * 2 < sum(row[2] for row in drained.rows) <= batches * 3 + 4
    assert sum(row[2] for row in drained.rows) == drained.seen
    spent = [sum(row[0] for row in drained.rows), *(edge.start_ns + max(edge.end_ns, 0) for edge in drained.edges)]
    assert 0.15e9 < sum(spent) <= spent_ns
    # Not every epoch of a fraction of a millisecond is looked at.
    assert 0 < sum(s["batches"] for s in drained.slices) <= batches
    assert sum(s["cpu_ns"] for s in drained.slices) > 0
    assert list(tmp_path.iterdir()) == []


def test_with_a_worker_what_it_spends_is_counted_by_itself(tmp_path):
    drained = Drain(DataLoader(Data(loop), batch_size=4, num_workers=1), 1, str(tmp_path), seconds=0.4).run()

    assert drained.reason is None
    total = {
        name: sum(s[name] for s in drained.slices) for name in ("batches", "wall_ns", "cpu_ns", "collate_ns", "process_ns", "period_ns")
    }
    assert total["batches"] > 0
    assert 0 < total["collate_ns"] < total["wall_ns"] < 1.5 * total["period_ns"]
    assert 0 < total["cpu_ns"] <= total["process_ns"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("workers", [0, 1])
def test_what_is_raised_ends_a_reading_with_what_was_read(tmp_path, workers):
    count = [0]

    def fail_later(sample: Any) -> Any:
        count[0] += 1
        if count[0] > 60:
            raise ValueError("sample is broken")
        return sample

    loader = DataLoader(Data(fail_later, length=400), batch_size=4, num_workers=workers)

    drained = Drain(loader, workers, str(tmp_path), seconds=5).run()

    assert drained.reason is not None
    assert "sample is broken" in drained.reason
    assert 0 < sum(row[1] for row in drained.rows) <= 15


@pytest.mark.parametrize("persistent", [False, True])
def test_each_epoch_has_its_start_and_its_end(tmp_path, monkeypatch, persistent):
    # However slow the machine is: twelve batches are read.
    monkeypatch.setattr(_drain, "OVERTIME", 1e9)
    loader = DataLoader(Data(loop, length=12), batch_size=4, num_workers=1, persistent_workers=persistent)

    drained = Drain(loader, 1, str(tmp_path), seconds=0.001).run()

    assert drained.reason is None
    # Persistent workers are not started at a change of epoch: what their first start took is no epoch's.
    assert len(drained.edges) == len(drained.starts_ns) - persistent
    assert len(drained.edges) > 2
    assert all(edge.start_ns > 0 and edge.end_ns > 0 and edge.batches == 3 for edge in drained.edges[:-1])
    assert sum(s["wall_ns"] for s in drained.slices) >= 0
    assert all(s["read_bytes"] is not None for s in drained.slices)


def test_a_stream_of_one_batch_is_epochs_of_one_batch(tmp_path, monkeypatch):
    monkeypatch.setattr(_drain, "OVERTIME", 1e9)

    drained = Drain(DataLoader(Stream(3), batch_size=4), 0, str(tmp_path), seconds=0.001).run()

    assert (drained.rows, drained.reason) == ([], None)
    assert len(drained.edges) > 2
    assert {(edge.batches, edge.samples) for edge in drained.edges} == {(1, 3)}
    assert "gave no batch" in (Drain(DataLoader(Stream(0), batch_size=4), 0, str(tmp_path), seconds=0.02).run().reason or "")


class FakeClock:
    """Goes on by what is said to take time, and by nothing else."""

    def __init__(self) -> None:
        self.ns = 1

    def __call__(self) -> int:
        return self.ns

    def takes(self, ms: float) -> Any:
        """A function that takes so long."""

        def take(*args: Any) -> int:
            self.ns += int(ms * 1e6)
            return 8

        return take


def a_slow_loader(clock: FakeClock, monkeypatch: pytest.MonkeyPatch, *, batch_ms: float, walk_ms: float) -> DataLoader[Any]:
    """A loader whose batches, and the looks into them, take as long as said by a clock of its own."""
    monkeypatch.setattr(_drain, "now", clock)
    monkeypatch.setattr(_drain, "samples_in", clock.takes(walk_ms))
    monkeypatch.setattr(_drain, "bytes_in", clock.takes(0))
    make = clock.takes(batch_ms / 8)
    return DataLoader(Data(lambda sample: (make(), sample)[1], length=8000), batch_size=8)


def test_what_our_own_look_into_a_batch_takes_is_in_no_time_and_seldom_done(tmp_path, monkeypatch):
    clock = FakeClock()
    loader = a_slow_loader(clock, monkeypatch, batch_ms=0.1, walk_ms=4)

    drained = Drain(loader, 0, str(tmp_path), seconds=1).run()

    batches = sum(row[1] for row in drained.rows)
    assert sum(row[0] for row in drained.rows) == pytest.approx(batches * 0.1e6, rel=1e-3)
    assert drained.edges[0].start_ns == pytest.approx(0.1e6, rel=1e-3)
    assert sum(row[2] for row in drained.rows) == 8 * batches == drained.seen
    in_all = sum(row[0] for row in drained.rows) + sum(edge.start_ns for edge in drained.edges)
    assert clock.ns - in_all < 0.03 * clock.ns


@pytest.mark.parametrize(("until_s", "counted"), [(0, 0), (100, 2)])
def test_slow_batches_are_waited_for_while_there_is_time_for_anything(tmp_path, monkeypatch, until_s, counted):
    clock = FakeClock()
    loader = a_slow_loader(clock, monkeypatch, batch_ms=4000, walk_ms=0)

    drained = Drain(loader, 0, str(tmp_path), seconds=1, until_ns=int(until_s * 1e9)).run()

    assert drained.reason is None
    assert sum(row[1] for row in drained.rows) == counted


def test_no_other_numbers_of_workers_are_begun_when_the_time_is_over(monkeypatch):
    clock = FakeClock()
    monkeypatch.setattr(bench_data, "now", clock)
    bench = bench_data._Bench(None, DataLoader(Data()), 2, seconds=10)  # type: ignore[arg-type]

    assert bench._why_not(0, 1) is None
    bench._first_batch_ns = int(4.07e9)
    clock.ns += int(4e9)
    assert bench._why_not(0, 0) is None
    assert bench._why_not(0, 1) == "left out: a first batch takes 4.1 s (a larger --budget)"
    bench._first_batch_ns = 0
    clock.ns += int(20e9)
    assert bench._why_not(0, 1) == "left out: the time is over (a larger --budget)"


def test_parts_of_slow_batches_end_with_the_time():
    loader = DataLoader(Data(loop), batch_size=4)

    assert len(time_parts(loader, seconds=60, one_thread=False, until_ns=0).rows) == 1


def test_samples_are_the_indices_where_a_batch_is_a_list(tmp_path):
    loader = DataLoader(Data(), batch_size=8, collate_fn=list)

    drained = Drain(loader, 0, str(tmp_path), seconds=0.05).run()

    batches = sum(row[1] for row in drained.rows)
    assert sum(row[2] for row in drained.rows) == 8 * batches
    assert drained.seen == 4 * batches


@pytest.mark.parametrize(
    ("own", "cores", "counts"),
    [(0, 2, [0, 1, 2, 4]), (3, 4, [0, 1, 2, 3, 4, 8]), (0, 1, [0, 1, 2]), (1, None, [0, 1, 2]), (0, 2.5, [0, 1, 2, 4])],
)
def test_more_workers_are_tried_up_to_beyond_the_cores(own, cores, counts):
    assert bench_data.worker_counts(own, cores) == counts


@pytest.mark.parametrize(
    ("rates", "ends"),
    [([], False), ([100], False), ([100, 101], False), ([100, 101, 102], True), ([100, 200, 201], False), ([100, 200, 201, 199], True)],
)
def test_the_sweep_ends_after_two_doublings_in_vain(rates, ends):
    assert bench_data._adds_no_more(rates) is ends


@pytest.mark.parametrize(
    ("function", "kind", "name"),
    [
        ("<built-in method time.sleep>", "sleep", "time.sleep"),
        ("<method 'recv_into' of '_socket.socket' objects>", "network", "_socket.socket.recv_into"),
        ("<method 'read' of '_io.BufferedReader' objects>", "file", "_io.BufferedReader.read"),
        ("<method 'read' of '_io.BytesIO' objects>", None, "_io.BytesIO.read"),
        ("<method 'decode' of 'ImagingDecoder' objects>", "decode", "ImagingDecoder.decode"),
        ("<built-in method zlib.decompress>", "decode", "zlib.decompress"),
        ("<built-in method builtins.len>", None, "builtins.len"),
    ],
)
def test_built_in_functions_are_told_by_their_names(function, kind, name):
    assert kind_of(function) == kind
    assert short_name(function) == name


def test_calls_are_counted_to_the_part_in_which_they_are_made():
    segments = Segments(queue_clock())

    with segments.inside("base"):
        time.sleep(0.02)
        with segments.inside("step"):
            time.sleep(0.01)
        time.sleep(0.001)

    counted = segments.counted()
    assert segments.reason is None
    assert counted["base"]["sleep"] >= 21e6
    assert 10e6 <= counted["step"]["sleep"] < counted["base"]["sleep"]
    assert counted["step"]["names"][0][:2] == ["sleep", "time.sleep"]


def test_a_function_that_waits_for_a_core_is_not_the_longer_for_it():
    began_ns = time.monotonic_ns()
    # The kernel says that half of all time goes by in a queue.
    segments = Segments(lambda: (time.monotonic_ns() - began_ns) // 2)

    with segments.inside("base"):
        time.sleep(0.04)
    spent_ns = time.monotonic_ns() - began_ns

    assert 19e6 < segments.counted()["base"]["sleep"] <= spent_ns / 2


def test_the_clock_of_a_profiler_never_runs_backwards():
    waited = [0]
    clock = CoreClock(lambda: waited[0])
    first = clock()
    waited[0] += 10**9
    time.sleep(0.001)

    assert clock() == first


def test_what_a_callable_stands_still_is_its_own():
    bench = SharedTimers()

    bench.collated.time(threading.Event().wait, 0.02)
    bench.collated.time(threading.Event().wait, 0.02)

    still_ns, others_ns = bench.still_ns()
    assert 35e6 < still_ns <= bench.collated.ns
    assert others_ns < still_ns


def test_ours_is_taken_off_a_function_and_nothing_else_is():
    def original() -> None: ...

    class Fake:
        local = live = None

    fetches = Fake()
    fetches.record_tiny = fetches.timed = None  # type: ignore[attr-defined]
    hooked = torch_fetch._timed(fetches, fetches, original)  # type: ignore[arg-type]

    assert plain(hooked) is original
    assert plain(original) is original


def test_more_workers_than_there_is_room_for_are_not_tried(monkeypatch):
    loader = DataLoader(Data(), num_workers=1)
    own = type("Iterator", (), {"_workers": [type("Worker", (), {"pid": 1})]})
    monkeypatch.setattr(_refused, "shared_free_bytes", lambda: 100 << 20)
    monkeypatch.setattr(_refused, "memory_free_bytes", lambda: 1000 << 20)
    monkeypatch.setattr(_refused, "own_bytes", lambda pid: 100 << 20)

    assert _refused.why_not(loader, 0, own, 1 << 30) is None
    assert _refused.why_not(loader, 4, own, 1 << 20) is None
    assert _refused.why_not(loader, 4, own, 10 << 20) == "its batches need 80 MiB of shared memory, and 100 MiB are free"
    assert _refused.why_not(loader, 8, own, None) == "8 workers need 800 MiB of memory, and 1000 MiB are free"


def test_workers_that_would_run_the_script_anew_are_not_tried(monkeypatch):
    monkeypatch.setattr(_refused, "_start_method", lambda: "spawn")

    assert "runs the script again" in (_refused.why_not(DataLoader(Data()), 1, None, None) or "")
    # It has workers already: they are started as these were.
    assert _refused.why_not(DataLoader(Data(), num_workers=1), 2, None, None) is None


def test_an_exception_is_said_in_one_line():
    worker = RuntimeError("Caught ValueError in DataLoader worker process 0.\nOriginal Traceback:\n  File ...\nValueError: broken\n")

    assert said(worker) == "ValueError: broken"
    assert said(KeyError("label")) == "KeyError: 'label'"
    assert said(ValueError()) == "ValueError: "


class Files(Data):
    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def __getitem__(self, index: int) -> Any:
        return len(self.path.read_bytes())


@pytest.mark.skipif(not os.path.exists("/proc/self/io"), reason="the kernel does not count it")
def test_what_the_trainings_workers_have_read_is_known_and_of_a_training_without_workers_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sample"
    path.write_bytes(bytes(100_000))
    iterator = iter(DataLoader(Files(path), batch_size=8, num_workers=1, persistent_workers=True))
    list(iterator)

    read = bench_data._read_so_far(iterator)
    nothing = bench_data._read_so_far(iter(DataLoader(Files(path))))

    assert (read["read_before_bytes"] or 0) >= 32 * 100_000
    assert (read["storage_before_bytes"] or 0) < 32 * 100_000
    assert set(nothing.values()) == set(bench_data._read_so_far(None).values()) == {None}
