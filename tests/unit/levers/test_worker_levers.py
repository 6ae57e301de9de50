"""How levers reach loader workers: orders that are read, obeyed and answered, and workers that nothing can disturb."""

from __future__ import annotations

import json
import shutil
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from slowstep.frameworks.torch.inside import worker_levers as torch_worker_levers
from slowstep.frameworks.torch.inside.levers._worker_ends import Follower
from slowstep.frameworks.torch.inside.worker_levers import FollowingQueue
from slowstep.levers._calls.answers import REASONS
from slowstep.levers._calls.intercept import release_all
from slowstep.levers._calls.values import ONCE
from slowstep.levers._calls.worker_page import ENDED, OFF, ON, Orders, OrdersRead
from slowstep.record.experiment.lever import LeverSpec


def double(x: int) -> int:
    return 2 * x


def items(x: int) -> Iterator[int]:
    return iter([x])


STUB = LeverSpec(name="stub", value=f"{__name__}:double")


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    yield
    release_all()


@pytest.fixture
def orders(tmp_path: Path) -> Orders:
    return Orders(str(tmp_path))


def test_a_worker_obeys_from_its_next_batch_on_and_tells_what_it_did(tmp_path: Path, orders: Orders) -> None:
    code, worker = double.__code__, Follower(str(tmp_path))
    worker.look()
    number = orders.add(STUB)

    worker.look()
    watched = double(1), double(2)
    orders.change(number, ON)
    before_it_looks = double(3)
    worker.look()
    answered = double(4), double(5)
    orders.change(number, OFF)
    worker.look()
    given_back = double(6)

    assert (watched, before_it_looks, answered, given_back) == ((2, 4), 6, (6, 6), 12)
    assert double.__code__ is code
    assert orders.done(number) == [(5, 2, 0)]


def test_an_order_that_has_ended_before_a_worker_began_is_not_obeyed(tmp_path: Path, orders: Orders) -> None:
    code = double.__code__
    orders.change(orders.add(STUB), ENDED)

    Follower(str(tmp_path)).look()

    assert double.__code__ is code
    assert orders.done(0) == []


def test_a_worker_says_why_it_cannot(tmp_path: Path, orders: Orders) -> None:
    worker = Follower(str(tmp_path))
    number = orders.add(LeverSpec(name="stub", value=f"{__name__}:items"))

    worker.look()
    items(1)
    worker.look()

    assert orders.done(number) == [(1, 0, REASONS.index(ONCE) + 1)]


@pytest.mark.parametrize("value", ["not_imported_here:f", f"{__name__}:missing", "nonsense"])
def test_a_function_that_a_worker_does_not_know_is_none_of_its_affairs(tmp_path: Path, orders: Orders, value: str) -> None:
    worker = Follower(str(tmp_path))
    orders.add(LeverSpec(name="stub", value=value))
    second = orders.add(STUB)

    worker.look()
    double(1)
    worker.look()

    assert orders.done(second) == [(1, 0, 0)]


def test_a_function_that_a_worker_imports_later_is_found_with_the_next_order(
    tmp_path: Path, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Follower(str(tmp_path))
    number = orders.add(LeverSpec(name="stub", value="imported_later:double"))
    worker.look()
    module = types.ModuleType("imported_later")
    module.double = double  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "imported_later", module)

    orders.change(number, ON)
    worker.look()
    double(1)
    results = double(2), double(3)

    assert results == (2, 2)


def test_orders_that_are_being_written_are_read_with_the_next_batch(tmp_path: Path, orders: Orders) -> None:
    read = OrdersRead(str(tmp_path))
    orders.add(STUB)
    orders._page[:8] = bytes(8)

    assert read.changed() is None
    orders.change(0, ON)
    found = read.changed()
    assert found is not None
    assert found[0]["state"] == ON
    assert read.changed() is None


def test_more_orders_than_fit_are_refused(orders: Orders) -> None:
    def add_many() -> None:
        for _ in range(1000):
            orders.add(STUB)

    with pytest.raises(ValueError, match="too many functions"):
        add_many()


def test_a_worker_whose_folder_is_gone_goes_on(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    Orders(str(folder)).add(STUB)
    worker = Follower(str(folder))
    worker.look()
    double(1)
    shutil.rmtree(folder)

    worker.look()

    assert double(2) == 4


def test_a_queue_is_followed_and_is_itself_otherwise(tmp_path: Path) -> None:
    looked: list[int] = []
    queue = types.SimpleNamespace(get=lambda timeout: ("task", timeout), cancel_join_thread=lambda: "its own")
    following: Any = FollowingQueue(types.SimpleNamespace(look=lambda: looked.append(1)), queue, pytest.fail)

    assert following.get(timeout=5) == ("task", 5)
    assert following.cancel_join_thread() == "its own"
    assert looked == [1]


def test_a_worker_that_cannot_follow_works_on_as_it_is_and_counts_it_once(
    tmp_path: Path, orders: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults: list[Exception] = []
    queue = types.SimpleNamespace(get=lambda: "task")
    following = FollowingQueue(Follower(str(tmp_path)), queue, faults.append)
    number, code = orders.add(STUB), double.__code__
    orders.change(number, ON)
    following.get()
    double(1)
    answered = double(2)
    monkeypatch.setattr(orders, "_orders", ["no order"])
    orders._write()

    tasks = following.get(), following.get()

    assert (answered, double(2), tasks) == (2, 4, ("task", "task"))
    assert double.__code__ is code
    assert [type(fault) for fault in faults] == [TypeError]


def test_orders_are_written_and_read_though_what_they_are_written_with_is_answered(tmp_path: Path, orders: Orders) -> None:
    worker = Follower(str(tmp_path))
    for value in ("json:dumps", "json:loads"):
        number = orders.add(LeverSpec(name="stub", value=value))
        orders.change(number, ON)
        worker.look()
    before = json.dumps([1]), json.loads("[1]")

    orders.change(orders.add(STUB), ON)
    worker.look()
    answered = json.dumps([2]), json.loads("[2]")
    double(1)

    assert (before, answered) == (("[1]", [1]), ("[1]", [1]))
    assert double(2) == 2
    assert orders._orders == OrdersRead(str(tmp_path)).changed()


@pytest.mark.parametrize(
    ("experiment", "levers", "is_on"),
    [(False, [], False), (True, [], True), (False, [{"name": "stub"}], True)],
    ids=["none", "plan", "always"],
)
def test_the_hook_is_there_where_levers_are_asked_for_and_leaves_torch_as_it_was(experiment: bool, levers: Any, is_on: bool) -> None:
    from torch.utils.data._utils import worker

    before = worker._worker_loop
    recorder: Any = types.SimpleNamespace(experiment=experiment, levers=levers)

    undo: Callable[[], None] = torch_worker_levers.HOOK.install(recorder)
    assert (worker._worker_loop is not before) == is_on
    undo()

    assert worker._worker_loop is before
