"""Describes a loader and its iterator. What a subclass hides or computes is null: nothing of the user's is called but lengths."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from slowstep.frameworks.torch.inside._answers.dividing import divides, division_of
from slowstep.frameworks.torch.inside._answers.drawing import is_source
from slowstep.record.attributes import called_in, code_of, held_by, name_of, own_attributes
from slowstep.record.writing.format import READY_UNKNOWN

_MAP_STYLE: Final = 0
_STREAM: Final = 1
_WRAPPER: Final = "RemoveColumnsCollator"
_DEEPEST: Final = 8
# Where data sets and samplers keep those that they wrap, or read of several of them.
_WRAPPED: Final = ("dataset", "datasets", "sampler", "batch_sampler")
# How samples are read of a data set, and indices of a sampler.
_READ_BY: Final = ("__getitem__", "__getitems__", "__iter__")
# The property that shows it may be a subclass's own.
_KEPT_CONTEXT: Final = "_DataLoader__multiprocessing_context"
_MOST_HELD: Final = 50
_PLAIN: Final = (bool, bytes, complex, dict, float, int, list, str, tuple, type(None))
# Bases of nearly every class, which make no input.
_BASES: Final = ("abc", "builtins", "collections.abc", "typing")

_KNOWN: Final[WeakKeyDictionary[type, tuple[tuple[str, str], ...]]] = WeakKeyDictionary()


def describe_iterator(state: dict[str, Any], loader: Any) -> dict[str, Any]:
    """The fields of an iterator's note, from the iterator's attributes and, where known, its loader."""
    function = _whole(state.get("_collate_fn"))
    code = code_of(function)
    return {
        "num_workers": state.get("_num_workers"),
        "prefetch_factor": state.get("_prefetch_factor"),
        "batch_size": _batch_size(state, loader),
        "persistent": state.get("_persistent_workers"),
        "pin_memory": state.get("_pin_memory"),
        "in_order": state.get("_in_order"),
        "workers": [worker.pid for worker in state.get("_workers", ())],
        "dataset": type(state.get("_dataset")).__qualname__,
        "dataset_length": _length(state),
        "batches": _batches(state.get("_index_sampler")),
        "data_set_classes": _classes_in(state.get("_dataset")),
        "sampler_classes": _classes_in(state.get("_index_sampler")),
        "collate": name_of(function),
        "collate_file": None if code is None else code.co_filename,
        "collate_line": None if code is None else code.co_firstlineno,
        "is_default_collate": _is_default_collate(state.get("_collate_fn")),
        "drop_last": state.get("_drop_last"),
        "context": _context(loader),
        "divides": _divides(state, loader),
        "draws": _draws(state),
        "generator": _generator(state),
        # Of torchdata's StatefulDataLoader.
        "snapshot_every": _whole_number(state.get("_snapshot_interval")),
    }


def _whole_number(value: Any) -> int | None:
    return value if type(value) is int else None


def _divides(state: dict[str, Any], loader: Any) -> bool | None:
    """Whether workers get a part each of a stream; None of a data set with indices, of which a sampler gives each worker others."""
    if state.get("_dataset_kind") != _STREAM:
        return None
    return divides(state.get("_dataset"), held_by(loader, "worker_init_fn"))


def _draws(state: dict[str, Any]) -> bool | None:
    """Whether it is unknown because something of the stream draws at random; None of a data set with indices."""
    return division_of(state.get("_dataset")).draws if state.get("_dataset_kind") == _STREAM else None


def _generator(state: dict[str, Any]) -> str | None:
    """The attribute by which a data set with indices, or what it holds, has a generator of random numbers: the copies in workers draw the
    same.
    """
    if state.get("_dataset_kind") != _MAP_STYLE:
        return None
    things = [state.get("_dataset")]
    for thing in things:
        for name, value in list(own_attributes(thing).items())[:_MOST_HELD]:
            if is_source(type(value)):
                return name
            if len(things) < _DEEPEST and type(value) not in _PLAIN:
                things.append(value)
    return None


def even_batches(state: dict[str, Any]) -> tuple[int, int, int]:
    """How many samples every batch of an iterator holds, the index of the last one, and what that holds; all -1 where that is not sure."""
    sampler: Any = state.get("_index_sampler")
    batches = _batches(sampler)
    # A function that collates may make batches of any size, and so may a stream.
    is_even = _is_default_collate(state.get("_collate_fn")) and state.get("_dataset_kind") == _MAP_STYLE
    if batches is None or not is_even or type(size := sampler.batch_size) is not int:
        return -1, -1, -1
    return size, batches - 1, min(len(sampler.sampler) - (batches - 1) * size, size)


def ready_batches(state: dict[str, Any]) -> int:
    """Batches that workers have made and nobody has asked for yet; READY_UNKNOWN where the system does not say."""
    queue = state["_worker_result_queue"]
    try:
        ready = int(queue.qsize())
        pinned = state.get("_data_queue")
        if pinned is not None and pinned is not queue:
            ready += pinned.qsize()
        for task in list(state["_task_info"].values()):
            ready += len(task) == 2
    except (NotImplementedError, KeyError, AttributeError):
        return READY_UNKNOWN
    return min(ready, READY_UNKNOWN - 1)


def _batches(sampler: Any) -> int | None:
    """How many a pass has. A subclass or another's sampler may make batches of any size, and take any time to count them."""
    if type(sampler) is not getattr(sys.modules.get("torch.utils.data.sampler"), "BatchSampler", None):
        return None
    try:
        return len(sampler)
    except Exception:
        # Whatever the __len__ of a sampler inside it raises.
        return None


