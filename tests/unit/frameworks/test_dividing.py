"""Whether a stream gives each worker other samples, by its code."""

from __future__ import annotations

import multiprocessing
import queue
import random
import random as chance
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from random import choice
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar
from uuid import uuid4
from uuid import uuid4 as identifier

import numpy as np
import numpy.random as numbers_of_numpy
import polars
import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, SequentialSampler, SubsetRandomSampler, get_worker_info

from slowstep.frameworks.torch.inside._answers import dividing
from slowstep.frameworks.torch.inside._answers.dividing import Division, divides, division_of


class Whole(IterableDataset[int]):
    """Each worker gives all."""

    def __iter__(self) -> Iterator[int]:
        yield from range(8)


class ByInfo(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        yield from range(0 if info is None else info.id, 8, 1 if info is None else info.num_workers)


def part(numbers: range) -> list[int]:
    info = get_worker_info()
    return [number for number in numbers if info is None or number % info.num_workers == info.id]


class ByFunction(IterableDataset[int]):
    """In what a function of the script's does for it."""

    def __iter__(self) -> Iterator[int]:
        return iter(part(range(8)))


class Heir(ByInfo):
    def augment(self, number: int) -> int:
        return number


class Around(IterableDataset[int]):
    """What it wraps divides, or nobody does."""

    def __init__(self, *inner: IterableDataset[int]) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        for inner in self.inner:
            yield from inner


class Held(IterableDataset[int]):
    """With a function that it was given."""

    def __init__(self, cut: Callable[[range], Any]) -> None:
        self.cut = cut

    def __iter__(self) -> Iterator[int]:
        return iter(self.cut(range(8)))


class Hostile(Whole):
    """Whose attributes and properties nobody may ask."""

    @property
    def info(self) -> int:
        raise AssertionError

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError(name)


class Cutter:
    def cut(self, numbers: range) -> list[int]:
        return part(numbers)


class Slotted:
    __slots__ = ("cut",)

    def __init__(self, cut: Callable[[range], Any]) -> None:
        self.cut = cut

    def __call__(self, numbers: range) -> Any:
        return self.cut(numbers)


class InClass(IterableDataset[int]):
    cuts: ClassVar = [part]

    def __iter__(self) -> Iterator[int]:
        return iter(self.cuts[0](range(8)))


class ByStaticMethod(IterableDataset[int]):
    @staticmethod
    def cut(numbers: range) -> list[int]:
        return part(numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.cut(range(8)))


class ByClassMethod(IterableDataset[int]):
    @classmethod
    def cut(cls, numbers: range) -> list[int]:
        return part(numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self.cut(range(8)))


class ByProperty(IterableDataset[int]):
    @property
    def own(self) -> list[int]:
        return part(range(8))

    def __iter__(self) -> Iterator[int]:
        return iter(self.own)


class ByUnboundPartial(IterableDataset[int]):
    """What its class holds, and does not bind, is no function."""

    cut = staticmethod(partial(part))

    def __iter__(self) -> Iterator[int]:
        return iter(self.cut(range(8)))


TABLE = {"cut": part}


class ByTable(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(TABLE["cut"](range(8)))


class Served(IterableDataset[int]):
    """What all workers share gives each sample once."""

    def __init__(self, shared: Any) -> None:
        self.shared = shared

    def __iter__(self) -> Iterator[int]:
        return iter(self.shared.get, None)


class Drawn(IterableDataset[int]):
    """Windows drawn at random, without an end."""

    def __init__(self, draw: Callable[[], Any]) -> None:
        self.draw = draw

    def __iter__(self) -> Iterator[int]:
        while True:
            yield int(self.draw())


class Drawing(IterableDataset[int]):
    """Which imports what draws where it needs it."""

    def __iter__(self) -> Iterator[int]:
        import random as python_random

        while True:
            yield python_random.randint(0, 9)


class DrawingInClass(IterableDataset[int]):
    """By a function that its class holds, and does not bind."""

    draw = staticmethod(np.random.rand)

    def __iter__(self) -> Iterator[int]:
        yield int(self.draw())


class Noisier(torch.nn.Dropout):
    """Which leaves the drawing to what it is built on."""


class Shuffled(ByInfo):
    def __iter__(self) -> Iterator[int]:
        yield from random.sample(list(super().__iter__()), 4)


def by_python() -> int:
    return random.choice([1, 2])


def by_torch() -> int:
    return int(torch.randint(9, ()))


def by_numpy() -> int:
    return int(np.random.choice([1, 2]))


def by_python_of_another_name() -> int:
    return int(chance.choice([1, 2]))


def by_numpy_of_another_name() -> int:
    return int(numbers_of_numpy.uniform())


def by_identifier() -> int:
    return int(identifier().int)


def by_normal() -> int:
    return int(torch.normal(0.0, 1.0, (1,)))


def by_poisson() -> int:
    return int(torch.poisson(torch.ones(1)))


def by_cauchy() -> int:
    return int(torch.empty(1).cauchy_())


def by_geometric() -> int:
    return int(torch.empty(1).geometric_(0.5))


def by_log_normal() -> int:
    return int(torch.empty(1).log_normal_())


def later(draw: Callable[[], Any]) -> Callable[[], Any]:
    return lambda: draw()


NORMAL: Any = SimpleNamespace(rvs=int)


def by_distribution() -> int:
    return int(torch.distributions.Poisson(1.0).sample())


def by_scipy() -> int:
    return int(NORMAL.rvs())


class FromTable(IterableDataset[int]):
    """Rows of a table, drawn."""

    def __init__(self) -> None:
        self.table = polars.DataFrame({"a": [1, 2]})

    def __iter__(self) -> Iterator[int]:
        yield from (lambda: self.table.sample(n=1)["a"])()


class Sampled(IterableDataset[int]):
    """What it calls a sample is one of its own, in order."""

    def __iter__(self) -> Iterator[int]:
        for number in range(8):
            yield from (self.sample(each) for each in (number,))
            yield self.sample(number)

    def sample(self, number: int) -> int:
        return number


DRAWS = {
    "by torch's normal": Drawn(by_normal),
    "by torch's poisson": Drawn(by_poisson),
    "in place, cauchy": Drawn(by_cauchy),
    "in place, geometric": Drawn(by_geometric),
    "in place, log normal": Drawn(by_log_normal),
    "by a distribution": Drawn(by_distribution),
    "by a distribution that it holds": Drawn(torch.distributions.Poisson(1.0).sample),
    "by a distribution of SciPy's": Drawn(by_scipy),
    "by torch's own function": Drawn(partial(torch.poisson, torch.ones(1))),
    "by a table's rows": FromTable(),
    "by a table's method": Drawn(partial(polars.DataFrame({"a": [1]}).sample, 1)),
    "by Python": Drawn(by_python),
    "by its function": Drawn(partial(choice, [1, 2])),
    "by torch": Drawn(by_torch),
    "by numpy": Drawn(by_numpy),
    "by numpy's function": Drawn(partial(np.random.choice, 9)),
    "by a generator that it holds": Drawn(partial(max, random.Random(0))),
    "by numpy's generator": Drawn(np.random.default_rng(0).normal),
    "by torch's generator": Drawn(partial(max, torch.Generator())),
    "by what it imports itself": Drawing(),
    "by Python, under another name": Drawn(by_python_of_another_name),
    "by numpy, under another name": Drawn(by_numpy_of_another_name),
    "by a library's function, under another name": Drawn(by_identifier),
    "by Python's function that it holds": Drawn(random.random),
    "by numpy's function that it holds": Drawn(np.random.rand),
    "by a function of a library that it holds": Drawn(uuid4),
    "by a function of a library that a closure holds": Drawn(later(uuid4)),
    "by secrets": Drawn(partial(secrets.randbelow, 9)),
    "by what makes a generator": Drawn(np.random.default_rng),
    "by a class of generators": Drawn(random.Random),
    "by a module that it holds": Drawn(np.random),  # type: ignore[arg-type]
    "by a method of tensors": Drawn(partial(torch.Tensor.uniform_, torch.empty(1))),
    "by a function of its class": DrawingInClass(),
    "by a sampler": Drawn(RandomSampler(range(9))),
    "by a sampler of chosen rows": Drawn(SubsetRandomSampler([1, 2])),
    "by a sampler in a loader": Drawn(DataLoader(range(9), shuffle=True)),
    "by a class of samplers": Drawn(RandomSampler),
    "by a layer": Drawn(torch.nn.Dropout(0.1)),
    "by a layer in a model": Drawn(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.RReLU()))),
    "by what a layer of the script's is built on": Drawn(Noisier()),
    "by attention": Drawn(torch.nn.MultiheadAttention(4, 2, dropout=0.1)),
    "by a recurrent layer": Drawn(torch.nn.LSTM(2, 2, num_layers=2, dropout=0.1)),
    "by attention within a model": Drawn(torch.nn.Sequential(torch.nn.MultiheadAttention(4, 2, dropout=0.1))),
}


