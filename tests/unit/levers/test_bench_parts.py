"""What `bench data` does inside a training: it finds, times and leaves out what a data set does, and puts everything back."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset

from slowstep.levers._tasks import _refused, bench_data
from slowstep.levers._tasks._again import Again, Endless
from slowstep.levers._tasks._calls import Segments, kind_of, short_name
from slowstep.levers._tasks._drain import Drain, said
from slowstep.levers._tasks._parts import time_parts
from slowstep.levers._tasks._plain import plain
from slowstep.levers._tasks._slots import find_slots
from slowstep.record.hooks import torch_fetch
from slowstep.record.lever import NotApplicable


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
    assert {len(row) for row in parts.rows} == {8}
    assert all(row[0] == 4 and row[1] >= row[6] + row[7] > 0 for row in parts.rows)
    assert sum(row[7] for row in parts.rows) > sum(row[6] for row in parts.rows)
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


def test_a_stream_is_begun_again_and_an_empty_one_ends_it():
    assert len(time_parts(DataLoader(Stream(6), batch_size=4), seconds=0.3, one_thread=True).rows) > 2
    assert time_parts(DataLoader(Stream(0), batch_size=4), seconds=0.02, one_thread=True).reason == "ValueError: the data set gave no batch"


def test_a_data_set_that_is_its_own_iterator_is_not_read_in_the_training():
    with pytest.raises(NotApplicable, match="can be read once only"):
        Again(DataLoader(Iterator(3)), 0)


def test_an_endless_sampler_begins_again_and_knows_the_lengths():
    endless = Endless([[1, 2], [3]])
    indices = iter(endless)

    assert [next(indices) for _ in range(5)] == [[1, 2], [3], [1, 2], [3], [1, 2]]
    assert list(endless.lengths) == [2, 1, 2, 1, 2]
    assert list(Endless([])) == []


def test_without_workers_a_reading_counts_batches_samples_and_time(tmp_path):
    loader = DataLoader(Data(loop, length=10), batch_size=4)

    began_ns = time.monotonic_ns()
    drained = Drain(loader, 0, str(tmp_path), seconds=0.2).run()
    spent_ns = time.monotonic_ns() - began_ns

    assert drained.reason is None
    batches = sum(row[1] for row in drained.rows)
    assert batches >= 12
    # Batches of 4, 4 and 2, again and again.
    assert batches * 2 < sum(row[2] for row in drained.rows) <= batches * 4
    assert sum(row[2] for row in drained.rows) == drained.seen
    assert 0.15e9 < sum(row[0] for row in drained.rows) <= spent_ns
    assert sum(s["batches"] for s in drained.slices) == batches
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

    loader = DataLoader(Data(fail_later), batch_size=4, num_workers=workers)

    drained = Drain(loader, workers, str(tmp_path), seconds=5).run()

    assert drained.reason is not None
    assert "sample is broken" in drained.reason
    assert 0 < sum(row[1] for row in drained.rows) <= 15


def test_a_stream_of_one_batch_has_nothing_to_measure(tmp_path):
    drained = Drain(DataLoader(Stream(3), batch_size=4), 0, str(tmp_path), seconds=0.2).run()

    assert drained.rows == []
    assert "ends after its first batch" in (drained.reason or "")


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
    segments = Segments()

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

    assert "runs the script anew" in (_refused.why_not(DataLoader(Data()), 1, None, None) or "")
    # It has workers already: they are started as these were.
    assert _refused.why_not(DataLoader(Data(), num_workers=1), 2, None, None) is None


def test_an_exception_is_said_in_one_line():
    worker = RuntimeError("Caught ValueError in DataLoader worker process 0.\nOriginal Traceback:\n  File ...\nValueError: broken\n")

    assert said(worker) == "ValueError: broken"
    assert said(KeyError("label")) == "KeyError: 'label'"
    assert said(ValueError()) == "ValueError: "
