"""Scenarios in which the device works faster, copies less or communicates beside its work: a step's variants, or why there are none."""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.device.copies import LARGE_BYTES
from slowstep.analyses.replay import assumed
from slowstep.analyses.replay.assumed import Assumed
from slowstep.analyses.replay.graph import RETURN
from slowstep.analyses.replay.scene import Changed, Edit, Intervals, Scene
from slowstep.analyses.replay.unjudged import COPIED_BYTES_UNSEEN, ELIGIBLE_UNSEEN, NO_STEPS_SHOWN, PINNED_UNSEEN, SHARED_BYTES_UNSEEN
from slowstep.analyses.replay.used_copies import used_by_host
from slowstep.analyses.steps.steps import Floats
from slowstep.reasons import Reason
from slowstep.timeline.intervals import Flags, Ints

ELIGIBLE = pl.col("eligible") & ~pl.col("tensor_core").fill_null(value=False)
FULL = pl.col("precision") == "float32"
HALF = pl.col("precision").is_in(["float16", "bfloat16"])


def half_precision(scene: Scene) -> Changed | Reason | None:
    """Matrix products and convolutions of full precision that could use Tensor Cores, at their 16-bit time."""
    return _unknown_kernels(scene) or _faster(scene, ELIGIBLE & FULL, assumed.half_precision(scene.trace.device))


def aligned_shapes(scene: Scene) -> Changed | Reason | None:
    """16-bit products whose sizes keep them off the Tensor Cores, at the time of sizes that suit."""
    return _unknown_kernels(scene) or _faster(scene, ELIGIBLE & HALF, assumed.aligned_shapes(scene.trace.device))


def single_precision(scene: Scene) -> Changed | Reason | None:
    """Kernels of float64 at their float32 time."""
    return _faster(scene, pl.col("precision") == "float64", assumed.single_precision(scene.trace.device))


def _unknown_kernels(scene: Scene) -> Reason | None:
    known = scene.step.events.filter(pl.col("eligible").is_not_null())
    return None if known.height else ELIGIBLE_UNSEEN()


def _faster(scene: Scene, condition: pl.Expr, factor: Assumed) -> Changed | None:
    nodes = scene.where((pl.col("kind") == "kernel") & condition)
    if not nodes.any():
        return None
    return Changed.of(scene.edit().scale(nodes, 1 / f) for f in (factor.expected, factor.optimistic, factor.pessimistic))


def fused_elementwise(scene: Scene) -> Changed | Reason | None:
    """Of each run of elementwise kernels that follow one another on a stream the longest stays, and a part of the others."""
    elementwise = scene.where((pl.col("class") == "elementwise") & ~pl.col("name").str.contains("(?i)triton_|fusion"))
    work, nodes = scene.trace.material.work, scene.step.nodes
    order = nodes[np.lexsort((nodes, work.stream[scene.graph.work[nodes]]))]
    stream = work.stream[scene.graph.work[order]]
    member = elementwise[order]
    opens = np.append(True, (stream[1:] != stream[:-1]) | ~member[1:] | ~member[:-1])[: len(order)]
    run = np.cumsum(opens)
    own = scene.graph.duration[order]
    longest = np.zeros(int(run.max(initial=0)) + 1)
    np.maximum.at(longest, run, own)
    size = np.bincount(run, minlength=len(longest))
    shorter = member & (size[run] > 1) & ~_first_longest(run, own, longest)
    others = np.zeros(scene.graph.nodes, dtype=np.bool_)
    others[order[shorter]] = True
    if not others.any():
        return None
    stays = assumed.FUSED_STAYS
    edits = []
    for part in (stays.expected, stays.optimistic, stays.pessimistic):
        edit = scene.edit()
        left = edit.duration[others] * part
        edit.drop(others).duration[others] = left
        edits.append(edit)
    # A fused kernel is launched once: at best its operators' host time goes as well.
    edits[1].remove_host(_launch_time(scene, others))
    return Changed.of(edits)


def _first_longest(run: Ints, own: Floats, longest: Floats) -> Flags:
    is_longest = own == longest[run]
    _, first = np.unique(np.where(is_longest, run, -1), return_index=True)
    flags = np.zeros(len(run), dtype=np.bool_)
    flags[first] = True
    return np.asarray(flags & is_longest)


def _launch_time(scene: Scene, work: Flags) -> Floats:
    """Time of the host calls that launched these nodes, by edge."""
    calls, gone = scene.trace.material.calls, scene.launchers(work)
    return scene.covered(Intervals.union(pl.DataFrame({"start_ns": calls.start[gone], "end_ns": calls.end[gone]})))


