"""Each step reads two loaders: levers of input act on the one that is waited for, cached batches stand in for both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from made_trainings import AS_IS, LEAD_IN, Samples, Script, Walked, loader, plan_of, walk

# A batch of the slow one takes 12 ms, and where it is read in one step of four only 64 ms: with a lever a third of that or next to nothing.
# What is asserted is far from either, for busy machines.
SLOW_S = 0.003
SLOWER_S = 0.016


class Slow(Samples):
    """Data that is waited for."""


class Steps:
    """A training that reads two loaders at a time, the slow one first or last."""

    def __init__(self, *, slow_first: bool, workers: int = 1, anew: bool = False) -> None:
        self._slow_first, self._workers, self._anew = slow_first, workers, anew
        count = 160 if anew else 4096
        self._data = Slow(count, SLOW_S), Samples(count)
        self.seen: list[tuple[float, ...]] = []

    def __call__(self, script: Script) -> None:
        made = self._made()
        while True:
            for batches in zip(*made, strict=True):
                self.seen.append(tuple(float(batch[0, 0]) for batch in batches))
                if not script.step(batches[0] + batches[1]):
                    return
            if self._anew:
                # Without the old ones there are no workers beside the new ones.
                del made
                made = self._made()

    def _made(self) -> list[Any]:
        # Both in one line, as many scripts have it.
        made = [loader(data, num_workers=self._workers) for data in self._data]
        return made if self._slow_first else made[::-1]


def walked(folder: Path, lever: str, train: Any, blocks: tuple[int, ...] = (AS_IS, 1, AS_IS, 1), *, lead_in: int = LEAD_IN) -> Walked:
    found = walk(folder, plan_of([lever], blocks), train, lead_in=lead_in)
    assert found.done
    assert found.faults == {}
    return found


@pytest.mark.parametrize(
    ("workers", "slow_first"),
    [
        (0, True),
        pytest.param(1, False, marks=pytest.mark.slow),
        pytest.param(0, False, marks=pytest.mark.slow),
        pytest.param(1, True, marks=pytest.mark.slow),
    ],
)
def test_a_mocked_input_waits_for_neither(tmp_path: Path, slow_first: bool, workers: int) -> None:
    found = walked(tmp_path / "r", "mock-loader", Steps(slow_first=slow_first, workers=workers))
    assert found.effect()[1] | {"loader": "Slow", "read_together": 2, "mocked": 2} == found.effect()[1]

    assert found.gain() > 2


@pytest.mark.slow
@pytest.mark.parametrize("slow_first", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_both_come_from_rings_while_it_is_on(tmp_path: Path, slow_first: bool) -> None:
    train = Steps(slow_first=slow_first)
    found = walked(tmp_path / "r", "constant-batch", train)

    steps = zip(train.seen[LEAD_IN:], found.steps.arm.tolist(), found.steps.settling.tolist(), strict=False)
    given = {batches for batches, arm, settling in steps if arm == 1 and not settling}
    assert len(given) == 1
    # Both loaders' batches count: their receipts are added for each.
    assert found.effect()[0] >= 2 * int(((found.steps.arm == 1) & ~found.steps.settling).sum())


@pytest.mark.slow
@pytest.mark.parametrize("slow_first", [pytest.param(True, marks=pytest.mark.slow), False])
def test_workers_are_more_for_the_one_that_is_waited_for(tmp_path: Path, slow_first: bool) -> None:
    found = walked(tmp_path / "r", "workers=3", Steps(slow_first=slow_first))
    assert found.effect()[1] | {"loader": "Slow", "read_together": 2, "workers": 3} == found.effect()[1]

    assert found.gain() > 1.5


def in_turns(script: Script) -> None:
    """Three batches of the fast loader, then one of the slow one."""
    slow, fast = (iter(loader(data, num_workers=1)) for data in (Slow(8192, SLOWER_S), Samples(8192)))
    step = 0
    while script.step(next(slow if step % 4 == 3 else fast)):
        step += 1


@pytest.mark.slow
def test_of_loaders_that_take_turns_all_are_mocked(tmp_path: Path) -> None:
    found = walked(tmp_path / "r", "mock-loader", in_turns, lead_in=80)
    assert found.effect()[1] | {"loader": "Slow", "read_together": 2, "mocked": 2} == found.effect()[1]

    assert found.gain() > 2


@pytest.mark.slow
def test_of_loaders_that_take_turns_the_one_that_is_waited_for_gets_workers(tmp_path: Path) -> None:
    found = walked(tmp_path / "r", "workers=3", in_turns, lead_in=80)
    assert found.effect()[1]["loader"] == "Slow"

    assert found.gain() > 1.5


@pytest.mark.slow
def test_loaders_that_are_built_anew_for_each_epoch_go_on_being_mocked(tmp_path: Path) -> None:
    train = Steps(slow_first=True, workers=0, anew=True)

    assert walked(tmp_path / "r", "mock-loader", train, blocks=(AS_IS, 1) * 8).gain() > 2


@pytest.mark.slow
def test_the_batch_size_of_one_of_them_is_not_changed(tmp_path: Path) -> None:
    found = walked(tmp_path / "r", "batch-size=8", Steps(slow_first=True, workers=0))

    assert found.states() == ["not applicable"]
    assert "the training reads 2 loaders" in found.reason()