def written(body: str, **known: Any) -> Callable[[range], Any]:
    """A function of the script's that cuts a range, made of this line."""
    made: dict[str, Any] = {**known}
    exec(compile(f"def cut(numbers):\n {body}\n return numbers", "train.py", "exec"), made)
    function: Callable[[range], Any] = made["cut"]
    return function


def module(file: str) -> ModuleType:
    """One that a script imports, with a function that asks for its worker."""
    made = ModuleType("mine")
    made.__file__ = file
    made.cut_by_worker = part  # type: ignore[attr-defined]
    return made


began = iter(Whole())


def deep(levels: int) -> Callable[[range], Any]:
    return closed(deep(levels - 1)) if levels else part


def closed(cut: Callable[[range], Any]) -> Callable[[range], Any]:
    return lambda numbers: cut(numbers)


@pytest.mark.parametrize(
    "stream",
    [
        ByInfo(),
        ByFunction(),
        Heir(),
        Around(Whole(), ByInfo()),
        Around(Around(ByFunction())),
        Held(part),
        Held(closed(part)),
        Held(partial(part)),
        Held(Cutter().cut),
        Held({"a": Cutter()}["a"].cut),
        Held(Slotted(part)),
        InClass(),
        ByStaticMethod(),
        ByClassMethod(),
        ByProperty(),
        ByUnboundPartial(),
        ByTable(),
    ],
    ids=[
        "itself",
        "by a function",
        "as its base",
        "one of two that it wraps",
        "deep in it",
        "given a function",
        "given a closure",
        "a partial",
        "a bound method",
        "of a table",
        "in a slot",
        "in its class",
        "in a static method",
        "in a class method",
        "in a property",
        "a partial in its class",
        "by a global table",
    ],
)
def test_a_stream_divides_where_code_that_it_reaches_asks_for_the_worker(stream: Any) -> None:
    assert divides(stream) is True
    shared = sorted(int(number) for number in DataLoader(stream, num_workers=2, batch_size=None) if stream.__class__ is not Around)
    assert shared in ([], list(range(8)))


