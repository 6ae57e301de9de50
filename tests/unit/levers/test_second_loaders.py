"""Loaders that are built again: whose batches the training gets, that the gain is true, and what is refused."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler, get_worker_info

from few import few
from made_trainings import AS_IS, Samples, Script, Walked, loader, plan_of, walk
from slowstep.frameworks.torch.inside.levers._input import rebuilt
from slowstep.frameworks.torch.inside.levers._input.rebuilt import again
from slowstep.frameworks.torch.inside.levers.workers import IMPLEMENTATION as WORKERS
from slowstep.record.experiment.implementations import can_build, known_levers
from slowstep.record.experiment.lever import DEMAND, NUMERICS, ORDER, LeverSpec, NotApplicable

INPUT = {
    "mock-loader",
    "constant-batch",
    "workers",
    "prefetch",
    "pin-memory",
    "persistent-workers",
    "batch-size",
    "warm-cache",
    "cold-cache",
}
TWICE = [AS_IS, 1, 1, AS_IS]


class Makers(Dataset[torch.Tensor]):
    """Samples that say how many workers there are, and who made them. Made by three workers they fail from one sample on."""

    def __init__(self, fails_from: int = 1 << 30, how: str = "raise") -> None:
        self.fails_from, self.how = fails_from, how

    def __len__(self) -> int:
        return 1 << 14

    def __getitem__(self, index: int) -> torch.Tensor:
        info = get_worker_info()
        workers = 0 if info is None else info.num_workers
        if workers == 3 and index >= self.fails_from:
            if self.how == "die":
                os._exit(1)
            raise ValueError("no such sample")
        return torch.tensor([float(workers), float(os.getpid()), 0.0, 0.0])


def walked(folder: Path, lever: str, blocks: list[int] = TWICE, steps: int = 5, work_s: float = 0.0, **arguments: Any) -> Walked:
    """A training with such a loader, and what came of one lever."""
    made = loader(**{"dataset": Makers(), **arguments})
    came = walk(folder / "r", plan_of([lever], blocks, steps), lambda script: script.train(made, work_s, keep=True))
    assert came.done
    assert came.faults == {}
    return came


def workers_seen(came: Walked, arm: int) -> set[float]:
    return {float(batch[0, 0]) for batch in came.given(arm)}


@pytest.mark.parametrize(
    ("own", "asked"),
    [
        (0, 2),
        (2, 0),
        pytest.param(1, 3, marks=pytest.mark.slow),
        pytest.param(2, 1, marks=pytest.mark.slow),
    ],
)
def test_the_training_gets_batches_of_so_many_workers_while_the_lever_is_on(own: int, asked: int, tmp_path: Path) -> None:
    came = walked(tmp_path, f"workers={asked}", num_workers=own)

    assert workers_seen(came, 1) == {float(asked)}
    assert workers_seen(came, AS_IS) == {float(own)}
    effect, facts = came.effect()
    assert effect == len(came.given(1))
    assert (facts["workers"], facts["own_workers"]) == (asked, own)


@pytest.mark.slow
def test_workers_of_a_training_that_had_none_outlive_its_epochs(tmp_path: Path) -> None:
    dataset = Samples(24)
    came = walk(tmp_path / "r", plan_of(["workers=1"], [1], steps=30), lambda script: script.train(DataLoader(dataset, batch_size=4)))

    facts = came.effect()[1]
    assert facts["epoch_changes"] >= 3
    assert facts["persistent"]


def test_a_loader_with_another_prefetch_factor_makes_that_many_ahead(tmp_path: Path) -> None:
    came = walked(tmp_path, "prefetch=5", num_workers=1, work_s=0.005)

    facts = came.effect()[1]
    assert facts["prefetch_factor"] == 5
    assert (facts["own_ready"], facts["ready"]) == (2, 5)


@pytest.mark.nightly
@pytest.mark.parametrize("own", [0, 1])
def test_the_gain_of_a_second_worker_is_true_where_the_loader_remains_the_limit(own: int, tmp_path: Path) -> None:
    """One maker makes a batch in 80 ms and two make two, a step takes none: the gain is 2.

    Blocks of five steps that began with the four batches that a full queue holds would gain more than 4.
    """
    came = walked(tmp_path, "workers=2", [0, 1, 1, 0] * 3, dataset=Samples(sample_s=0.02), num_workers=own)

    assert came.step_ns(AS_IS) > 72e6
    assert 1.5 < came.gain() < 2.7


@pytest.mark.slow
def test_the_gain_is_true_where_more_workers_make_the_training_itself_the_limit(tmp_path: Path) -> None:
    """The training takes 40 ms of the 80 that one worker takes for a batch; with batches that lie ready it is no faster than that."""
    came = walked(tmp_path, "workers=4", [0, 1, 1, 0] * 3, dataset=Samples(sample_s=0.02), num_workers=1, work_s=0.04)

    assert came.step_ns(1) > 40e6
    assert 1.3 < came.gain() < 2.5


@pytest.mark.slow
def test_the_training_as_it_is_is_no_faster_for_the_batches_that_gathered(tmp_path: Path) -> None:
    """Four steps that began with eight batches would be free."""
    came = walked(tmp_path, "workers=2", [0, 1] * 4, steps=4, dataset=Samples(sample_s=0.01), num_workers=1, prefetch_factor=8)

    assert came.step_ns(AS_IS) > 36e6


@pytest.mark.slow
def test_the_own_workers_rest_through_changes_of_epoch_while_another_loader_is_asked(tmp_path: Path) -> None:
    started: list[int] = []

    class Counted(DataLoader[Any]):
        def __iter__(self) -> Any:
            iterator = super().__iter__()
            started.append(iterator._workers[0].pid)
            return iterator

    made = Counted(Samples(48), batch_size=4, num_workers=1)
    came = walk(tmp_path / "r", plan_of(["workers=2"], [1], steps=60), lambda script: script.train(made), lead_in=20)

    assert came.done
    epochs = came.effect()[1]["epoch_changes"]
    assert epochs >= 5
    # While the second one began that many epochs, the own one had the same worker.
    assert len(started) - len(set(started)) >= epochs - 1


@pytest.mark.slow
def test_persistent_workers_stay_and_the_own_ones_are_started_anew(tmp_path: Path) -> None:
    made = DataLoader(Makers(), batch_size=4, sampler=range(48), num_workers=2)
    came = walk(tmp_path / "r", plan_of(["persistent-workers"], [0, 1], steps=60), lambda script: script.train(made, keep=True))

    makers = [{float(batch[0, 1]) for batch in came.given(arm)} for arm in (0, 1)]
    # Two workers for five epochs and more, and two for each of so many.
    assert len(makers[1]) == 2
    assert len(makers[0]) >= 8
    effect, facts = came.effect()
    # A batch is no change: between two epochs the loader is like the own one.
    assert effect == facts["epoch_changes"] >= 4


def test_a_worker_that_fails_in_the_middle_ends_its_arm_and_not_the_script(tmp_path: Path) -> None:
    came = walked(tmp_path, "workers=3", [0, 1, 0, 1, 0], steps=20, dataset=Makers(fails_from=60), num_workers=1)

    assert came.became() == ["ready", "failed"]
    assert came.reason() == "RuntimeError: ValueError: no such sample"
    assert workers_seen(came, AS_IS) == {1.0}


@pytest.mark.slow
def test_a_worker_that_dies_in_the_middle_ends_its_arm_and_not_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt, "LONGEST_S", 1.0)
    monkeypatch.setattr(rebuilt, "LONGEST_TIMES", 0)

    came = walked(tmp_path, "workers=3", [0, 1, 0], steps=20, dataset=Makers(fails_from=60, how="die"), num_workers=1)

    assert came.became() == ["ready", "failed"]


@pytest.mark.slow
def test_a_worker_that_dies_while_it_rests_ends_its_arm_and_not_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch raises the death of any worker that it knows of in the main thread, wherever that is."""
    monkeypatch.setattr(rebuilt, "LONGEST_S", 1.0)
    monkeypatch.setattr(rebuilt, "LONGEST_TIMES", 0)
    theirs: set[int] = set()

    def train(script: Script) -> None:
        for batch in made:
            workers, pid = (int(number) for number in batch[0, :2])
            if workers == 3:
                theirs.add(pid)
            elif theirs:
                os.kill(theirs.pop(), signal.SIGKILL)
                theirs.clear()
            if not script.step(batch, 0.002):
                return

    made = loader(Makers(), num_workers=1)
    came = walk(tmp_path / "r", plan_of(["workers=3"], [1, 0, 1, 0], steps=20), train)

    assert came.done
    assert came.faults == {}
    assert came.became() == ["ready", "effect", "failed"]