def copies_pinned(scene: Scene) -> Changed | Reason | None:
    """Pageable copies at the link's speed, and the host does not wait for those to the device."""
    pageable = scene.where(pl.col("kind").is_in(["h2d", "d2h"]) & pl.col("pageable"))
    if not pageable.any():
        known = scene.step.events.filter(pl.col("kind").is_in(["h2d", "d2h"]) & pl.col("pageable").is_null()).height
        return PINNED_UNSEEN() if known else None
    size, to_device = scene.column("bytes"), pageable & scene.where(pl.col("kind") == "h2d")
    if np.isnan(size[pageable]).any():
        return COPIED_BYTES_UNSEEN()
    speed, edits = assumed.link_gb_per_s(scene.trace.device), []
    for gb_per_s in (speed.expected, speed.optimistic, speed.pessimistic):
        edit = scene.edit()
        at_speed = np.maximum(size[pageable] / gb_per_s, assumed.COPY_AT_LEAST_NS)
        edit.duration[pageable] = np.minimum(edit.duration[pageable], at_speed)
        edits.append(_asynchronous(scene, edit, to_device))
    return Changed.of(edits)


def _asynchronous(scene: Scene, edit: Edit, copies: Flags) -> Edit:
    """Let the calls that launch these copies return as soon as a call can."""
    calls = scene.trace.material.calls
    launchers = scene.launchers(copies)
    long = scene.covered(Intervals.union(pl.DataFrame({"start_ns": calls.start[launchers], "end_ns": calls.end[launchers]})))
    edit.never_wait(scene.returns_of(launchers))
    return edit.remove_host(np.maximum(long - scene.graph.own_call, 0.0))


def copies_overlapped(scene: Scene) -> Changed | Reason | None:
    """Copies to the device leave the way of the kernels: a step takes at least as long as all of them on their link."""
    copies = scene.where(pl.col("kind") == "h2d")
    if not copies.any():
        return None
    edits = []
    for _ in range(3):
        edit = scene.edit()
        edit.at_least = float(edit.duration[copies].sum())
        edits.append(_asynchronous(scene, edit.drop(copies), copies))
    # At worst the copies slow down what they run beside: they stay in the way of kernels for a tenth of their time.
    edits[2].duration[copies] = 0.1 * scene.graph.duration[copies]
    return Changed.of(edits)


def no_repeated_copies(scene: Scene) -> Changed | Reason | None:
    """The copies that the table `copies` calls repeated go."""
    table = scene.trace.table("copies")
    if table.is_empty():
        return None
    places = table.filter(pl.col("repeated")).select("kind", "operator", "where", pl.lit(value=True).alias("again")).unique()
    found = scene.step.events.join(places, on=["kind", "operator", "where"], how="left", nulls_equal=True, maintain_order="left")
    nodes = np.zeros(scene.graph.nodes, dtype=np.bool_)
    nodes[scene.step.nodes] = found["again"].fill_null(value=False).to_numpy()
    return _without(scene, nodes)


def no_readbacks(scene: Scene) -> Changed | Reason | None:
    """Copies to the host go, with the waits of the calls that asked for them and for their streams right after.

    Where the host computes on large ones and sends the result back it waits as long as what is copied takes to be ready.
    """
    copies = scene.where(pl.col("kind") == "d2h")
    large = copies & scene.where(pl.col("bytes") >= LARGE_BYTES)
    used = used_by_host(scene, _waits_for(scene, large), copies) if large.any() else None
    return _without(scene, copies, used)


def no_device_copies(scene: Scene) -> Changed | Reason | None:
    """Copies within the device go."""
    return _without(scene, scene.where(pl.col("kind") == "d2d"))


def _without(scene: Scene, copies: Flags, kept: Flags | None = None) -> Changed | None:
    """The step without these copies and the waits for them; at the nodes `kept` calls still wait for what was copied."""
    if not copies.any():
        return None
    waits = _waits_for(scene, copies)
    waits = waits if kept is None else waits & ~kept
    edit = scene.edit().drop(copies)
    edit.never_wait(waits).remove_host(_launch_time(scene, copies))
    # At worst the host still makes the calls.
    pessimistic = scene.edit().drop(copies).never_wait(waits)
    return Changed(edit.variant(), edit.variant(), pessimistic.variant())


