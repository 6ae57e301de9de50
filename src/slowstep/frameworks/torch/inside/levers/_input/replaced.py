"""Torch's functions that ask a loader for its next batch and for an iterator, replaced below the hooks by those that ask the feed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from slowstep.frameworks.torch.inside.levers._input.stream import MULTI, torch_class
from slowstep.record.patch import Undo, all_of, argument, replace


class Feeds(Protocol):
    """Answers for torch's functions, of the iterators that it is asked for."""

    def concerns(self, iterator: Any) -> bool:
        """Whether an iterator's batches are its affair."""
        ...

    def next_batch(self, own: Any, original: Callable[[Any], Any]) -> Any:
        """The next batch of an iterator."""
        ...

    def start(self, loader: Any, original: Callable[[Any], Any]) -> Any:
        """An iterator for a loader."""
        ...

    def restart(self, own: Any, loader: Any, original: Callable[[], None]) -> None:
        """Begin another epoch with an iterator that stays."""
        ...


def in_place_of_torchs(feed: Feeds, originals: Mapping[str, Any]) -> Undo:
    """Replace `_next_data` of the classes named, and what begins an epoch."""
    loader, multi = torch_class("DataLoader"), torch_class(MULTI)
    undos = [replace(torch_class(name), "_next_data", _fed(feed, original)) for name, original in originals.items()]
    undos.append(replace(loader, "_get_iterator", _started(feed, loader._get_iterator)))
    undos.append(replace(multi, "_reset", _restarted(feed, multi._reset)))
    return all_of(undos)


def _fed(feed: Feeds, original: Callable[[Any], Any]) -> Any:
    @functools.wraps(original)
    def _next_data(self: Any) -> Any:
        return feed.next_batch(self, original) if feed.concerns(self) else original(self)

    return _next_data


def _started(feed: Feeds, original: Callable[[Any], Any]) -> Any:
    @functools.wraps(original)
    def _get_iterator(self: Any) -> Any:
        return feed.start(self, original)

    return _get_iterator


def _restarted(feed: Feeds, original: Callable[..., None]) -> Any:
    @functools.wraps(original)
    def _reset(self: Any, /, *args: Any, **kwargs: Any) -> None:
        feed.restart(self, argument(args, kwargs, 0, "loader"), functools.partial(original, self, *args, **kwargs))

    return _reset
