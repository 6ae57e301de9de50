"""FakeBatches: the shapes, types and values that were asked for, the same again or anew."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from slowstep import data
from slowstep.data import FakeBatches


def test_a_batch_has_the_shapes_and_types_that_were_asked_for():
    batches = FakeBatches([(4, 3, 8, 8), (4,)], ["float16", "int64"], length=3)

    images, labels = next(iter(batches))

    assert (tuple(images.shape), images.dtype) == ((4, 3, 8, 8), torch.float16)
    assert (tuple(labels.shape), labels.dtype) == ((4,), torch.int64)


def test_it_has_a_length_and_can_be_read_again():
    batches = FakeBatches([(2,)], length=3)

    assert len(batches) == 3
    assert len(list(batches)) == 3
    assert len(list(batches)) == 3


def test_constant_batches_are_the_same_arrays_in_lists_of_their_own():
    first, second = FakeBatches([(2,)], length=2)

    assert first is not second
    assert first[0] is second[0]


def test_random_batches_differ_and_are_the_same_in_the_next_epoch():
    batches = FakeBatches([(16,)], random=True, length=2)

    first, second = (batch[0] for batch in batches)
    again = next(iter(batches))[0]

    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_values_lie_in_the_domain_of_their_array():
    images, labels = next(iter(FakeBatches([(1000,), (1000,)], ["float32", "int64"], domain=[(-1, 1), (0, 10)])))

    assert -1 <= float(images.min()) < -0.9
    assert 0.9 < float(images.max()) < 1
    assert sorted(set(labels.tolist())) == list(range(10))


def test_the_random_numbers_of_the_script_stay_as_they_are():
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)

    list(FakeBatches([(5,)], random=True, length=2))

    assert torch.equal(torch.rand(3), expected)


def test_without_torch_they_are_arrays_of_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    images, labels = next(iter(FakeBatches([(4, 2), (4,)], ["float32", "int64"], domain=[(0, 1), (3, 5)])))

    assert isinstance(images, np.ndarray)
    assert (images.shape, images.dtype, labels.dtype) == ((4, 2), np.float32, np.int64)
    assert set(labels.tolist()) <= {3, 4}


@pytest.mark.parametrize("without_torch", [False, True])
@pytest.mark.parametrize(
    ("dtype", "domain", "message"),
    [
        ("uint8", (0, 300), "dtype 'uint8' holds 0 to 255"),
        ("uint8", (-5, 3), "dtype 'uint8' holds 0 to 255"),
        ("bool", (0, 3), "dtype 'bool' holds 0 to 1"),
        ("float16", (0, 1e6), r"dtype 'float16' holds -65504\.0 to 65504\.0"),
        ("int64", (0.5, 0.7), "no whole number lies in it"),
    ],
)
def test_values_that_the_type_cannot_hold_are_refused(dtype, domain, message, without_torch, monkeypatch):
    if without_torch:
        monkeypatch.setitem(sys.modules, "torch", None)

    with pytest.raises(ValueError, match=message):
        FakeBatches([(4,)], dtype, domain=domain)


@pytest.mark.parametrize("without_torch", [False, True])
@pytest.mark.parametrize(
    ("dtype", "domain"),
    [("uint8", (0, 256)), ("bool", (0, 2)), ("int8", (2.5, 3.5)), ("int64", (0, 0)), ("float32", (-3e38, 3e38)), ("float64", (0, 1e300))],
)
def test_values_up_to_the_ends_of_the_type_lie_in_their_domain(dtype, domain, without_torch, monkeypatch):
    if without_torch:
        monkeypatch.setitem(sys.modules, "torch", None)

    (values,) = FakeBatches([(99,)], dtype, domain=domain, random=True)[0]

    assert all(domain[0] <= value <= domain[1] for value in values.tolist())


@pytest.mark.parametrize("number", [3, -4])
def test_a_number_beyond_the_last_batch_is_said(number):
    with pytest.raises(IndexError, match=f"There is no batch {number}: there are 3"):
        FakeBatches([(4,)], length=3)[number]


def test_without_either_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.setitem(sys.modules, "numpy", None)

    with pytest.raises(ImportError, match="pip install numpy"):
        FakeBatches([(4,)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shapes": [(4,)], "dtypes": ["float32", "int64"]}, "1 shapes, 2 dtypes"),
        ({"shapes": [(4,), (2,)], "domain": [(0, 1)]}, "2 shapes, 2 dtypes, 1 domains"),
        ({"shapes": [(4,)], "length": -1}, "length=-1"),
        ({"shapes": [(-1, 3)]}, r"shape \(-1, 3\): give its sizes, the batch size among them, in whole numbers, 0 or more"),
        ({"shapes": [(4,)], "domain": (10, 0)}, r"domain=\(10, 0\): give two finite numbers, and the lower one first"),
        ({"shapes": [(4,)], "domain": (0, float("nan"))}, "give two finite numbers"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FakeBatches(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shapes": (64, 3)}, "give a list with one shape for each array"),
        ({"shapes": 4}, "give a list with one shape for each array"),
        ({"shapes": "abc"}, "give a list with one shape for each array"),
        ({"shapes": ["ab"]}, "give a list with one shape for each array"),
        ({"shapes": [(None, 3)]}, r"shape \(None, 3\): give its sizes"),
        ({"shapes": [(2.5, 3)]}, r"shape \(2.5, 3\): give its sizes"),
        ({"shapes": [(4,)], "dtypes": "float23"}, "dtype 'float23' is none of torch's"),
        ({"shapes": [(4,)], "dtypes": [None]}, "dtype None is none of torch's"),
        ({"shapes": [(4,)], "dtypes": [5]}, "dtype 5 is none of torch's"),
        ({"shapes": [(4,)], "dtypes": "quint8"}, "no array of dtype 'quint8' can be made"),
        ({"shapes": [(4,)], "domain": ()}, r"domain=\(\): give \(low, high\)"),
        ({"shapes": [(4,)], "domain": 5}, r"domain=5: give \(low, high\)"),
        ({"shapes": [(4,)], "domain": (0, 1, 2)}, r"domain=\(0, 1, 2\): give \(low, high\)"),
        ({"shapes": [(4,)], "domain": ("a", "b")}, r"give \(low, high\)"),
        ({"shapes": [(4,)], "length": None}, "length=None: give how many batches there are in whole numbers"),
        ({"shapes": [(4,)], "length": 2.5}, "length=2.5: give how many"),
    ],
)
def test_what_is_none_of_its_kind_is_refused_where_it_was_said(arguments, message):
    with pytest.raises(TypeError, match=message):
        FakeBatches(**arguments)


@pytest.mark.parametrize("dtype", ["float16", "torch.float16", torch.float16, np.float16, np.dtype("float16")])
def test_types_are_given_as_torch_has_them_or_as_numpy_does(dtype, monkeypatch):
    assert next(iter(FakeBatches([(2,)], dtype)))[0].dtype == torch.float16
    assert next(iter(FakeBatches([(2,), (2,)], [dtype, "int64"])))[0].dtype == torch.float16

    if not isinstance(dtype, torch.dtype):
        monkeypatch.setitem(sys.modules, "torch", None)
        assert next(iter(FakeBatches([(2,)], dtype)))[0].dtype == np.float16


def test_types_of_python_are_what_numpy_takes_them_for():
    made = next(iter(FakeBatches([(2,), (2,), (2,)], [float, int, bool])))

    assert [each.dtype for each in made] == [torch.float64, torch.int64, torch.bool]


@pytest.mark.parametrize("random", [False, True])
def test_it_can_be_pickled_and_gives_the_same_batches_then(random):
    batches = FakeBatches([(64,)], random=random, length=3)
    before = [batch[0] for batch in batches]

    pickled = pickle.dumps(batches)

    again = [batch[0] for batch in pickle.loads(pickled)]
    assert all(torch.equal(one, other) for one, other in zip(before, again, strict=True))
    assert len(pickled) < 1000


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_of_torch_takes_it_as_it_is(workers):
    batches = FakeBatches([(4, 2), (4,)], ["float32", "int64"], random=True, length=5)

    loaded = list(DataLoader(batches, batch_size=None, num_workers=workers))

    assert [[tuple(array.shape) for array in batch] for batch in loaded] == [[(4, 2), (4,)]] * 5
    assert all(torch.equal(mine[0], its[0]) for mine, its in zip(batches, loaded, strict=True))


@pytest.mark.parametrize("random", [False, True])
def test_a_batch_is_the_same_by_its_number_as_in_turn(random):
    batches = FakeBatches([(16,)], random=random, length=3)

    assert all(torch.equal(batches[number][0], batch[0]) for number, batch in enumerate(batches))
    assert torch.equal(batches[-1][0], batches[2][0])
    with pytest.raises(IndexError):
        batches[3]


def test_it_is_reached_by_its_package_and_brings_nothing_heavy_along():
    probe = "import sys, slowstep; slowstep.data.FakeBatches; print([name for name in ('torch', 'numpy') if name in sys.modules])"

    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=False)

    assert done.stdout.strip() == "[]", done.stderr
    assert data.__all__ == ["FakeBatches"]