def _waits_for(scene: Scene, work: Flags) -> Flags:
    """Nodes at which calls return that waited for one of these nodes. Allocations wait for whatever the device has to do: they still do."""
    graph, calls = scene.graph, scene.trace.material.calls
    flags = np.zeros(graph.nodes, dtype=np.bool_)
    last = np.zeros(graph.nodes)
    waits = graph.kind == RETURN
    np.maximum.at(last, graph.target[waits], graph.observed[graph.source[waits]])
    own = waits & work[graph.source] & ~calls.allocates[graph.call[graph.target]]
    flags[graph.target[own & (graph.observed[graph.source] >= last[graph.target])]] = True
    return flags


def communication_overlapped(scene: Scene) -> Changed | Reason | None:
    """Collectives beside the computing after their launch, as far as it reaches."""
    shared = scene.where(pl.col("collective"))
    if not shared.any():
        return None
    exposed, beside = _exposed_and_hiding(scene, shared)
    if exposed.sum() <= 0:
        return None
    edits = []
    for part in (assumed.HIDES.expected, assumed.HIDES.optimistic, assumed.HIDES.pessimistic):
        edit = scene.edit()
        edit.duration -= exposed * min(1.0, beside * part / float(exposed.sum()))
        edit.at_least = float(scene.graph.duration[shared].sum())
        edits.append(edit)
    return Changed.of(edits)


def _exposed_and_hiding(scene: Scene, shared: Flags) -> tuple[Floats, float]:
    """By node, collectives' time with no computing beside it; and how much computing has no collective beside it that could have.

    That is half of it: forward takes a third of a step's computing, and the gradients that are ready last come from its other end.
    """
    work, own = scene.trace.material.work, scene.graph.work

    def busy(nodes: Flags) -> Intervals:
        return Intervals.union(pl.DataFrame({"start_ns": work.start[own[nodes]], "end_ns": work.end[own[nodes]]}))

    computing = busy((own >= 0) & ~shared & ~scene.where(pl.col("kind").is_in(["h2d", "d2h"])))
    start, end = work.start[own[shared]], work.end[own[shared]]
    exposed = np.zeros(scene.graph.nodes)
    exposed[shared] = end - start - (computing.covered(end) - computing.covered(start))
    collectives = busy(shared)
    alone = float(
        (computing.end - computing.start).sum() - (collectives.covered(computing.end) - collectives.covered(computing.start)).sum()
    )
    return exposed, alone / 2


def collectives_merged(scene: Scene) -> Changed | Reason | None:
    """Small collectives of a stream take the latency of one for each bucket that they fill, and the time of their bytes."""
    size = scene.column("bytes")
    shared = scene.where(pl.col("collective"))
    if shared.any() and np.isnan(size[shared]).all():
        return SHARED_BYTES_UNSEEN()
    small = shared & (size < assumed.SMALL_COLLECTIVE_BYTES)
    count = int(small.sum())
    durations = scene.graph.duration[small]
    whole = float(durations.sum())
    if count < 2 or not whole:
        return None
    buckets = max(1, -(-int(size[small].sum()) // assumed.BUCKET_BYTES))
    # The shortest is nearly all latency; at worst only that goes for each, at best all but one are as nothing.
    latency = float(durations.min())
    saved = (count - buckets) * latency
    at_best = max(float(durations.max()) * buckets / whole, 0.0)
    half = (count - buckets) * (latency + float(np.median(durations))) / 2
    factors = (max(1 - half / whole, at_best), at_best, 1 - saved / whole)
    return Changed.of(scene.edit().scale(small, factor) for factor in factors)


def larger_batch(scene: Scene) -> Changed | Reason | None:
    """Half of a step in which kernels, copies and input take twice as long; optimizer and collectives, launches and gaps as long as now."""
    if scene.whole_trace:
        return NO_STEPS_SHOWN()
    grows = scene.where(~pl.col("collective") & (pl.col("class").is_null() | (pl.col("class") != "optimizer")))
    if not grows.any():
        return None
    waits = scene.trace.table("loader")
    input_ns = scene.covered(Intervals.union(waits)) if not waits.is_empty() else np.zeros(len(scene.graph.source))
    # Kernels that take less than a launch do not fill the device: at best they take twice the samples in the same time.
    short = grows & (scene.graph.duration < 10_000)
    edits = [scene.edit().scale(grows, 2.0), scene.edit().scale(grows & ~short, 2.0), scene.edit().scale(scene.graph.work >= 0, 2.0)]
    for edit in edits:
        edit.delay += np.minimum(input_ns, np.maximum(edit.delay, 0.0))
    return Changed.of(edits, samples=2.0)
