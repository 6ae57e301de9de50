"""Seeds are shifted wherever the script sets them, and the order of the data does not depend on what the model draws."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from levered import run_always
from recorded import Ran, Server, make_folder
from slowstep.record.injection.inject import injected_environment, write_injection
from slowstep.record.writing import format as fmt

pytest.importorskip("torch")


def shifted(server: Server, place: Path, text: str, offset: int | None) -> Ran:
    """Run a script with an offset to its seeds; None leaves them as they are."""
    folder = place / f"{offset}"
    folder.mkdir()
    ran = run_always(server, folder, text, **({} if offset is None else {fmt.ENV_SEEDS: str(offset)}))
    assert (ran.code, ran.err) == (0, "")
    return ran


SEEDING = """
import random
import numpy
import torch
seeds = {seeds}
torch.manual_seed(seeds[0])
print(torch.rand(2).tolist())
torch.random.manual_seed(seed=seeds[0])
print(torch.rand(2).tolist())
random.seed(seeds[1])
print(random.random())
random.seed(a=float(seeds[1]))
print(random.random())
numpy.random.seed(seeds[2])
print(numpy.random.rand())
numpy.random.seed(seed=numpy.int64(seeds[2]))
print(numpy.random.rand())
"""


def test_what_the_script_seeds_is_shifted_by_the_offset(server: Server, tmp_path: Path) -> None:
    as_they_are = shifted(server, tmp_path, SEEDING.format(seeds=(5, 6, 2**32 - 3)), 0)
    by_seven = shifted(server, tmp_path, SEEDING.format(seeds=(5, 6, 2**32 - 3)), 7)

    (tmp_path / "plain").mkdir()
    plain = shifted(server, tmp_path / "plain", SEEDING.format(seeds=(5, 6, 2**32 - 3)), None)
    (tmp_path / "more").mkdir()
    more = shifted(server, tmp_path / "more", SEEDING.format(seeds=(12, 13, 4)), None)
    assert as_they_are.out == plain.out
    assert by_seven.out == more.out
    assert by_seven.out != plain.out


UNSEEDED = """
import random
import numpy
import torch
print(random.random(), numpy.random.rand(), torch.rand(1).item(), numpy.random.default_rng().random())
random.seed()
numpy.random.seed()
print(random.random(), numpy.random.rand(), torch.seed() == torch.initial_seed(), torch.rand(1).item())
random.seed("text"), random.seed(b"bytes")
print(random.random())
numpy.random.seed([1, 2, 3])
print(numpy.random.rand())
"""


@pytest.mark.slow
def test_a_script_without_seeds_repeats_itself_and_differs_with_another_offset(server: Server, tmp_path: Path) -> None:
    one, other = (shifted(server, tmp_path, UNSEEDED, offset).out.splitlines() for offset in (0, 3))
    (tmp_path / "again").mkdir()
    same = shifted(server, tmp_path / "again", UNSEEDED, 0).out.splitlines()
    (tmp_path / "plain").mkdir()
    plain = shifted(server, tmp_path / "plain", UNSEEDED, None).out.splitlines()

    assert one == same
    assert all(mine != theirs for mine, theirs in zip(one, other, strict=True))
    # With no offset only what the system would choose is another.
    assert one[2:] == plain[2:]
    assert one[:2] != plain[:2]


VISIBLE = """
import random
import numpy
import torch

def outcome(act, *args, **kwargs):
    try:
        return act(*args, **kwargs) is None
    except Exception as error:
        return type(error).__name__, str(error)

generator = torch.Generator().manual_seed(4)
print(torch.manual_seed(1) is torch.default_generator, torch.rand(1, generator=generator).item(), random.Random(3).random())
print(numpy.random.default_rng(5).random(), numpy.random.RandomState(5).rand())
print([outcome(torch.manual_seed, seed) for seed in (2**64, "x", None, 2**64 - 1, -(2**63))])
print(outcome(torch.manual_seed), outcome(torch.manual_seed, 1, 2))
print([outcome(numpy.random.seed, seed) for seed in (-1, 2**32, "x", 1.5, [1, -1])])
print([outcome(random.seed, seed) for seed in ([], {}, 3, "x", None)], outcome(random.seed, 1, 2), outcome(random.seed, 1, 2, 3))
print(random.seed.__name__, torch.manual_seed.__doc__[:20], numpy.random.seed.__name__)
"""


@pytest.mark.slow
def test_what_the_functions_return_and_raise_stays_as_it_is(server: Server, tmp_path: Path) -> None:
    plain = shifted(server, tmp_path, VISIBLE, None)

    assert shifted(server, tmp_path, VISIBLE, 11).out == plain.out
    assert shifted(server, tmp_path, VISIBLE, 0).out == plain.out


def test_nothing_is_replaced_where_no_offset_is_given(server: Server, tmp_path: Path) -> None:
    names = """
import random
import numpy
import torch
print([act.__code__.co_filename.rpartition("/")[2] for act in (torch.manual_seed, torch.seed) if hasattr(act, "__code__")])
print(random.seed.__class__.__name__, hasattr(numpy.random.seed, "__wrapped__"), torch.utils.data.DataLoader.__iter__.__code__.co_filename)
"""
    plain, asked = shifted(server, tmp_path, names, None).out, shifted(server, tmp_path, names, 0).out

    assert "seeds.py" not in plain
    assert "\nmethod False " in plain
    assert plain.strip().endswith("inside/dataloader.py")
    assert asked.startswith("['seeds.py', 'seeding.py']\nfunction True ")
    assert asked.strip().endswith("input_stream.py")


# Two epochs; `draw` is what the model draws in a step, `loader` the loader's arguments.
ORDER = """
import random
import numpy
import torch
from torch.utils.data import DataLoader, Dataset, SubsetRandomSampler, WeightedRandomSampler

