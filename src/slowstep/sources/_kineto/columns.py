"""Decoded events become columns: one row of numbers each, names as codes of dictionaries."""

from __future__ import annotations

import math
from collections import Counter
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from slowstep.sources._kineto.events import NULL, WIDE, Events
from slowstep.sources._kineto.groups import Codes, Groups, texts_of
from slowstep.sources._kineto.malformed import Lacking, narrow
from slowstep.sources._kineto.numbers import args_of, lengths_of, numbers, place_numbers, reals, times_of
from slowstep.sources._kineto.pairs import Pairs
from slowstep.sources._kineto.store import Grown
from slowstep.sources._kineto.words import (
    COLLECTIVE_OPERATOR,
    DEVICE_TYPE_HOST,
    HOST_GROUPS,
    MEMORY,
    STEP,
    copy_direction,
    is_pageable,
)
from slowstep.timeline.element_types import element_bytes
from slowstep.timeline.trace_tables import DEVICE_KINDS, HOST_KINDS

Ints = NDArray[np.int64]

# No GPU gives a thread more registers: 255 on NVIDIA (CUDA C programming guide, technical specifications), 512 on AMD's CDNA.
MOST_REGISTERS: Final = 512
# More than any memory holds, and little enough that its bytes fit into 63 bits.
MOST_ELEMENTS: Final = 2**50
HOST_COLUMNS: Final = {
    "thread": "i4", "start_ns": "i8", "end_ns": "i8", "kind": "u1", "name": "i4", "correlation": "i8", "external": "i8",
    "sequence": "i8", "shapes": "i4", "types": "i4", "stack": "i4",
}  # fmt: skip
DEVICE_COLUMNS: Final = {
    "device": "i4", "stream": "i8", "start_ns": "i8", "end_ns": "i8", "kind": "u1", "name": "i4", "correlation": "i8", "external": "i8",
    "bytes": "i8", "pageable": "i1", "grid": "i4", "block": "i4", "registers": "i8", "occupancy": "f4", "collective": "i4",
    "group_size": "i8", "from_graph": "?",
}  # fmt: skip
STEP_COLUMNS: Final = {"number": "i8", "start_ns": "i8", "end_ns": "i8", "thread": "i4"}
MEMORY_COLUMNS: Final = {"time_ns": "i8", "device": "i4", "bytes": "i8", "allocated_bytes": "i8", "reserved_bytes": "i8"}


