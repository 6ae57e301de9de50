"""Describes a loader and its iterator. What a subclass hides or computes wrongly is null, never an error."""

from __future__ import annotations

from typing import Any, Final

_MAP_STYLE: Final = 0


def describe_iterator(state: dict[str, Any], loader: Any) -> dict[str, Any]:
    """The fields of an iterator's note, from the iterator's attributes and, where known, its loader."""
    collate = state.get("_collate_fn")
    code = getattr(collate, "__code__", None)
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
        "collate": _qualified_name(collate),
        "collate_file": getattr(code, "co_filename", None),
        "collate_line": getattr(code, "co_firstlineno", None),
        "is_default_collate": str(getattr(collate, "__module__", "")).startswith("torch.utils.data"),
        "drop_last": state.get("_drop_last"),
        "context": _context(loader),
    }


def _batch_size(state: dict[str, Any], loader: Any) -> int | None:
    for owner in (loader, getattr(loader, "batch_sampler", None), state.get("_index_sampler")):
        size = getattr(owner, "batch_size", None)
        if isinstance(size, int):
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


def _qualified_name(function: Any) -> str | None:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if module else name


def _context(loader: Any) -> str | None:
    if loader is None or not loader.num_workers:
        return None
    context = getattr(loader, "multiprocessing_context", None)
    if context is None:
        import multiprocessing

        return multiprocessing.get_start_method(allow_none=True)
    return str(getattr(context, "_name", None) or type(context).__name__)