@pytest.mark.parametrize("stream", [Whole(), Around(Whole()), Held(list)], ids=["plain", "wrapping one", "given a type"])
def test_a_stream_of_the_scripts_that_nothing_tells_of_workers_gives_all_to_each(stream: Any) -> None:
    assert divides(stream) is False


@pytest.mark.parametrize(
    "line",
    [
        "from torch.utils.data import get_worker_info as which",
        "which = torch.utils.data._utils.worker._worker_info",
        "which = wds.utils.pytorch_worker_info()",
        "numbers = wds.split_by_worker(numbers)",
        "numbers = pipe.sharding_filter(numbers)",
        "which = numbers.worker_id",
    ],
)
def test_it_may_ask_in_any_of_these_ways(line: str) -> None:
    assert divides(Held(written(line))) is True


def test_what_a_module_of_the_scripts_does_is_looked_at_and_a_librarys_is_not() -> None:
    line = "numbers = mine.cut_by_worker(numbers)"

    assert divides(Held(written(line, mine=module("/home/me/mine.py")))) is True
    assert divides(Held(written(line, mine=module("/usr/lib/python3/site-packages/mine.py")))) is False


@pytest.mark.parametrize(
    "line",
    [
        "which = os.environ['RANK']",
        "which = os.getenv('RANK')",
        "which = os.getpid()",
        "numbers = tasks.get_nowait()",
        "numbers = pipe.recv()",
        "numbers = urlopen('http://localhost')",
        "numbers = database.connect()",
        "numbers = socket.socket()",
        "f = [" + "lambda: 0, " * 400 + "]",
    ],
)
def test_what_may_tell_workers_apart_otherwise_or_is_too_much_code_leaves_it_open(line: str) -> None:
    assert division_of(Held(written(line))) == Division(None)


def test_a_closure_whose_variable_has_no_value_yet_holds_nothing() -> None:
    def cut(numbers: range) -> Any:
        return unset(numbers)

    assert divides(Held(cut)) is False
    unset: Any = list


def test_a_generator_that_has_begun_may_do_anything() -> None:
    assert divides(Held(lambda numbers: began)) is None


