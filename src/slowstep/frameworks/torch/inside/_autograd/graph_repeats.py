"""What a graph does again and again: a loop over the samples of a batch makes more operations of a larger one, and a loop over layers or
places does not.

Such a loop takes from something that all of its turns share: parameters, which then many operations of one kind use, or a value, which
they use whole or of which each takes a part.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from slowstep.frameworks.torch.inside._autograd.graph_size import LEAF
from slowstep.frameworks.torch.inside._autograd.graph_work import Lengths, given_by, is_view_of_parameters, name_of

_TAKES: Final = frozenset(("Gather", "Index", "IndexSelect", "Select", "Slice"))
_DIVIDES: Final = frozenset(("Split", "SplitWithSizes", "Unbind", "UnsafeSplit"))
# More kinds of them than these are as good as all.
MOST_KINDS: Final = 16


class Repeats(NamedTuple):
    """`whole`: how many operations of one kind use a value, at most, but for those that take all places of a dimension one by one; 1 where
    none does twice. `parts`: of values that are taken apart the shapes up to the dimension along which they are. `weights`: of parameters
    that operations of one kind use several times, how often, and the first length of what each of these gives. A length of 0 is not
    known, or of several.
    """

    whole: int
    parts: tuple[Lengths, ...]
    weights: tuple[tuple[int, int], ...]


def find_repeats(nodes: Iterable[Any]) -> Repeats:
    """Of the nodes of one pass."""
    users = _users(nodes)
    parts: set[Lengths] = set()
    weights: set[tuple[int, int]] = set()
    whole = 1
    for used, using in users.items():
        if type(used).__name__ == LEAF:
            weights |= set(_repeated(list(_through_views(using, users))))
        elif not is_view_of_parameters(used):
            kinds = Counter(map(name_of, using))
            taken = Counter(_up_to_dimension(node) for node in using if name_of(node) in _TAKES and kinds[name_of(node)] > 1)
            parts |= taken.keys()
            if name_of(used) in _DIVIDES:
                parts.add(_up_to_dimension(used))
            # Of the rows of samples with several lengths no dimension tells how many there are.
            ragged = [count for shape, count in taken.items() if count != shape[-1]]
            whole = max(whole, *ragged, *(0 if name in _TAKES else count for name, count in kinds.items()))
    if len(parts) > MOST_KINDS or len(weights) > MOST_KINDS:
        parts, weights = {(0,)}, set()
    return Repeats(whole, tuple(sorted(parts)), tuple(sorted(weights)))


def _users(nodes: Iterable[Any]) -> dict[Any, list[Any]]:
    users = defaultdict(list)
    for node in nodes:
        for following, _ in node.next_functions:
            if following is not None:
                users[following].append(node)
    return users


def _through_views(using: list[Any], users: dict[Any, list[Any]]) -> Iterator[Any]:
    """Operations that use a parameter, those of its views too."""
    for node in using:
        if is_view_of_parameters(node):
            yield from users.get(node, ())
        else:
            yield node


def _repeated(using: list[Any]) -> Iterator[tuple[int, int]]:
    kinds = defaultdict(list)
    for node in using:
        kinds[name_of(node)].append(node)
    for alike in kinds.values():
        if len(alike) > 1:
            lengths = {_first_length(node) for node in alike}
            yield len(alike), lengths.pop() if len(lengths) == 1 else 0


def _first_length(node: Any) -> int:
    given = given_by(node)
    return given[0][0] if given and given[0] else 0


def _up_to_dimension(node: Any) -> Lengths:
    """The shape of what it takes apart, up to the dimension along which it does; a length of 0 where that is not known."""
    sizes, at = getattr(node, "_saved_self_sym_sizes", None), getattr(node, "_saved_dim", None)
    if name_of(node) == "Unbind":
        return (len(getattr(node, "_input_metadata", None) or ()),)
    # What is saved of a dimension that is counted from the end is a large number without a sign.
    at = at - (1 << 64) if isinstance(at, int) and at >= 1 << 63 else at
    if sizes is None or not isinstance(at, int) or not -len(sizes) <= at < len(sizes):
        return (0,)
    return tuple(int(size) for size in sizes[: at % len(sizes) + 1])
