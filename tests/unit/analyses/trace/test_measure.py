from __future__ import annotations

from dataclasses import replace

import polars as pl

from made_traces import device, host, made_trace, step
from slowstep.analyses.trace.measure import measure_trace


def test_the_device_that_is_named_is_the_one_whose_kernels_are_judged():
    made = made_trace(
        hosts=[host("aten::mm", 0, 5), host("cudaLaunchKernel", 1, 2, "runtime", correlation=7)],
        devices=[device("gemm", 3, 9, correlation=7, device=0), device("Memcpy HtoD", 0, 90, "h2d", device=1)],
        steps=[step(1, 0, 50), step(2, 50, 100)],
    )
    names = made.table("trace_devices").with_columns(pl.Series("name", ["computes", "copies"]))
    timeline = replace(made, tables={**made.tables, "trace_devices": names})

    assert measure_trace(timeline).device_name == "computes"