@pytest.mark.slow
def test_workers_that_fail_from_the_first_batch_on_are_never_asked(tmp_path: Path) -> None:
    came = walked(tmp_path, "workers=3", [0, 1, 0], dataset=Makers(fails_from=0), num_workers=1)

    assert came.became() == ["not applicable"]
    assert came.reason() == "its first batch fails: ValueError: no such sample"


@pytest.mark.slow
def test_workers_that_cannot_be_started_a_second_time_are_refused(tmp_path: Path) -> None:
    samples = Samples()
    made = loader(samples, num_workers=1, multiprocessing_context="spawn")

    def train(script: Script) -> None:
        for batch in made:
            # Opened when the workers have their copy already.
            samples.lock = threading.Lock()  # type: ignore[attr-defined]
            if not script.step(batch):
                return

    came = walk(tmp_path / "r", plan_of(["workers=2"], [0, 1, 0]), train)

    assert came.done
    assert came.became() == ["not applicable"]
    assert "cannot be started a second time" in came.reason()
    assert "pickle" in came.reason()


def test_workers_are_not_started_where_that_would_run_the_script_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multiprocessing, "get_start_method", lambda allow_none=False: "spawn")

    came = walked(tmp_path, "workers=2", [0, 1, 0], num_workers=0)

    assert came.reason() == "workers would be started by 'spawn', which runs the script again where it does not expect it"


