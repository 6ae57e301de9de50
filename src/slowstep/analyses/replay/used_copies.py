"""Which read-backs a step needs itself: the host computes on what was read, and sends the result back to the device.

So do optimizers that are kept on the host (ZeRO-Offload): gradients go to it, parameters come back. Without such a copy the host still has
to wait for what is copied: it cannot run ahead of it. A read-back that is only looked at, as a loss, is no such one.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from slowstep.analyses.device.copies import LARGE_BYTES
from slowstep.analyses.replay.scene import Scene
from slowstep.timeline.intervals import Flags, Ints


def used_by_host(scene: Scene, returns: Flags, copies: Flags) -> Flags:
    """Of the nodes at which calls return that waited for copies to the host, those after which an operator of the host computes and the
    next that is launched, but for other such copies, is a copy to the device: flags by node.

    Where a wait for input lies between, the copy brings the next batch.
    """
    found = np.zeros(scene.graph.nodes, dtype=np.bool_)
    nodes = np.flatnonzero(returns & scene.graph.on_main)
    operators = scene.step.host_operators
    if not len(nodes) or operators is None:
        return found
    sends = scene.where((pl.col("kind") == "h2d") & (pl.col("bytes") >= LARGE_BYTES))
    launching, sending = _launching(scene, copies), scene.launchers(sends)
    at = scene.graph.observed
    following = np.searchsorted(at[launching], at[nodes], side="right")
    nodes, following = nodes[following < len(launching)], following[following < len(launching)]
    launch = launching[following]
    begin, end = _instants(scene, nodes), _instants(scene, launch)
    computes = operators.covered(end) > operators.covered(begin)
    loads = scene.step.loader.covered(end) > scene.step.loader.covered(begin)
    found[nodes[computes & ~loads & sending[scene.graph.call[launch]]]] = True
    return found


def _launching(scene: Scene, copies: Flags) -> Ints:
    """Nodes at which the main logical thread calls what launches anything else than these copies, in order of time."""
    graph, calls = scene.graph, scene.trace.material.calls
    others = calls.launches & ~scene.launchers(copies)
    nodes = np.flatnonzero(graph.on_main & (graph.call >= 0) & ~graph.returns)
    nodes = nodes[others[graph.call[nodes]]]
    return nodes[np.argsort(graph.observed[nodes], kind="stable")]


def _instants(scene: Scene, nodes: Ints) -> Ints:
    return scene.graph.observed[nodes].astype(np.int64) + scene.step.begin_ns