def _batch_size(state: dict[str, Any], loader: Any) -> int | None:
    for owner in (loader, held_by(loader, "batch_sampler"), state.get("_index_sampler")):
        size = held_by(owner, "batch_size")
        if type(size) is int:
            return size
    return None


def _length(state: dict[str, Any]) -> int | None:
    # Only of data sets with a sampler, which has asked already: a stream's own idea of its length may cost anything.
    if state.get("_dataset_kind") != _MAP_STYLE:
        return None
    try:
        return len(state["_dataset"])
    except Exception:
        # Whatever a data set's own __len__ raises.
        return None


def _classes_in(whole: Any) -> list[list[str]]:
    """File and qualified name of the class of a data set or sampler and of those inside it, with their bases that are such themselves."""
    found: dict[tuple[str, str], None] = {}
    things, seen = [whole], 0
    while things and seen < _DEEPEST:
        thing, seen = things.pop(0), seen + 1
        found.update(dict.fromkeys(_places_of(type(thing))))
        # Not by getattr: a wrapper may look up what it has not in what it wraps, or load it.
        inner: Mapping[str, Any] = held_by(thing, "__dict__") or {}
        for held in (inner.get(name) for name in _WRAPPED):
            things.extend(held[:_DEEPEST] if type(held) is list or type(held) is tuple else [] if held is None else [held])
    return [list(place) for place in found]


def _places_of(kind: type) -> tuple[tuple[str, str], ...]:
    """A class's own place and those of its bases that can be read; kept, as loops may make an iterator in each step."""
    places = _KNOWN.get(kind)
    if places is None:
        places = _KNOWN[kind] = tuple(place for each in _reading(kind) if (place := _place_of_class(each)) is not None)
    return places


def _reading(kind: type) -> list[type]:
    """A class, and those of its bases whose instances can be read: what is mixed in for something else (to log) makes no input."""
    return [kind, *(base for base in kind.__mro__[1:] if any(name in vars(each) for each in base.__mro__ for name in _READ_BY))]


def _place_of_class(kind: type) -> tuple[str, str] | None:
    """By its first method; None of one that has none in Python."""
    if kind.__module__ in _BASES:
        return None
    name = kind.__qualname__
    for method in vars(kind).values():
        code = code_of(method)
        # What is generated, or was defined elsewhere and assigned, has another file, or name.
        if code is not None and code.co_qualname.startswith(f"{name}."):
            return code.co_filename, name
    return None


def _is_default_collate(collate: Any) -> bool:
    return str(held_by(collate, "__module__")).startswith("torch.utils.data")


def _whole(function: Any) -> Any:
    """What runs where it is called, behind a collator that only hands over to another (transformers' RemoveColumnsCollator)."""
    for _ in range(_DEEPEST):
        inner = held_by(function, "data_collator") if type(function).__name__ == _WRAPPER else None
        if not callable(inner):
            break
        function = inner
    return called_in(function)


def _context(loader: Any) -> str | None:
    if not held_by(loader, "num_workers"):
        return None
    context = held_by(loader, _KEPT_CONTEXT)
    if context is None:
        return multiprocessing.get_start_method(allow_none=True)
    return str(held_by(context, "_name") or type(context).__name__)
