"""The ledger: every instant of the window belongs to one part of one stage, on the host and on the device.

`charge.py` charges time, whatever the source: what the host did (lanes) and what the device did come to it in the form of
`timeline/spine.py`. `recording_ledger.py` and `trace_ledger.py` make these of a recording and of a trace, and name what was charged.

    recording   trainer_spans.py -> charge.py -> waits divided (batches/producers.py), gaps named, closures.py, delays.py;
                what a framework only counts: counted.py, of a device that works while the host goes on: counted_device.py
    trace       lanes_beside_device.py (stage_ranges.py, beside_model.py, own_work.py) -> charge.py, idle.py -> gap_rows.py
                lane_without_device.py -> charge.py
"""