@pytest.mark.parametrize(("count", "known"), [(50, False), (51, None)])
def test_as_many_streams_are_looked_at_within_one(count: int, known: bool | None) -> None:
    assert divides(Around(*(Whole() for _ in range(count)))) is known


class Net(torch.nn.Module):
    """A model of the script's."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, numbers: Any) -> Any:
        return self.inner(numbers)


def nested(levels: int, around: Callable[[torch.nn.Module], torch.nn.Module], innermost: torch.nn.Module) -> torch.nn.Module:
    return around(nested(levels - 1, around, innermost)) if levels else innermost


@pytest.mark.parametrize("around", [Net, torch.nn.Sequential], ids=["the script's", "torch's"])
@pytest.mark.parametrize("levels", [3, 12])
def test_layers_may_be_nested_in_the_model_that_a_stream_holds(levels: int, around: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
    assert division_of(Held(nested(levels, around, torch.nn.Linear(2, 2)))) == Division(False)
    assert division_of(Held(nested(levels, around, torch.nn.Dropout()))) == Division(None, draws=True)


def test_a_model_of_many_layers_is_not_looked_at_to_its_end() -> None:
    rows = (torch.nn.Sequential(*(torch.nn.ReLU() for _ in range(40))) for _ in range(11))

    assert division_of(Held(torch.nn.Sequential(*rows))) == Division(None)


def test_nothing_of_a_stream_is_asked_or_called() -> None:
    assert divides(Hostile()) is False


@pytest.mark.parametrize(
    "stream",
    [
        Served(multiprocessing.get_context("fork").Queue()),
        Served(multiprocessing.get_context("fork").Value("i", 0)),
        Served(multiprocessing.get_context("fork").RawValue("i", 0)),
        Served(queue.Queue()),
        Held(deep(8)),
    ],
    ids=["a queue", "a number", "a number without a lock", "a queue of threads", "too deep"],
)
def test_of_what_workers_share_and_of_what_is_too_much_to_look_at_nothing_is_known(stream: Any) -> None:
    assert divides(stream) is None


@pytest.mark.parametrize("stream", DRAWS.values(), ids=DRAWS)
def test_of_a_stream_that_draws_at_random_it_is_not_known(stream: Any) -> None:
    found = division_of(stream)

    assert (found.divides, found.draws) == (None, True)
    assert divides(stream) is None


def test_a_stream_that_draws_and_asks_for_its_worker_divides() -> None:
    assert division_of(Shuffled()) == Division(True)


@pytest.mark.parametrize(
    "stream",
    [Whole(), Around(Whole()), Held(list), Held(np.add), Held(torch.arange), Served([]), Sampled(), Served(polars.DataFrame({"a": [1]}))],
    ids=["plain", "wrapping one", "given a type", "numpy's", "torch's", "given a list", "with a sample of its own", "given a table"],
)
def test_what_only_counts_draws_nothing(stream: Any) -> None:
    assert division_of(stream) == Division(False)


@pytest.mark.parametrize(
    "held",
    [
        SequentialSampler(range(9)),
        torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()),
        np.ones(3),
        torch.nn.LSTM(2, 2),
        torch.nn.MultiheadAttention(4, 2),
        polars.DataFrame,
    ],
    ids=[
        "a sampler in order",
        "a model",
        "an array",
        "a recurrent layer without dropout",
        "attention without dropout",
        "a class of tables",
    ],
)
def test_what_a_librarys_object_is_not_held_for_draws_nothing(held: Any) -> None:
    assert not division_of(Drawn(held)).draws


def test_a_stream_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, looked = Whole(), []
    monkeypatch.setattr(dividing, "_Look", lambda thing: looked.append(thing) or SimpleNamespace(asks=True))

    assert [divides(stream), divides(stream), divides(Whole())] == [True] * 3
    assert len(looked) == 2


def test_long_lists_of_paths_and_frames_of_libraries_hide_nothing() -> None:
    stream = Around(Whole())
    stream.__dict__ |= {"paths": ["a"] * 1000, "table": polars.DataFrame({"a": [1]})}

    assert divides(stream) is False


def test_what_is_done_as_a_worker_starts_may_divide_it() -> None:
    assert divides(Whole(), start_worker=lambda number: None) is None


def test_of_a_librarys_stream_that_does_not_tell_nothing_is_known() -> None:
    assert divides(torch.utils.data.ChainDataset([])) is None
