"""The ledger: every instant of the window belongs to one part of one stage, on the host and on the device.

`charge.py` charges time, whatever the source: what the host did (lanes) and what the device did come to it in the form of
`timeline/spine.py`. `recording_ledger.py` and `trace_ledger.py` make these of a recording and of a trace, and name what was charged.

    recording   trainer_spans.py -> charge.py -> waits divided (batches/producers.py, then batches/sampler.py and batches/transfer.py: the
                order is in recording_analyses.py), gaps named, closures.py, delays.py; what a framework only counts: move_counted.
                Of a device that works while the host goes on: by what is counted of it, or where nothing is known, counted_device.py,
                which leaves time `unknown` that it cannot place; by asking it with every stack probed_device.py. A hook asks
                (frameworks/jax/inside/jitted.py, frameworks/torch/inside/_answers/device_events.py), through record/timing/stacks.py,
                and the answer is the column `device_idle` of stacks.
    trace       lanes_beside_device.py (stage_ranges.py, beside_model.py, own_work.py) -> charge.py, idle.py -> gap_rows.py; the same
                within bounds where the device's work is not in the trace: seen_from_host.py; or where its clock is not the host's:
                timeline/clocks.py, whose offset device/clocks.py finds
                lane_without_device.py -> charge.py
"""

from typing import Final

# Of the timeline: what this package reads, and nothing else (tests/declared_tables.py).
TABLES: Final = frozenset({"cpu_marks", "device_events", "handed_work", "host_events", "marked_steps"})