class Noisy(Dataset):
    def __len__(self):
        return 12
    def __getitem__(self, index):
        return index, torch.rand(1).item(), random.random(), float(numpy.random.rand())

class Shuffled(torch.utils.data.Sampler):
    def __iter__(self):
        order = list(range(12))
        random.shuffle(order)
        yield from order
    def __len__(self):
        return 12

def train():
    torch.manual_seed(3)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Noisy(), batch_size=3, {loader})
    for epoch in range(2):
        for batch in loader:
            model(torch.ones(3, 1)).sum().backward()
            optimizer.step()
            {draw}
            print([part.tolist() for part in batch])

if __name__ == "__main__":
    train()
"""
LESS, MORE = "torch.rand(1)", "torch.rand(5), random.random(), numpy.random.rand(2)"


@pytest.mark.parametrize(
    "loader",
    [
        "shuffle=True",
        pytest.param("sampler=SubsetRandomSampler(range(12))", marks=pytest.mark.slow),
        pytest.param("sampler=WeightedRandomSampler([1.0] * 12, 12)", marks=pytest.mark.slow),
        pytest.param("sampler=Shuffled()", marks=pytest.mark.slow),
        pytest.param("shuffle=True, num_workers=2", marks=pytest.mark.slow),
        pytest.param("shuffle=True, num_workers=1, persistent_workers=True", marks=pytest.mark.slow),
    ],
)
def test_the_data_and_its_order_do_not_depend_on_what_the_model_draws(server: Server, tmp_path: Path, loader: str) -> None:
    (tmp_path / "less").mkdir()
    (tmp_path / "more").mkdir()
    less = shifted(server, tmp_path / "less", ORDER.format(loader=loader, draw=LESS), 5).out
    more = shifted(server, tmp_path / "more", ORDER.format(loader=loader, draw=MORE), 5).out

    assert less == more
    first, second = less.splitlines()[:4], less.splitlines()[4:]
    assert first != second
    assert shifted(server, tmp_path, ORDER.format(loader=loader, draw=LESS), 6).out != less


@pytest.mark.slow
def test_without_a_stream_of_their_own_the_data_of_the_second_epoch_do_depend_on_it(server: Server, tmp_path: Path) -> None:
    (tmp_path / "less").mkdir()
    (tmp_path / "more").mkdir()
    less = shifted(server, tmp_path / "less", ORDER.format(loader="shuffle=True", draw=LESS), None).out
    more = shifted(server, tmp_path / "more", ORDER.format(loader="shuffle=True", draw=MORE), None).out

    assert less != more


@pytest.mark.slow
def test_a_script_that_seeds_its_generators_each_epoch_gets_the_order_of_that_seed(server: Server, tmp_path: Path) -> None:
    text = ORDER.format(loader="shuffle=True", draw="").replace("range(2):", "range(2):\n        torch.manual_seed(9)")
    lines = [line.partition("]")[0] for line in shifted(server, tmp_path, text, 0).out.splitlines()]

    assert lines[:4] == lines[4:]


def started(place: Path, script: Path, offset: str) -> str:
    """What a script writes in a Python of its own, with an offset to its seeds."""
    folder = make_folder(place)
    env = injected_environment(
        os.environ, folder=folder, inject=write_injection(folder), level=1, steps=None, seconds=None, asked={fmt.ENV_SEEDS: offset}
    )
    done = subprocess.run([sys.executable, str(script)], env=env, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.slow
def test_what_is_drawn_before_torch_is_imported_repeats_itself_too(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    lines = ("import random", "files = list(range(9))", "random.shuffle(files)", "import numpy, torch")
    script.write_text("\n".join((*lines, "print(files, numpy.random.rand(), torch.rand(1).item())\n")))

    one, same, other = (started(tmp_path / name, script, offset) for name, offset in (("one", "0"), ("same", "0"), ("other", "1")))

    assert one == same
    assert one.partition("]")[0] != other.partition("]")[0]
    assert set(one.partition("]")[2].split()) & set(other.partition("]")[2].split()) == set()


def test_a_process_that_imports_no_framework_loads_nothing_that_knows_one(tmp_path: Path) -> None:
    script = tmp_path / "fetch.py"
    loaded = '[name for name in sys.modules if name.startswith("slowstep.frameworks")]'
    script.write_text(f'import sys\nprint("slowstep.record.experiment.seeds" in sys.modules, {loaded})\n')

    assert started(tmp_path / "one", script, "7") == "True []\n"


def test_levers_seeds_and_losses_of_a_run_around_this_one_are_none_of_its_own(tmp_path: Path) -> None:
    around = {fmt.ENV_SEEDS: "1", fmt.ENV_LEVERS: "[]", fmt.ENV_LOSSES: "1"}

    env = injected_environment(around, folder="f", inject="i", level=1, steps=None, seconds=None)

    assert env.keys() & around.keys() == set()
