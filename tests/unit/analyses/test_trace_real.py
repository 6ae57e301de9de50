from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from made_steps import steps
from slowstep.analyses.device.allocations import find_allocations
from slowstep.analyses.device.copies import find_copies
from slowstep.analyses.device.kernels import find_kernels
from slowstep.analyses.device.placement import find_placement
from slowstep.analyses.device.synchronizations import find_synchronizations
from slowstep.analyses.events.tables import GAPS
from slowstep.analyses.python.callers import Callers

kineto = pytest.importorskip("slowstep.sources.kineto")
DATA = Path(__file__).parents[2] / "data" / "kineto"
WHOLE = steps((0, 10**9))


def test_a_toy_training_on_an_amd_device():
    timeline = kineto.read(DATA / "mi250_toy_step" / "trace.json.gz")
    callers = Callers(timeline)

    matmuls = find_kernels(timeline, WHOLE, callers).filter(pl.col("class") == "matmul")
    places = find_placement(timeline, WHOLE, callers)

    assert set(matmuls["operator"]) == {"aten::linear", "aten::mm"}
    assert set(matmuls["precision"]) == {"float32"}
    assert matmuls["tensor_core"].all()
    assert matmuls["eligible"].all()
    assert set(places["place"]) == {"device", "host"}


def test_the_start_of_a_network_allocates_and_copies_from_pageable_memory():
    timeline = kineto.read(DATA / "a100_alexnet_start" / "trace.json.gz")
    callers = Callers(timeline)

    copies = find_copies(timeline, WHOLE, callers).filter(pl.col("kind") == "h2d")
    waits = find_synchronizations(timeline, WHOLE, GAPS.empty(), callers)

    assert copies.select("operator", "count", "bytes", "pageable", "blocking").rows() == [("aten::to", 16, 244403360, True, True)]
    assert copies["gb_per_s"].item() == pytest.approx(4.4, abs=0.1)
    assert find_allocations(timeline, WHOLE)["allocator_calls"].to_list() == [40]
    assert waits.filter(pl.col("call") == "cudaStreamSynchronize").select("operator", "count").rows() == [("aten::to", 16)]