class Columns:
    """All that is kept of the events seen so far. `add` takes a chunk of decoded events; `turn` numbers the chunks of a file."""

    def __init__(self, counts: Counter[str]) -> None:
        self.hosts = Grown("hosts", HOST_COLUMNS)
        self.devices = Grown("devices", DEVICE_COLUMNS)
        self.steps = Grown("steps", STEP_COLUMNS)
        self.memory = Grown("memory", MEMORY_COLUMNS)
        self.threads, self.names, self.collectives = Codes(), Codes(), Codes()
        self.shapes, self.types, self.stacks, self.grids, self.blocks = Codes(), Codes(), Codes(), Codes(), Codes()
        self.thread_names: dict[tuple[Any, Any], str] = {}
        self.collective_operators: dict[int, tuple[int, int, int]] = {}
        self.copied_bytes: dict[int, int] = {}
        self.groups = Groups()
        self.pairs = Pairs()
        self._counts = counts
        self._lacking = Lacking(self.names, self.threads, counts)
        self._step_codes: dict[int, int] = {}
        self._names_seen = 0
        self._copies = Codes()

    @property
    def grown(self) -> tuple[Grown, ...]:
        """All growing tables."""
        return (self.hosts, self.devices, self.steps, self.memory)

    def add(self, events: Events, turn: int = 0) -> None:
        """Take a chunk."""
        for grown in self.grown:
            grown.turn = turn
        if events and isinstance(events[0], WIDE):
            narrow(events, self._counts)
        groups = self.groups
        for event in events:
            groups[event.cat](event)
        for group in HOST_GROUPS:
            self._hosts(group, groups.lists[group])
        before = self.hosts.rows
        self._hosts("annotation", self.pairs.complete(groups.lists["foreign"]))
        self._counts["foreign"] += self.hosts.rows - before
        self._others(self.pairs.complete(groups.lists["other"]))
        for group, add in (("kernel", self._kernels), ("copy", self._copies_of), ("memset", self._memsets)):
            add(*self._timed(groups.lists[group]))
        self._memory(groups.lists["memory"])
        groups.clear()

    def _timed(self, events: list[Any]) -> tuple[list[Any], Ints, Ints]:
        """The events that have a begin and a length, and both ends in nanoseconds."""
        whole = [event for event in events if event.ph == "X"]
        for event in events if len(whole) < len(events) else ():
            if event.ph != "X":
                self._counts["unpaired" if event.ph in ("B", "E") else "no-phase" if not event.ph else "other"] += 1
        start_ns, known = times_of(whole)
        length_ns, measured = lengths_of(whole)
        for name, lost in (("no-time", ~known), ("no-length", known & ~measured), ("negative", known & measured & (length_ns < 0))):
            if count := int(lost.sum()):
                self._counts[name] += count
        good = known & measured & (length_ns >= 0)
        if not good.all():
            whole = [event for event, is_good in zip(whole, good.tolist(), strict=True) if is_good]
            start_ns, length_ns = start_ns[good], length_ns[good]
        return whole, start_ns, start_ns + length_ns

    def _hosts(self, group: str, events: list[Any]) -> None:
        if not events:
            return
        events, start_ns, end_ns = self._timed(events)
        count = len(events)
        names = self.names.of(map(attrgetter("name"), events), count)
        threads = self.threads.of([(event.pid, event.tid) for event in events], count)
        self._lacking.count_names(names)
        self._lacking.count_threads(threads)
        columns = _NO_HOST | {"thread": threads, "start_ns": start_ns, "end_ns": end_ns, "kind": HOST_KINDS.index(group), "name": names}
        if group in ("operator", "annotation"):
            columns |= self._operator_columns(events, names)
        elif group in ("runtime", "driver"):
            columns |= self._call_columns(events)
        marked = self._marked(names) if group in ("operator", "annotation") else None
        if marked is not None:
            numbers = np.array([self._step_codes[code] for code in names[marked].tolist()])
            times = {"number": numbers, "start_ns": start_ns[marked], "end_ns": end_ns[marked], "thread": threads[marked]}
            self.steps.add(len(numbers), times)
            columns = {name: values[~marked] if isinstance(values, np.ndarray) else values for name, values in columns.items()}
            count -= len(numbers)
        self.hosts.add(count, columns)

    def _marked(self, names: NDArray[np.int32]) -> NDArray[np.bool_] | None:
        """Which rows mark a step; None where none does."""
        if len(self.names) > self._names_seen:
            for name in list(self.names)[self._names_seen :]:
                if match := STEP.match(name):
                    self._step_codes[self.names[name]] = int(match[1])
            self._names_seen = len(self.names)
        marked = np.isin(names, np.fromiter(self._step_codes, dtype=np.int32, count=len(self._step_codes)))
        return marked if marked.any() else None

    def _operator_columns(self, events: list[Any], names: NDArray[np.int32]) -> dict[str, Any]:
        args = args_of(events)
        if self.names.get(COLLECTIVE_OPERATOR) is not None:
            for index in np.flatnonzero(names == self.names[COLLECTIVE_OPERATOR]).tolist():
                self._collective_operator(args[index])
        return {
            "external": numbers(args, "external", "external_old"),
            "sequence": numbers(args, "sequence"),
            "shapes": texts_of(args, "shapes", self.shapes, texts_of(args, "shapes_old", self.shapes)),
            "types": texts_of(args, "types", self.types),
            "stack": self.stacks.of(map(attrgetter("stack"), args), len(args)),
        }

    def _call_columns(self, events: list[Any]) -> dict[str, Any]:
        args = args_of(events)
        correlation = numbers(args, "correlation")
        for field in ("bytes", "size"):
            sizes = numbers(args, field)
            known = (sizes != NULL) & (correlation != NULL)
            if known.any():
                self.copied_bytes |= dict(zip(correlation[known].tolist(), sizes[known].tolist(), strict=True))
        return {"correlation": correlation, "external": numbers(args, "external", "external_old")}

    def _collective_operator(self, args: Any) -> None:
        if args.collective and isinstance(args.external, int):
            known = isinstance(args.elements, int) and 0 <= args.elements < MOST_ELEMENTS and element_bytes(args.element_type)
            size = args.elements * known if known else NULL
            group = args.group_size if isinstance(args.group_size, int) and 0 < args.group_size < 2**31 else NULL
            self.collective_operators[args.external] = (self.collectives[args.collective], size, group)

    def _device(self, kind: Any, events: list[Any], start_ns: Ints, end_ns: Ints) -> tuple[list[Any], dict[str, Any]]:
        args, count = args_of(events), len(events)
        device, stream = numbers(args, "device"), numbers(args, "stream")
        names = self.names.of(map(attrgetter("name"), events), count)
        self._lacking.count_names(names)
        self._lacking.count_places(events)
        return args, _NO_DEVICE | {
            "device": np.where(device == NULL, place_numbers(events, "pid", device), device).clip(-(2**31), 2**31 - 1),
            "stream": np.where(stream == NULL, place_numbers(events, "tid", stream), stream),
            "start_ns": start_ns,
            "end_ns": end_ns,
            "kind": kind,
            "name": names,
            "correlation": numbers(args, "correlation"),
            "external": numbers(args, "external", "external_old"),
            "bytes": numbers(args, "bytes"),
            "collective": self.collectives[""],
        }

    def _kernels(self, events: list[Any], start_ns: Ints, end_ns: Ints) -> None:
        if not events:
            return
        args, columns = self._device(DEVICE_KINDS.index("kernel"), events, start_ns, end_ns)
        registers, occupancy = numbers(args, "registers"), reals(args, "occupancy") / 100
        wrong = (registers != NULL) & ((registers < 0) | (registers > MOST_REGISTERS))
        impossible = (occupancy < 0) | (occupancy > 1)
        self._counts["registers"] += int(wrong.sum())
        self._counts["occupancy"] += int(impossible.sum())
        graph_node = numbers(args, "graph_node")
        columns |= {
            "registers": np.where(wrong, NULL, registers),
            "occupancy": np.where(impossible, math.nan, occupancy),
            "grid": texts_of(args, "grid", self.grids),
            "block": texts_of(args, "block", self.blocks),
            "from_graph": (graph_node != NULL) & (graph_node != 0),
        }
        if any(a.collective for a in args):
            columns |= self._collective_columns(args)
        self.devices.add(len(args), columns)

    def _collective_columns(self, args: list[Any]) -> dict[str, Any]:
        lengths = np.array([(element_bytes(a.element_type) or 0) if a.collective else 0 for a in args], dtype=np.int64)
        elements = numbers(args, "elements")
        known = (lengths > 0) & (elements >= 0) & (elements < MOST_ELEMENTS)
        group = numbers(args, "group_size")
        return {
            "collective": self.collectives.of([a.collective for a in args], len(args)),
            "group_size": np.where((group > 0) & (group < 2**31), group, NULL),
            "bytes": np.where(known, np.where(known, elements, 0) * lengths, NULL),
        }

    def _copies_of(self, events: list[Any], start_ns: Ints, end_ns: Ints) -> None:
        if not events:
            return
        args, columns = self._device(0, events, start_ns, end_ns)
        codes = self._copies.of([(event.name, str(a.kind)) for event, a in zip(events, args, strict=True)], len(args))
        told = [(copy_direction(name, kind), is_pageable(name)) for name, kind in self._copies]
        kinds = np.array([DEVICE_KINDS.index(direction or "d2d") for direction, _ in told])
        pageable = np.array([-1 if is_so is None else int(is_so) for _, is_so in told])
        self._counts["copy-direction"] += int(np.array([direction is None for direction, _ in told])[codes].sum())
        self.devices.add(len(args), columns | {"kind": kinds[codes].astype(np.uint8), "pageable": pageable[codes]})

    def _memsets(self, events: list[Any], start_ns: Ints, end_ns: Ints) -> None:
        if events:
            args, columns = self._device(DEVICE_KINDS.index("memset"), events, start_ns, end_ns)
            self.devices.add(len(args), columns)

    def _memory(self, events: list[Any]) -> None:
        events = [event for event in events if event.name == MEMORY]
        if not events:
            return
        times, known = times_of(events)
        args = args_of(events)
        size = numbers(args, "memory_bytes")
        known &= size != NULL
        self._counts["no-time"] += int((~known).sum())
        on_host = numbers(args, "memory_type") == DEVICE_TYPE_HOST
        columns = {
            "time_ns": times,
            "device": np.where(on_host, -1, numbers(args, "memory_device").clip(-1, 2**31 - 1)),
            "bytes": size,
            "allocated_bytes": numbers(args, "memory_allocated"),
            "reserved_bytes": numbers(args, "memory_reserved"),
        }
        self.memory.add(int(known.sum()), {name: values[known] for name, values in columns.items()})

    def _others(self, events: list[Any]) -> None:
        """Events without a category: names of threads, and what other tools write."""
        foreign = []
        for event in events:
            if event.ph == "M":
                if event.name == "thread_name" and event.args is not None and event.args.name is not None:
                    self.thread_names[event.pid, event.tid] = str(event.args.name)
            elif event.ph in ("X", None, ""):
                foreign.append(event)
            elif event.ph not in ("i", "I", "s", "t", "f"):
                self._counts["other"] += 1
        self._counts["no-category"] += sum(event.ph == "X" for event in foreign)
        self._hosts("annotation", foreign)


_NO_HOST: Final[dict[str, Any]] = {"correlation": NULL, "external": NULL, "sequence": NULL, "shapes": -1, "types": -1, "stack": -1}
_NO_DEVICE: Final[dict[str, Any]] = {
    "pageable": -1, "grid": -1, "block": -1, "registers": NULL, "occupancy": math.nan, "group_size": NULL, "from_graph": False,
}  # fmt: skip