@pytest.mark.parametrize(
    ("room", "reason"),
    few([("shared_free_bytes", "MiB of shared memory"), ("memory_free_bytes", "workers need")], every=2),
    ids=["shared", "ordinary"],
)
def test_a_second_loader_needs_room(room: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rebuilt, room, lambda: 100)

    came = walked(tmp_path, "workers=2", [0, 1, 0], num_workers=1)

    assert came.became() == ["not applicable"]
    assert reason in came.reason()


@pytest.mark.parametrize(
    ("lever", "workers", "reason"),
    few(
        [
            ("workers=2", 2, "the loader has 2 workers already"),
            ("workers=1", 1, "the loader has 1 worker already"),
            ("prefetch=2", 1, "each worker makes 2 batches ahead already"),
            ("prefetch=2", 0, "the loader has no workers"),
            ("persistent-workers", 0, "the loader has no workers"),
            ("persistent-workers", 1, "no change of epoch was seen, and workers are started at those only"),
            ("pin-memory", 1, "there is no accelerator that memory could be pinned for"),
        ],
        every=3,
    ),
)
def test_a_lever_without_a_meaning_is_refused(
    lever: str, workers: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)

    came = walked(tmp_path, lever, [0, 1, 0], num_workers=workers)

    assert came.became() == ["not applicable"]
    assert came.reason() == reason


@pytest.mark.parametrize("lever", few(["workers", "workers=two", "workers=-1", "prefetch=0"], every=4))
def test_a_number_that_cannot_be_meant_is_said(lever: str, tmp_path: Path) -> None:
    came = walked(tmp_path, lever, [0, 1, 0], num_workers=1)

    assert came.became() == ["failed"]
    assert "takes a whole number of at least" in came.reason()


