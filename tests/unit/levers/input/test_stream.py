from __future__ import annotations

import itertools

import pytest
from torch.utils.data import DataLoader

from few import few
from made_trainings import Samples
from slowstep.frameworks.torch.inside.levers._input.stream import MULTI, Stream, Supply, Usual, torch_class


def open_stream(**arguments: object) -> Stream:
    iterator = iter(DataLoader(**{"dataset": Samples(40), "batch_size": 4, **arguments}))  # type: ignore[arg-type]
    return Stream(iterator, type(iterator)._next_data)


def counted(stream: Stream) -> int:
    count = 0
    while True:
        try:
            stream.take()
        except StopIteration:
            return count
        count += 1


@pytest.mark.parametrize(("left", "expected"), [(0, []), (2, [0, 1]), (5, [0, 1, 2, 0, 1])])
def test_a_supply_gives_as_many_indices_as_are_wanted_and_begins_its_sampler_anew(left: int, expected: list[int]) -> None:
    supply = Supply(iter(range(3)), range(3))
    supply.left = left

    assert list(supply) == expected


def test_a_supply_without_a_limit_goes_on_and_on() -> None:
    assert list(itertools.islice(Supply(iter(range(2)), range(2)), 5)) == [0, 1, 0, 1, 0]


def test_a_supply_of_an_empty_sampler_ends() -> None:
    assert list(Supply(iter([]), [])) == []


def test_what_is_left_of_a_supply_is_no_supply() -> None:
    supply = Supply(iter(range(9)), range(9))
    supply.left = 3

    assert list(supply.remaining()) == [0, 1, 2]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("left", [0, 1, 7, 25])
def test_an_iterator_gives_as_many_batches_as_it_is_allowed(workers: int, left: int) -> None:
    stream = open_stream(num_workers=workers)
    stream.take()

    stream.allow(left)

    assert stream.outstanding <= left
    assert counted(stream) == left


def test_an_iterator_that_was_near_its_end_gets_as_much_work_as_ever() -> None:
    stream = open_stream(num_workers=2)
    for _ in range(9):
        stream.take()
    assert stream.outstanding == 1

    stream.allow(30)

    assert stream.outstanding == 4
    assert counted(stream) == 30


def test_what_is_discarded_is_no_more_than_had_gathered() -> None:
    stream = open_stream(num_workers=1, prefetch_factor=3)
    while not stream.is_idle():
        pass

    # The worker may be as fast as we are.
    assert 1 <= stream.discard(2, 0) <= 3
    while not stream.is_idle():
        pass
    assert 1 <= stream.discard(0, 0) <= 3
    assert stream.discard(0, 0, most=0) == 0


def test_an_iterator_that_ends_while_batches_are_discarded_ends_for_the_script_too() -> None:
    stream = open_stream(num_workers=1, prefetch_factor=20)
    while not stream.is_idle():
        pass

    assert stream.discard(-1, 0) == 10
    with pytest.raises(StopIteration):
        stream.take()


def test_without_workers_nothing_gathers() -> None:
    stream = open_stream()

    assert (stream.ready, stream.outstanding, stream.is_idle(), stream.discard(0, 0)) == (None, 0, True, 0)


def test_closing_ends_the_workers() -> None:
    stream = open_stream(num_workers=2, persistent_workers=True)
    workers = stream.iterator._workers

    stream.end()
    assert all(worker.is_alive() for worker in workers)
    stream.close()

    assert not any(worker.is_alive() for worker in workers)
    assert isinstance(stream.iterator, torch_class(MULTI))


def test_nothing_is_usual_before_anything_was_seen() -> None:
    usual = Usual()
    usual.add(None, 1)

    assert usual.level is None
    assert usual.start() == (1, 0)


def levels(usual: Usual, times: int = 4) -> list[int]:
    """How many batches are to lie ready at the next so many starts."""
    return [usual.start()[0] for _ in range(times)]


def test_where_the_training_only_waits_one_batch_is_left_whether_they_come_singly_or_in_bunches() -> None:
    bunches, singly = Usual(), Usual()
    for at in range(12):
        # Four workers that deliver together, every 40 ms, or one after the other, every 10.
        bunches.add([0, 3, 2, 1][at % 4], at // 4 * 40 + (40 if at % 4 else 0), 0 if at % 4 else 40)
        singly.add(0, at * 10, 10)

    assert levels(bunches) == levels(singly) == [1, 1, 1, 1]
    assert singly.start() == (1, 10)


def test_where_the_training_never_waits_the_usual_number_is_left_and_half_a_batch() -> None:
    usual = Usual()
    for at in range(8):
        usual.add([4, 3][at % 2], at * 10, 1)

    assert levels(usual) == [4, 4, 4, 4]

    usual.add(7, 80)
    assert 4 <= sum(levels(usual, 8)) / 8 <= 4.5


def test_where_the_training_waits_half_of_the_time_what_is_left_lies_between() -> None:
    usual = Usual()
    for at in range(8):
        usual.add([0, 3][at % 2], at * 10, [10, 1][at % 2])

    # Of 1 and 2.0 the mean, 1.5: one, and two every second time.
    assert levels(usual) == [1, 2, 1, 2]


def test_time_in_which_others_were_asked_is_between_no_requests() -> None:
    usual = Usual()
    usual.add(0, 0)
    usual.add(0, 10)
    usual.interrupt()
    usual.add(0, 1000)
    usual.add(0, 1010)

    assert usual.start()[1] == 10


def test_what_is_missing_is_waited_for_as_long_as_anything_is_made() -> None:
    stream = open_stream(num_workers=1, prefetch_factor=3)

    assert stream.bring_to(2, 0, left=None) == 0
    assert (stream.ready or 0) >= 2
    # More than it makes ahead: it waits no longer than the worker works.
    assert stream.bring_to(9, 0, left=None) == 0
    assert stream.ready == 3
    stream.close()


@pytest.mark.parametrize(("left", "ready"), few([(5, 1), (1, 1), (3, 1), (30, 1), (30, 2)], every=5))
def test_near_the_end_of_an_epoch_as_many_are_being_made_as_it_still_has(left: int, ready: int) -> None:
    stream = open_stream(num_workers=2, dataset=Samples(400, sample_s=0.02))
    while not stream.is_idle():
        pass

    # A batch takes 80 ms to make: none of the new ones is ready while those that lay ready are discarded.
    assert stream.bring_to(ready, 0, left=left) == 4 - ready

    assert stream.outstanding == min(left, 4)
    assert counted(stream) == left
