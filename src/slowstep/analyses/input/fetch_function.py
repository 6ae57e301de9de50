"""The function that holds most of making batches, where several loaders make them, too, and the one that holds most of collating them.

Few batches are timed, and by chance more of one loader's than of another's. How long each loader's batches take is known of all of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from slowstep.analyses.batches.loader import Loader
from slowstep.analyses.batches.made_by_loader import MadeByLoader
from slowstep.analyses.python.calls import (
    DOMINANT_SHARE,
    CallTree,
    Key,
    TimedFunction,
    dominant_from,
    dominant_of_fetch,
    dominant_within,
    read_calls,
)
from slowstep.analyses.python.python_share import with_python_share
from slowstep.timeline.timeline import Timeline

ITEMS = ("__getitem__", "__getitems__")


def find_fetch_function(
    timeline: Timeline, producers: list[int], trainer: int, loaders: Sequence[MadeByLoader]
) -> tuple[TimedFunction | None, int]:
    """The function that holds most of making batches in the processes that do, and of how many of them that is known.

    `trainer`: the training's own process. Where another makes batches, what the training waits for tells not how long these take.
    """
    tree = read_calls(timeline.table("calls"), timeline.table("call_edges"), "fetch", producers)
    found = dominant_of_loaders(tree, loaders) if producers == [trainer] else dominant_of_fetch(tree, DOMINANT_SHARE)
    return with_python_share(timeline, producers, tree, found), tree.stretches


def find_collate_function(timeline: Timeline, producers: list[int], loader: Loader | None) -> TimedFunction | None:
    """The function of the user's that the loader's collate function spends most of its time in; None where none is known."""
    tree = read_calls(timeline.table("calls"), timeline.table("call_edges"), "fetch", producers)
    return with_python_share(timeline, producers, tree, dominant_of_collate(tree, loader))


def dominant_of_collate(tree: CallTree, loader: Loader | None) -> TimedFunction | None:
    """The deepest function of the user's below the loader's collate function that holds most of that one's time."""
    if loader is None or loader.collate is None:
        return None
    # It is recorded as `module.function`, and either may have more dots.
    found = [key for key in tree.total_ns if key[0] == loader.collate_file and f".{loader.collate}".endswith(f".{key[1]}")]
    return dominant_within(tree, found[0], DOMINANT_SHARE) if len(found) == 1 else None


def dominant_of_loaders(tree: CallTree, loaders: Sequence[MadeByLoader]) -> TimedFunction | None:
    """The deepest function of the user's that holds most of making samples, by the time that each loader takes for its batches.

    By timed batches alone where there is one loader, or that one's data set which takes most of it is not distinguished from the others'.
    """
    slowest = max(loaders, key=_whole, default=None)
    item = None if slowest is None or len(loaders) < 2 else _item_of(tree, slowest, loaders)
    if slowest is None or item is None:
        return dominant_of_fetch(tree, DOMINANT_SHARE)
    part = _whole(slowest) / max(sum(map(_whole, loaders)), 1.0)
    return dominant_from(tree, item, tree.total_ns[item] / max(part, 1e-9), DOMINANT_SHARE)


def _whole(loader: MadeByLoader) -> float:
    return float(loader.ns.sum())


def _item_of(tree: CallTree, loader: MadeByLoader, loaders: Sequence[MadeByLoader]) -> Key | None:
    """The method by which a loader's data set makes samples, where it was timed and is no other's; else None."""
    if loader.dataset is None or [each.dataset for each in loaders].count(loader.dataset) > 1:
        return None
    own = re.compile(rf"(^|\.){re.escape(loader.dataset)}\.({'|'.join(ITEMS)})$")
    found = [key for key, ns in tree.total_ns.items() if own.search(key[1]) and ns > 0]
    return found[0] if len(found) == 1 else None