@pytest.mark.slow
def test_memory_is_pinned_already(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = loader(num_workers=1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    made.pin_memory = True
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("mps"))

    with pytest.warns(UserWarning, match="MPS"):
        came = walk(tmp_path / "r", plan_of(["pin-memory"], [0, 1, 0]), lambda script: script.train(made))

    assert came.reason() == "the loader pins its batches already"


def test_iterators_of_a_loaders_own_are_refused(tmp_path: Path) -> None:
    class OwnIterators(DataLoader[Any]):
        def _get_iterator(self) -> Any:
            return super()._get_iterator()

    came = walk(tmp_path / "r", plan_of(["workers=1"], [0, 1, 0]), lambda script: script.train(OwnIterators(Samples(), batch_size=4)))

    assert came.reason() == "OwnIterators makes iterators of its own"


def test_a_sampler_that_can_be_read_once_is_refused(tmp_path: Path) -> None:
    made = DataLoader(Samples(), batch_size=4, sampler=iter(range(4000)))

    came = walk(tmp_path / "r", plan_of(["workers=1"], [0, 1, 0]), lambda script: script.train(made))

    assert came.reason() == "its sampler, a range_iterator, is an iterator and can be read once only"


@pytest.mark.slow
def test_a_lever_can_be_asked_for_once_in_an_arm(tmp_path: Path) -> None:
    came = walk(
        tmp_path / "r", plan_of([("workers=2", "mock-loader")], [0, 1, 0, 1, 0]), lambda script: script.train(loader(num_workers=1))
    )

    assert came.done
    assert came.became() == ["ready", "failed"]
    assert came.reason() == "RuntimeError: two levers of one arm give the training its input"


def test_a_loader_is_built_again_without_its_constructor() -> None:
    class Strict(DataLoader[Any]):
        def __init__(self, *, must: int) -> None:
            super().__init__(Samples(), batch_size=4, num_workers=2, sampler=SequentialSampler(Samples()), timeout=3)
            self.must = must

    made = Strict(must=3)
    second = again(made, num_workers=0)

    assert (type(second), second.must, second.batch_size, second.dataset) == (Strict, 3, 4, made.dataset)
    assert (second.num_workers, second.prefetch_factor, second.timeout) == (0, None, 0)
    assert (made.num_workers, made.prefetch_factor, made.timeout) == (2, 2, 3)
    assert len(list(second)) == 1024


def test_all_levers_of_input_say_what_they_change() -> None:
    changes = {name: lever.changes for name, lever in known_levers().items() if name in INPUT}

    assert set(changes) == INPUT
    assert all(ORDER in changed for changed in changes.values())
    assert {name for name, changed in changes.items() if DEMAND in changed} == {"workers", "pin-memory", "batch-size"}
    assert {name for name, changed in changes.items() if NUMERICS in changed} == {"batch-size"}


@pytest.mark.parametrize("name", sorted(INPUT))
def test_each_is_explained_in_the_fixed_form(name: str) -> None:
    text = importlib.import_module(f"slowstep.levers.{name.replace('-', '_')}").__doc__ or ""

    headings = [line.removesuffix(":") for line in text.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings == ["What it changes", "What it answers", "When it has no meaning", "How it is undone"]


class Stubborn(DataLoader[torch.Tensor]):
    """Always says that it has one worker."""

    num_workers = property(lambda self: 1, lambda self, value: None)  # type: ignore[assignment]


def test_a_loader_that_was_just_built_is_changed_in_place_or_not_at_all() -> None:
    plain, stubborn = loader(dataset=Makers()), Stubborn(Makers())
    before = dict(stubborn.__dict__)
    assert WORKERS.build is not None

    assert WORKERS.build(plain, LeverSpec(name="workers", value="2"))["workers"] == plain.num_workers == 2
    assert plain.prefetch_factor == 2
    with pytest.raises(NotApplicable, match="Stubborn keeps its num_workers in a way of its own"):
        WORKERS.build(stubborn, LeverSpec(name="workers", value="2"))
    assert stubborn.__dict__ == before


class Whole(IterableDataset[torch.Tensor]):
    """Each worker gives all of it."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.zeros(40, 4))


@pytest.mark.parametrize(("now", "then", "is_tried"), [(0, 1, True), (1, 0, True), (0, 2, False), (1, 2, False), (2, 1, False)])
def test_workers_that_would_give_other_samples_are_not_tried(now: int, then: int, is_tried: bool) -> None:
    assert WORKERS.build is not None
    build, spec = partial(WORKERS.build, DataLoader(Whole(), batch_size=4, num_workers=now)), LeverSpec(name="workers", value=str(then))

    if is_tried:
        assert build(spec)["workers"] == then
    else:
        with pytest.raises(NotApplicable, match="nothing in the code of Whole asks"):
            build(spec)


def test_levers_that_only_need_other_arguments_act_where_a_loader_is_built() -> None:
    builds = set(filter(can_build, known_levers()))

    assert builds == {"workers", "prefetch", "pin-memory", "persistent-workers", "batch-size"}
