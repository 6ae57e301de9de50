"""Who called: the framework operator and the function of the user's code around instants of host threads, and around launches.

An event of the device is led back to the host by its correlation: the call of the runtime that launched it, and what stood around that
call. Where the trace has no correlation, by the number of the operator (`external`). A backward operator has no Python frame of the model
around it: its function is that of the forward operator with the same number. Of several operators with one number the one that began
last made the node (PyTorch, torch/csrc/autograd/profiler_kineto.cpp). Numbers are counted by thread; traces of this kind do not say of
which, so that with several threads that go forward it may be that of another thread's.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

import numpy as np
import polars as pl

from slowstep.analyses.events.enclosing import Nesting, pieces_of
from slowstep.analyses.events.names import as_text, matches
from slowstep.analyses.events.runtime_calls import calls_of_runtime
from slowstep.analyses.python.user_places import user_places
from slowstep.frameworks._events import Event
from slowstep.frameworks._known import events
from slowstep.timeline.intervals import Flags, Ints, RowNumbers
from slowstep.timeline.timeline import Timeline

# As frameworks name their operators (`aten::mm`); an engine of gradients may wrap them in nodes that are named in the same way.
NAMED: Final = r"^[A-Za-z_]\w*::"
SPAN_KINDS: Final = ("operator", "python")
SPAN_COLUMNS: Final = ("thread", "start_ns", "end_ns", "kind", "name", "shapes", "types", "stack")


class Callers:
    """What stood around instants of one trace's host threads. Made once and handed to all that ask."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        host = timeline.rows("host_events", *SPAN_COLUMNS, "sequence", kinds=SPAN_KINDS)
        self.nesting = Nesting(host["thread"].to_numpy(), host["start_ns"].to_numpy(), host["end_ns"].to_numpy())
        where = self._describe(host)
        self._module = self._modules(host)
        self.nesting.forget_levels()
        # Operators and Python functions, with the user's function: what an index of `indices_around` points into.
        unknown = where.null_count() == len(where)
        self.spans = host.select("kind", "name", "shapes", "types", where=pl.lit(None, dtype=pl.Categorical) if unknown else where)

    def times(self) -> pl.DataFrame:
        """`thread`, `start_ns` and `end_ns` of every row of `spans`."""
        return self._timeline.rows("host_events", "thread", "start_ns", "end_ns", kinds=SPAN_KINDS)

    def around(self, threads: pl.Series | Ints | RowNumbers, times_ns: pl.Series | Ints) -> pl.DataFrame:
        """What stands around instants of host threads, shape (m,) each; a null thread or time is around nothing.

        Columns: `operator`, of the framework operators around the instant that call one another the outermost (`aten::item`, not its
        `aten::_local_scalar_dense`), or the innermost range of another kind of name; `innermost`, the innermost operator; `where`, the
        user's function; `backward`, whether autograd's backward called it. Null where there is none, as are all where nothing is around.
        """
        return self.describe(self.indices_around(threads, times_ns))

    def indices_around(self, threads: pl.Series | Ints | RowNumbers, times_ns: pl.Series | Ints) -> Ints:
        """Row in `spans` of the innermost operator or Python function at each instant; -1 where there is none."""
        known = _known(threads) & _known(times_ns)
        found = self.nesting.innermost(_filled(threads), _filled(times_ns))
        return np.asarray(np.where(known, found, -1), dtype=np.int64)

    def describe(self, indices: Ints | RowNumbers) -> pl.DataFrame:
        """The columns of `around` for rows of `spans`; -1 is none."""
        found = self.categories(indices)
        return found.with_columns(as_text(found[name]) for name in ("operator", "innermost", "where"))

    def categories(self, indices: Ints | RowNumbers) -> pl.DataFrame:
        """The same, with names and lines as categories."""
        names = self.spans.select("name")
        columns = {
            "operator": _gather(names, _taken(self._outermost, indices))["name"],
            "innermost": _gather(names, self.innermost_operator(indices))["name"],
            "where": _gather(self.spans.select("where"), indices)["where"],
            "backward": pl.Series(_taken(self._nodes, indices) >= 0).set(pl.Series(indices < 0), None),
        }
        return pl.DataFrame(columns)

    def modules(self, indices: Ints | RowNumbers) -> pl.Series | None:
        """The innermost nn.Module around rows of `spans` (-1 is none), of a backward operator that around its forward, as `Linear_3`;
        categorical, null where there is none. None where the trace names no modules.
        """
        if self._module is None:
            return None
        found = _gather(self.spans.select("name"), _taken(self._module, indices))["name"]
        distinct = found.drop_nulls().unique()
        texts = distinct.cast(pl.String).str.replace(events(Event.MODULE), "").cast(pl.Categorical)
        named = pl.DataFrame({"name": distinct, "module": texts})
        return found.to_frame("name").join(named, on="name", how="left", maintain_order="left")["module"]

    @property
    def backward(self) -> pl.Series:
        """Whether autograd's backward called each row of `spans`."""
        return pl.Series("backward", self._nodes >= 0)

    @property
    def _nodes(self) -> RowNumbers:
        """The innermost node of autograd's backward around each row of `spans`; -1 where there is none."""
        return np.full(len(self.nesting), -1, dtype=np.int32) if self._backward is None else self._backward

    def innermost_operator(self, indices: Ints | RowNumbers) -> Ints:
        """Row in `spans` of the innermost operator of itself and those around each row; -1 where there is none."""
        return _taken(self._operators, indices)

    @property
    def _operators(self) -> RowNumbers:
        return np.arange(len(self.nesting), dtype=np.int32) if self._innermost is None else self._innermost

    def inputs(self, indices: Ints | RowNumbers) -> pl.DataFrame:
        """What the innermost operator of each row of `spans` takes (`shapes`, `types`), and `outer_shapes` of its `operator`."""
        inner = _gather(self.spans.select("shapes", "types"), self.innermost_operator(indices))
        outer = _taken(self._outermost, indices)
        return inner.with_columns(_gather(self.spans.select("shapes"), outer)["shapes"].alias("outer_shapes"))

    def launched(self, rows: Ints | RowNumbers | None = None) -> pl.DataFrame:
        """One row per row of `device_events` (or per row whose number is given): the host call that launched it, what stood around that.

        Columns: those of `launch_calls`, `call` as text, and those of `around`.
        """
        calls = self.launch_calls if rows is None else self.launch_calls[rows]
        around = self.describe(calls["span"].to_numpy())
        return pl.concat([calls.with_columns(as_text(calls["call"])), around], how="horizontal")

    @cached_property
    def launch_calls(self) -> pl.DataFrame:
        """One row per row of `device_events`, in its order: `span`, the row in `spans` of what stood around its launch, -1 for none; of the
        host call `call`, `call_thread`, `call_start_ns`, `call_end_ns`, null where it is not in the trace.
        """
        device = self._timeline.rows("device_events", "correlation", "external")
        calls = calls_of_runtime(self._timeline).drop_nulls("correlation")
        # A call of the runtime may be traced once more as the call of the driver that it makes.
        calls = calls.sort("kind", maintain_order=True).unique("correlation", keep="first", maintain_order=True)
        calls = calls.select("correlation", call="name", call_thread="thread", call_start_ns="start_ns", call_end_ns="end_ns")
        rows = device.join(calls, on="correlation", how="left", maintain_order="left")
        span = self.indices_around(rows["call_thread"], rows["call_start_ns"])
        span = np.where(_known(rows["call_thread"]), span, self._by_external(rows["external"]))
        return rows.select("call", "call_thread", "call_start_ns", "call_end_ns", pl.Series("span", span, dtype=pl.Int32))

    def _by_external(self, external: pl.Series) -> Ints:
        if external.null_count() == len(external):
            return np.full(len(external), -1, dtype=np.int64)
        spans = self._timeline.rows("host_events", "external", "kind", kinds=SPAN_KINDS)
        spans = spans.with_row_index("span").filter(pl.col("external").is_not_null() & (pl.col("kind") == "operator"))
        spans = spans.unique("external", keep="last").select("external", pl.col("span").cast(pl.Int64))
        rows = external.to_frame("external").join(spans, on="external", how="left", maintain_order="left")
        return rows["span"].fill_null(-1).to_numpy()

    def _describe(self, host: pl.DataFrame) -> pl.Series:
        name, row = host["name"], np.arange(host.height, dtype=np.int32)
        operator = host["kind"] == "operator"
        named_so = operator & matches(name, NAMED) & ~matches(name, events(Event.ENGINE))
        # What the trace does not tell takes no room: without Python functions each row is its own operator.
        self._innermost = None if bool(operator.all()) else self.nesting.inherit(np.where(operator, row, -1))
        nodes = operator & matches(name, events(Event.GRADIENT_NODE))
        self._backward = self.nesting.inherit(np.where(nodes, row, -1)) if bool(nodes.any()) else None
        named = self.nesting.inherit(np.where(named_so, row, -1), outermost=True)
        self._outermost = np.where((named >= 0) & self._most_inside(host, named), named, self._operators)
        return self._where(host)

    @staticmethod
    def _most_inside(host: pl.DataFrame, around: RowNumbers) -> Flags:
        """Whether half of each row or more lies in the row that is said to be around it: in a damaged trace what began inside may go on
        after."""
        start, end, found = host["start_ns"].to_numpy(), host["end_ns"].to_numpy(), np.zeros(len(around), dtype=np.bool_)
        for rows in pieces_of(len(around)):
            inside = end[around[rows]] - start[rows]
            found[rows] = 2 * inside >= end[rows] - start[rows]
        return found

    def _where(self, host: pl.DataFrame) -> pl.Series:
        functions = host["name"].set(host["kind"] != "python", None)
        lines = user_places(functions, host["stack"])
        if lines.null_count() == len(lines):
            return lines
        own = self.nesting.inherit(np.where(lines.is_not_null(), np.arange(host.height), -1))
        where = _gather(lines.to_frame("where"), own)["where"]
        # A function that the backward itself calls, as checkpointed ones that run again, is nearer than the forward's line.
        node_start = np.append(host["start_ns"].to_numpy(), 0)[self._nodes]
        own_start = np.append(host["start_ns"].to_numpy(), np.iinfo(np.int64).min)[own]
        of_forward = _gather(self._forward_values(host, where).to_frame("where"), self._with_sequence(host))["where"]
        foreign = pl.Series((self._nodes >= 0) & (own_start < node_start)) & of_forward.is_not_null()
        return where.zip_with(~foreign, of_forward)

    def _modules(self, host: pl.DataFrame) -> RowNumbers | None:
        """Row of the innermost nn.Module around each row, or around its forward; -1 where there is none, None without any."""
        row = np.arange(host.height, dtype=np.int64)
        is_module = (host["kind"] == "python") & matches(host["name"], events(Event.MODULE))
        if not bool(is_module.any()):
            return None
        own = self.nesting.inherit(np.where(is_module, row, -1)).astype(np.int64)
        forward = self._forward_values(host, pl.Series("module", own).set(pl.Series(own < 0), None))
        of_forward = _gather(forward.to_frame("module"), self._with_sequence(host))["module"].fill_null(-1).to_numpy()
        return np.where(own >= 0, own, of_forward).astype(np.int32)

    def _with_sequence(self, host: pl.DataFrame) -> RowNumbers:
        """The innermost backward node with a sequence number around each row; -1 where there is none."""
        numbered = host["sequence"].is_not_null().to_numpy() & (self._nodes == np.arange(host.height))
        return self.nesting.inherit(np.where(numbered, np.arange(host.height), -1))

    def _forward_values(self, host: pl.DataFrame, values: pl.Series) -> pl.Series:
        """Of each row the value of the forward operator with its sequence number; null where there is none."""
        rows = host.select("sequence", "start_ns").with_columns(values.alias("value"), self.backward)
        forward = rows.filter(~pl.col("backward") & pl.col("sequence").is_not_null() & pl.col("value").is_not_null())
        forward = forward.sort("start_ns").unique("sequence", keep="last").select("sequence", "value")
        return rows.select("sequence").join(forward, on="sequence", how="left", maintain_order="left")["value"]


def _taken(values: RowNumbers, indices: Ints | RowNumbers) -> Ints:
    """The values at indices, shape (m,); -1 at -1."""
    if not len(values):
        return np.full(len(indices), -1, dtype=np.int64)
    return np.asarray(np.where(indices >= 0, values[np.maximum(indices, 0)], -1), dtype=np.int64)


def _gather(frame: pl.DataFrame, indices: Ints | RowNumbers) -> pl.DataFrame:
    wanted = pl.Series("row", indices, dtype=pl.Int64)
    return frame.select(pl.all().gather(wanted.set(wanted < 0, None))) if frame.height else frame.clear(len(indices))


def _known(values: pl.Series | Ints | RowNumbers) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return values.is_not_null().to_numpy() if isinstance(values, pl.Series) else np.ones(len(values), dtype=np.bool_)


def _filled(values: pl.Series | Ints | RowNumbers) -> Ints:
    return values.fill_null(0).cast(pl.Int64).to_numpy() if isinstance(values, pl.Series) else values.astype(np.int64, copy=False)
