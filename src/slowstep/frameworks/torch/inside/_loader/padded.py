"""Whether the sequences of a batch are filled up to one length: a glance at its whole numbers, rarely, on the thread that trains."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

from slowstep.record.timing.batches import parts_of

_DEEPEST: Final = 4
# Of a batch, which may hold texts beside its arrays.
_MOST_PARTS: Final = 1024
_MOST_ARRAYS: Final = 64
# Sequences whose lengths are written down, and numbers of an array that are looked at. The longest of some rows of a large batch is taken
# for that of all.
_MOST_ROWS: Final = 512
_MOST_NUMBERS: Final = 65_536
# Of all arrays: 0.1 to 0.2 us each, for a training that waits meanwhile (benchmarks/padding_look.py).
_MOST_IN_ALL: Final = 131_072
# Of arrays of one shape that may be masks; many of zeros and ones are features.
_MOST_MASKS: Final = 4
# Shorter rows hold features and no sequence, and of fewer rows it is chance that several end alike.
SHORTEST: Final = 8
FEWEST_ROWS: Final = 4
# Of so many places chance puts the last third between a bound and the first in one of six rows of tokens.
_TELLING: Final = 6
_WHOLE: Final = ("int16", "int32", "int64")
_MARKS: Final = (*_WHOLE, "uint8", "bool")

_Rows = list[list[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class SequenceArray:
    """An array of a batch: which of its arrays, and whether it may hold sequences, or say which of their places are filled."""

    number: int
    array: Any
    dtype: str
    shape: tuple[int, int]


_Lines = Callable[[SequenceArray, int], _Rows]
# What a mask says of its rows: on which side of each are how many filled places.
_Ends = tuple[int, list[int]]


def look_for_padding(batch: Any) -> list[dict[str, Any]]:
    """What is known of each array of whole numbers that may hold sequences: its `rows` and their `length`, the `lengths` of what is in
    them, the `value` that fills the rest, on which `side`, in how many rows that value is also `inside`, how many values there are
    besides, and whether a `mask` tells it. Arrays none of whose rows ends (or begins) in such a run have no `lengths`.
    """
    arrays = list(_arrays(batch))
    lines = functools.cache(functools.partial(_lines, most=min(_MOST_NUMBERS, _MOST_IN_ALL // max(len(arrays), 1))))
    marks = [each for each in arrays if all(set(row) <= {0, 1} for row in lines(each, 1))]
    ends = functools.cache(lambda mark, along: _marked(lines(mark, along)))
    found = []
    for each in arrays:
        # Zeros and ones alone say something of places, and stand in none.
        if each.dtype in _WHOLE and each not in marks:
            masks = [mark for mark in marks if mark.shape == each.shape]
            found.append({"array": each.number, **_look(each, masks[:_MOST_MASKS], lines, ends)})
    return found


def _look(
    each: SequenceArray, masks: list[SequenceArray], lines_of: _Lines, ends_of: Callable[[SequenceArray, int], list[_Ends]]
) -> dict[str, Any]:
    """By a mask, else by runs of a value that is nowhere else, else by any; sequences lie along the last dimension, or, time first, not."""
    seen = []
    for along in (1, 0):
        lines, of = lines_of(each, along), {"rows": each.shape[1 - along], "length": each.shape[along]}
        if len(lines) < FEWEST_ROWS or len(lines[0]) < SHORTEST:
            continue
        for mask in masks:
            if (known := _by_mask(lines, ends_of(mask, along))) is not None:
                return {**of, **known, "mask": True}
        if (known := _by_runs(lines)) is not None:
            seen.append({**of, **known, "mask": False})
            if not known["inside"]:
                break
    if seen:
        return min(seen, key=lambda found: found["inside"] > 0)
    return {"rows": each.shape[0], "length": each.shape[1], "mask": False}


def _marked(marks: _Rows) -> list[_Ends]:
    """What an array says that holds ones before (or behind) zeros in each row, or zeros before ones; nothing of any other."""
    found = []
    for filled in (0, 1):
        for side in (1, -1):
            lengths = [_without_run(mark, filled, side) for mark in marks]
            if any(lengths) and not any(filled in _inside(mark, length, side) for mark, length in zip(marks, lengths, strict=True)):
                found.append((side, lengths))
    return found


def _by_mask(rows: _Rows, ends: list[_Ends]) -> dict[str, Any] | None:
    """By an array of the same shape, of which one kind marks a single value."""
    for side, lengths in ends:
        values = set(chain.from_iterable(_rest(row, length, side) for row, length in zip(rows, lengths, strict=True)))
        if len(values) == 1:
            return _padding_of(rows, lengths, values.pop(), side)
    return None


def _by_runs(rows: _Rows) -> dict[str, Any] | None:
    """By runs of one value at the end (or the beginning) of at least half of the rows, of several lengths."""
    for side in (1, -1):
        value, times = Counter(row[-1 if side > 0 else 0] for row in rows).most_common(1)[0]
        if 2 * times < len(rows):
            continue
        lengths = [_without_run(row, value, side) for row in rows]
        if len(set(lengths)) > 1 and not _reach(value, rows, lengths, side):
            return _padding_of(rows, lengths, value, side)
    return None


def _reach(value: Any, rows: _Rows, lengths: list[int], side: int) -> bool:
    """Whether what rises or falls to a bound and stays there (a counter, a charge) makes the runs: it has not ended. A row in which it
    jitters tells less than those in which it does not, and of a few places chance makes one that rises or falls.
    """
    comes_near = [_comes_near(value, row, length, side) for row, length in zip(rows, lengths, strict=True)]
    telling = sum(near and length >= _TELLING for near, length in zip(comes_near, lengths, strict=True))
    return all(comes_near) or telling > comes_near.count(False)


def _comes_near(value: int, row: list[int], length: int, side: int) -> bool:
    """Whether the third of a row beside its run is between the value and the farthest third; of few places two, for one is chance."""
    if not length:
        return True
    third = max(length // 3, min(length - 1, 2), 1)
    begin = 0 if side > 0 else len(row) - length
    ends = row[begin : begin + third], row[begin + length - third : begin + length]
    far, beside = ends[::side]
    if far[0] < value:
        return max(far) <= min(beside) and max(beside) <= value
    return min(far) >= max(beside) and min(beside) >= value


def _padding_of(rows: _Rows, lengths: list[int], value: Any, side: int) -> dict[str, Any]:
    insides = [_inside(row, length, side) for row, length in zip(rows, lengths, strict=True)]
    return {
        "lengths": lengths,
        "value": int(value),
        "side": side,
        "inside": sum(value in inside for inside in insides),
        "values": len(set(chain.from_iterable(insides)) - {value}),
    }


def _without_run(row: list[Any], value: Any, side: int) -> int:
    """How long a row is without its run of a value at the end, or of `side` -1 at the beginning."""
    length = len(row) - row.count(value)
    # In most rows all of them stand there: told without a loop.
    if value not in _inside(row, length, side):
        return length
    run = 0
    for each in row if side < 0 else reversed(row):
        if each != value:
            break
        run += 1
    return len(row) - run


def _inside(row: list[Any], length: int, side: int) -> list[Any]:
    return row[:length] if side > 0 else row[len(row) - length :]


def _rest(row: list[Any], length: int, side: int) -> list[Any]:
    return row[length:] if side > 0 else row[: len(row) - length]


def _lines(each: SequenceArray, along: int, *, most: int) -> _Rows:
    """The values of sequences all over it, as many as are looked at."""
    count, length = each.shape[1 - along], each.shape[along]
    step = max(-(-count // max(min(_MOST_ROWS, most // length), 1)), 1)
    if along:
        return list(each.array[::step].tolist())
    return [list(line) for line in zip(*each.array[:, ::step].tolist(), strict=True)]


def _arrays(batch: Any) -> Iterator[SequenceArray]:
    """Arrays of two dimensions in this machine's memory that are looked at; nothing of classes of the script's is."""
    found = 0
    for number, part in enumerate(islice(_leaves(batch, _DEEPEST), _MOST_PARTS)):
        kind = type(part)
        is_tensor = (kind.__module__, kind.__name__) == ("torch", "Tensor")
        if not is_tensor and (kind.__module__, kind.__name__) != ("numpy", "ndarray"):
            continue
        dtype, shape = str(part.dtype).removeprefix("torch."), tuple(part.shape)
        if is_tensor and (part.device.type != "cpu" or str(part.layout) != "torch.strided"):
            continue
        is_small = len(shape) == 2 and min(shape) >= FEWEST_ROWS and max(shape) >= SHORTEST and min(shape) <= _MOST_NUMBERS
        if is_small and dtype in _MARKS:
            yield SequenceArray(number, part, dtype, (int(shape[0]), int(shape[1])))
            found += 1
            if found >= _MOST_ARRAYS:
                return


def _leaves(part: Any, deeper: int) -> Iterator[Any]:
    parts = parts_of(part) if deeper else None
    if parts is None:
        yield part
        return
    for inner in parts:
        yield from _leaves(inner, deeper - 1)
