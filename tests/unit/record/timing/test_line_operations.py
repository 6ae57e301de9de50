"""How many operations a line may do."""

from __future__ import annotations

from slowstep.record.timing.line_counts import operations_by_line


def overlaps(a, b, found):
    top = a[..., :2] - b[..., 2:] / 2
    found[0] = max(-top, b)
    for name in found:
        name.strip().lower()
    return [each > top for each in found]


def test_calls_arithmetic_comparisons_and_indices_are_operations():
    first = overlaps.__code__.co_firstlineno

    found = operations_by_line(overlaps.__code__)

    # Of the last line the comparisons are those of a function inside of it, where a comprehension is one.
    assert {line - first: number for line, number in found.items() if line - first < 5} == {1: 4, 2: 3, 4: 2}
