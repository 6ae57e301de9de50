"""Runs in the environment of Holistic Trace Analysis: one trace's breakdowns as JSON on standard output.

`python peers_hta.py TRACE`. Beside HTA's own numbers it tells which device events they are about: HTA leaves out the last profiler step.
Its table of kernel types cuts every stretch to whole microseconds, whatever its options, so that each type's time is also given as its
own function merges it.
"""

from __future__ import annotations

import json
import logging
import sys
import warnings


def main() -> int:
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    from hta.trace_analysis import TraceAnalysis
    from hta.utils.utils import get_kernel_type, merge_kernel_intervals

    analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="/")
    events = analysis.t.get_trace(0)
    names = analysis.t.symbol_table.get_sym_table()
    device = events[events["stream"].ne(-1)]
    totals = device.groupby("name")["dur"].sum()
    counted = {}
    for kind, table in (
        ("temporal", analysis.get_temporal_breakdown),
        ("types", lambda visualize: analysis.get_gpu_kernel_breakdown(visualize)[0]),
    ):
        counted[kind] = table(visualize=False).to_dict("records")
    counted["correlations"] = [int(number) for number in device["correlation"]]
    counted["events"] = len(device)
    counted["synchronizations"] = int(device["name"].map(names.__getitem__).str.contains(r" Sync$|^Context Sync|Stream Wait").sum())
    counted["kinds"] = {names[code]: get_kernel_type(names[code]) for code in totals.index}
    merged = {
        kind: merge_kernel_intervals(rows.copy())
        for kind, rows in device.groupby(device["name"].map(names.__getitem__).map(get_kernel_type))
    }
    counted["merged_us"] = {kind: float((rows["end"] - rows["ts"]).sum()) for kind, rows in merged.items()}
    counted["totals_us"] = {names[code]: float(us) for code, us in totals.items()}
    json.dump(counted, sys.stdout, default=float)
    return 0


if __name__ == "__main__":
    sys.exit(main())
