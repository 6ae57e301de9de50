"""Records on their way into a file: growth, full disks, torn records, thinning."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from weakref import WeakSet

import pytest

from recorded import Record, read_records
from slowstep.record.writing.fastpath import NOT_TINY_NS
from slowstep.record.writing.format import BACKWARD, CLOCK, COLLECTION, RECORD_BYTES, SAVE, UPDATE, WAIT
from slowstep.record.writing.storage import GRANULE_BYTES, SPARE_BYTES, AppendFile, MappedFile, is_mappable
from slowstep.record.writing.threads import Iterator, PerThread
from slowstep.record.writing.writer import Writer

CHUNK_RECORDS = 21 * GRANULE_BYTES // RECORD_BYTES


class Faults:
    """What the writer could not handle itself."""

    def __init__(self) -> None:
        self.seen: list[Exception] = []

    def __call__(self, error: Exception) -> None:
        self.seen.append(error)


@pytest.fixture
def faults() -> Faults:
    return Faults()


def mapped(path: Path, faults: Faults, *, limit_bytes: int = 1 << 28, reserve=os.posix_fallocate) -> Writer:
    writer = Writer(PerThread(WeakSet()), faults, limit_bytes=limit_bytes)

    def open_files() -> bool:
        writer.use_mapped(MappedFile(str(path), limit_bytes=limit_bytes, reserve=reserve))
        return True

    writer.open_files = open_files
    return writer


def appended(path: Path, faults: Faults, *, limit_bytes: int = 1 << 28) -> Writer:
    writer = Writer(PerThread(WeakSet()), faults, limit_bytes=limit_bytes)

    def open_files() -> bool:
        writer.use_appended(AppendFile(str(path)))
        return True

    writer.open_files = open_files
    return writer


@pytest.mark.parametrize("make", [mapped, appended])
def test_no_event_leaves_no_file(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults)

    writer.close()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("make", [mapped, appended])
def test_one_event_is_read_back_whole(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults)

    writer.event(WAIT, 10, 20, -1, 2, 1 << 40, 5, 255, thread=77)
    writer.close()

    assert read_records(tmp_path / "x.rec") == [Record(10, 20, -1, 2, 1 << 40, 77, 5, 255, "WAIT")]
    assert (tmp_path / "x.rec").stat().st_size == RECORD_BYTES
    assert faults.seen == []


def test_an_event_bears_the_native_id_of_its_thread(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    ids: list[int] = []

    def work() -> None:
        ids.append(threading.get_native_id())
        writer.event(WAIT, 1, 2)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    writer.event(WAIT, 3, 4)
    writer.close()

    assert [record.thread for record in read_records(tmp_path / "x.rec")] == [ids[0], threading.get_native_id()]


def hold(
    writer: Writer, *, began: int, waited: int = 5, iterator: int = 1, batch: int = 7, samples: int = 16, backward: bool = True
) -> None:
    """What hooks of requests and of backward passes hold back of a step."""
    me = writer.local.me
    known = Iterator(iterator, batches=batch)
    me.held = (began, began + waited, known, samples)
    if backward:
        me.backward = (began + 20, began + 50)


def end_step(writer: Writer, optimizer: int, t0: int, t1: int) -> None:
    """What the hook of updates does of a step that was held back."""
    me = writer.local.me
    assert me.held is not None
    me.ended.append((me.held, me.backward, optimizer, t0, t1))
    me.held = me.backward = None


def parts(
    writer: Writer, *, began: int, ended: int, waited: int = 5, iterator: int = 1, samples: int = 16, optimizer: int = 3
) -> list[Record]:
    thread = writer.local.me.thread
    return [
        Record(began, began + 5, 1, 7, samples, thread, 0, 255, "WAIT"),
        Record(began + 20, began + 50, 0, 0, 0, thread, 0, 0, "BACKWARD"),
        Record(began + 60, ended, optimizer, 0, 0, thread, 0, 0, "UPDATE"),
    ]


@pytest.mark.parametrize("make", [mapped, appended])
def test_a_step_whose_parts_were_held_back_is_read_back_whole(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)

    hold(writer, began=100)
    end_step(writer, 3, 160, 170)
    writer.write_ended(writer.local.me)
    writer.close()

    assert read_records(tmp_path / "x.rec")[1:] == parts(writer, began=100, ended=170)
    # A file that is written through a buffer has a record for each of them.
    assert (tmp_path / "x.rec").stat().st_size == (2 if make is mapped else 4) * RECORD_BYTES
    assert (writer.local.me.held, writer.local.me.backward) == (None, None)
    assert faults.seen == []


@pytest.mark.parametrize(
    ("held", "optimizer", "ended"),
    [
        ({"samples": 1 << 16}, 3, 170),
        ({"samples": -1}, 3, 170),
        ({}, 256, 170),
        ({}, 3, 100 + (1 << 32)),
    ],
    ids=["large batch", "unknown batch", "many optimizers", "long"],
)
def test_a_step_that_does_not_fit_into_one_record_has_three(held, optimizer, ended, tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)

    hold(writer, began=100, **held)
    end_step(writer, optimizer, 160, ended)
    writer.write_ended(writer.local.me)
    writer.close()

    assert read_records(tmp_path / "x.rec")[1:] == parts(writer, began=100, ended=ended, optimizer=optimizer, **held)
    assert (tmp_path / "x.rec").stat().st_size == 4 * RECORD_BYTES
    assert faults.seen == []


def test_an_update_that_began_before_the_request_does_not_share_its_record(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)

    hold(writer, began=100)
    end_step(writer, 3, 90, 170)
    writer.write_ended(writer.local.me)
    writer.close()

    assert [(record.kind, record.t0) for record in read_records(tmp_path / "x.rec")[1:]] == [
        ("WAIT", 100),
        ("BACKWARD", 120),
        ("UPDATE", 90),
    ]
    assert faults.seen == []


def test_requests_that_are_held_back_are_counted_when_they_are_written(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    me, known = writer.local.me, Iterator(4, batches=2)
    known.last, known.left = 4, 3

    for began in (100, 200, 300):
        me.held, me.backward = (began, began + 5, known, 16), (began + 20, began + 50)
        if began < 300:
            end_step(writer, 3, began + 60, began + 70)
    writer.release(me)
    writer.close()

    waits = [record for record in read_records(tmp_path / "x.rec") if record.kind == "WAIT"]
    # The last batch of an epoch holds what is left.
    assert [(record.t0, record.a, record.b, record.c) for record in waits] == [(100, 4, 2, 16), (200, 4, 3, 16), (300, 4, 4, 3)]
    assert known.batches == 5


@pytest.mark.parametrize(("waited", "goes_on"), [(NOT_TINY_NS, True), (NOT_TINY_NS + 1, False)])
def test_after_a_long_wait_fetches_are_measured_again(waited: int, goes_on: bool, tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    me = writer.local.me
    hold(writer, began=100, waited=waited)
    assert me.held is not None
    me.quick, me.fetch_ns = me.held[2], 1
    end_step(writer, 3, 100 + waited + 60, 100 + waited + 70)
    writer.write_ended(me)

    assert (me.quick is not None, me.fetch_ns == 1) == (goes_on, goes_on)


def test_a_request_without_backward_and_update_is_not_lost(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)

    hold(writer, began=100, backward=False)
    writer.release(writer.local.me)
    hold(writer, began=200, backward=False)
    end_step(writer, 3, 260, 270)
    writer.release(writer.local.me)
    writer.close()

    assert [(record.kind, record.t0) for record in read_records(tmp_path / "x.rec")] == [("WAIT", 100), ("WAIT", 200), ("UPDATE", 260)]


@pytest.mark.slow
def test_steps_that_several_threads_write_are_each_written_once(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    me = writer.local.me
    for number in range(20_000):
        hold(writer, began=1000 * number)
        end_step(writer, 3, 1000 * number + 60, 1000 * number + 70)

    threads = [threading.Thread(target=writer.write_ended, args=(me,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()

    updates = sorted(record.t0 for record in read_records(tmp_path / "x.rec") if record.kind == "UPDATE")
    assert updates == [1000 * number + 60 for number in range(20_000)]
    assert {record.thread for record in read_records(tmp_path / "x.rec")} == {me.thread}
    assert faults.seen == []


@pytest.mark.parametrize("make", [mapped, appended])
def test_many_events_keep_their_order_across_chunks(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults)
    events = 4 * CHUNK_RECORDS + 7

    for number in range(events):
        writer.event(UPDATE, number, number)
    writer.close()

    assert [record.t0 for record in read_records(tmp_path / "x.rec")] == list(range(events))
    assert (tmp_path / "x.rec").stat().st_size == events * RECORD_BYTES


def test_threads_that_write_together_lose_nothing(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)

    def work(name: int) -> None:
        for number in range(20_000):
            writer.event(WAIT, number, number, name)

    threads = [threading.Thread(target=work, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    writer.close()

    records = read_records(tmp_path / "x.rec")
    for name in range(4):
        assert [record.t0 for record in records if record.a == name] == list(range(20_000))
    assert faults.seen == []


def test_what_is_written_is_there_before_anything_is_closed(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)

    writer.event(UPDATE, 1, 2)

    assert [record.kind for record in read_records(tmp_path / "x.rec")] == ["UPDATE"]
    writer.close()


def test_a_record_is_finished_by_its_last_byte(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)
    writer.event(UPDATE, 3, 4)
    writer.close()

    data = (tmp_path / "x.rec").read_bytes()
    (tmp_path / "x.rec").write_bytes(data[:-1] + b"\0")

    assert [record.t0 for record in read_records(tmp_path / "x.rec")] == [1]


def test_an_event_that_fits_no_record_is_a_fault_and_not_an_exception(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)

    writer.event(UPDATE, -1, 2)
    writer.event(UPDATE, 3, 4)
    writer.close()

    assert len(faults.seen) == 1
    assert [record.t0 for record in read_records(tmp_path / "x.rec")] == [1, 3]


def test_a_full_disk_at_the_first_event_is_a_fault_and_leaves_an_empty_file(tmp_path: Path, faults: Faults) -> None:
    def full(handle: int, offset: int, size: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    writer = mapped(tmp_path / "x.rec", faults, reserve=full)

    writer.event(UPDATE, 1, 2)
    writer.close()

    assert [error.errno for error in faults.seen] == [errno.ENOSPC]
    assert (tmp_path / "x.rec").stat().st_size == 0


def test_a_disk_that_fills_up_keeps_what_was_written(tmp_path: Path, faults: Faults) -> None:
    def fills_up(handle: int, offset: int, size: int) -> None:
        if offset > 0:
            raise OSError(errno.ENOSPC, "full")
        os.posix_fallocate(handle, offset, size)

    writer = mapped(tmp_path / "x.rec", faults, reserve=fills_up)

    for number in range(CHUNK_RECORDS + 1):
        writer.event(UPDATE, number, number)
    writer.close()

    assert [error.errno for error in faults.seen] == [errno.ENOSPC]
    assert len(read_records(tmp_path / "x.rec")) == CHUNK_RECORDS


def test_space_is_kept_back_for_saying_that_the_disk_is_full(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)

    writer.event(UPDATE, 1, 2)

    assert (tmp_path / "x.rec").stat().st_size == CHUNK_RECORDS * RECORD_BYTES + SPARE_BYTES
    writer.close()


def test_events_after_the_end_are_dropped(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    writer.event(UPDATE, 1, 2)
    writer.close()
    told: list[None] = []
    writer.when_closed = lambda: told.append(None)

    writer.event(UPDATE, 3, 4)

    assert [record.t0 for record in read_records(tmp_path / "x.rec")] == [1]
    assert (len(told), faults.seen) == (1, [])


@pytest.mark.parametrize(("kind", "lost"), [(SAVE, 1), (COLLECTION, 0)])
def test_an_event_in_the_middle_of_our_own_work_is_counted_as_lost_unless_we_made_it(
    tmp_path: Path, faults: Faults, kind: int, lost: int
) -> None:
    writer = mapped(tmp_path / "x.rec", faults)
    open_files = writer.open_files

    def interrupted() -> bool:
        writer.event(kind, 5, 6)
        return open_files()

    writer.open_files = interrupted
    writer.event(UPDATE, 1, 2)
    writer.close()

    assert [record.kind for record in read_records(tmp_path / "x.rec")] == ["UPDATE"]
    assert writer.lost == lost


def test_a_forked_writer_touches_nothing_of_its_parent(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "parent.rec", faults)
    writer.event(UPDATE, 1, 2)

    child = os.fork()
    if child == 0:
        writer.forget()
        writer.open_files = lambda: writer.use_mapped(MappedFile(str(tmp_path / "child.rec"), limit_bytes=1 << 28)) is None
        writer.event(BACKWARD, 3, 4)
        writer.close()
        os._exit(0)
    os.waitpid(child, 0)
    writer.event(UPDATE, 5, 6)
    writer.close()

    assert [record.t0 for record in read_records(tmp_path / "parent.rec")] == [1, 5]
    assert [record.t0 for record in read_records(tmp_path / "child.rec")] == [3]


def train(writer: Writer, steps: int) -> None:
    for number in range(steps):
        writer.event(WAIT, number, number, 0, number, 4)
        writer.event(UPDATE, number, number)
        writer.step()


@pytest.mark.parametrize("make", [mapped, appended])
def test_a_small_recording_keeps_every_detail(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults, limit_bytes=1 << 20)

    train(writer, 1000)
    writer.close()

    assert len(read_records(tmp_path / "x.rec")) == 2000
    assert writer.thinned == 0


@pytest.mark.parametrize("make", [mapped, appended])
@pytest.mark.parametrize("steps", [3_000, 60_000])
def test_a_big_recording_stays_below_its_limit_and_counts_every_step(make, steps: int, tmp_path: Path, faults: Faults) -> None:
    limit_bytes = 16 * GRANULE_BYTES
    writer = make(tmp_path / "x.rec", faults, limit_bytes=limit_bytes)

    train(writer, steps)
    writer.close()

    records = read_records(tmp_path / "x.rec")
    totals = [record for record in records if record.kind == "TOTALS"]
    detailed = sum(record.kind == "UPDATE" for record in records)
    assert (tmp_path / "x.rec").stat().st_size <= limit_bytes + RECORD_BYTES
    assert detailed + sum(record.a for record in totals) == steps
    assert sum(record.c for record in records if record.kind == "WAIT") + sum(record.b for record in totals) == 4 * steps
    assert writer.thinned >= 1
    assert faults.seen == []


@pytest.mark.parametrize("phase", [0, 300, 600, 900])
def test_what_happens_every_1024_steps_is_neither_always_nor_never_recorded(phase: int, tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults, limit_bytes=64 * GRANULE_BYTES)

    for number in range(150_000):
        writer.event(UPDATE, number, number)
        if number % 1024 == phase:
            writer.event(SAVE, number, number)
        writer.step()
    writer.close()

    records = read_records(tmp_path / "x.rec")
    begun = min(record.t0 for record in records if record.kind == "TOTALS")
    assert begun > 0
    counted_from = sum(record.kind == "SAVE" for record in records[: next(i for i, r in enumerate(records) if r.kind == "TOTALS")])
    seen = sum(record.kind == "SAVE" for record in records) - counted_from
    happened = 150_000 // 1024 - counted_from
    assert 0 < seen < happened


def test_steps_in_one_record_are_counted_too_while_details_are_left_out(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults, limit_bytes=16 * GRANULE_BYTES)

    for number in range(30_000):
        hold(writer, began=1000 * number, batch=number)
        end_step(writer, 3, 1000 * number + 60, 1000 * number + 70)
        writer.write_ended(writer.local.me)
        writer.step()
    writer.close()

    records = read_records(tmp_path / "x.rec")
    totals = [record for record in records if record.kind == "TOTALS"]
    assert totals
    for kind in ("WAIT", "UPDATE"):
        assert sum(record.kind == kind for record in records) + sum(record.a for record in totals) == 30_000
    assert sum(record.c for record in records if record.kind == "WAIT") + sum(record.b for record in totals) == 16 * 30_000
    assert faults.seen == []


@pytest.mark.parametrize("make", [mapped, appended])
def test_a_full_recording_counts_all_its_steps_whatever_else_is_sent(make, tmp_path: Path, faults: Faults) -> None:
    writer = make(tmp_path / "x.rec", faults, limit_bytes=16 * GRANULE_BYTES)
    events = 16 * GRANULE_BYTES // RECORD_BYTES
    for number in range(events):
        writer.event(UPDATE, number, number)
    for number in range(3):
        # The clock of the day is kept wherever there is room for it.
        writer.event(CLOCK, number, number)
        train(writer, 300)
    writer.close()

    totals = [record for record in read_records(tmp_path / "x.rec") if record.kind == "TOTALS"]
    kept = sum(record.kind == "WAIT" for record in read_records(tmp_path / "x.rec"))
    assert [record.a for record in totals] == [900 - kept]
    assert faults.seen == []


def test_a_killed_process_has_counted_its_steps_up_to_the_last_block(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults, limit_bytes=16 * GRANULE_BYTES)

    train(writer, 30_000)

    records = read_records(tmp_path / "x.rec")
    counted = sum(record.kind == "UPDATE" for record in records) + sum(record.a for record in records if record.kind == "TOTALS")
    assert 30_000 - 256 <= counted <= 30_000
    writer.close()


def test_samples_are_unknown_when_one_batch_did_not_tell(tmp_path: Path, faults: Faults) -> None:
    writer = mapped(tmp_path / "x.rec", faults, limit_bytes=2 * GRANULE_BYTES)

    for number in range(2000):
        writer.event(WAIT, number, number, 0, number, -1)
        writer.step()
    writer.close()

    assert {record.b for record in read_records(tmp_path / "x.rec") if record.kind == "TOTALS"} == {-1}


def test_shared_memory_and_unknown_folders_are_not_mapped(tmp_path: Path) -> None:
    assert not is_mappable("/proc")
    assert not is_mappable(str(tmp_path / "missing"))
    if os.path.ismount("/dev/shm"):
        assert not is_mappable("/dev/shm")
