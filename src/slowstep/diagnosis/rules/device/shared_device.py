"""Somebody else computes on the training's accelerator.

What it sees:
    In at least half of the readings with a process of the training on the device, a process that is not the training's is there too.
Why it costs:
    Their kernels take turns with the training's, and their memory is not to be had.
How the gain is predicted:
    Not at all: that a process is there does not say how much it computes.
When it is wrong:
    A notebook that was left open holds memory and computes nothing. In a container the driver may not say whose processes it lists: then
    this is not judged. Graphics (a desktop) are not listed, and not blamed.
What to try:
    Another device (CUDA_VISIBLE_DEVICES=N), or end what was forgotten there: nvidia-smi lists the processes.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.reasons import Wording
from slowstep.units import MIB

NAME = "shared-device"
SHARED_SHARE = 0.5

PROCESSES_NOT_MEASURED = Wording("processes-not-measured", "which processes use the training's device was not measured")


def judge(m: Measurements) -> Answer:
    """Whether a device of the training has other tenants most of the time."""
    if m.compute.device == "cpu":
        return None
    known = [device for device in m.machine.resources.devices if device.shared is not None]
    if not known:
        return NotJudged(rule=NAME, reason=PROCESSES_NOT_MEASURED())
    device = max(known, key=lambda one: one.shared or 0.0)
    if (device.shared or 0.0) < SHARED_SHARE:
        return None
    held = None if device.others_bytes is None else device.others_bytes / MIB
    evidence = (
        Evidence(
            name="readings with other processes on it",
            value=device.shared,
            unit="share",
            threshold=SHARED_SHARE,
            where=f"device {device.device}",
        ),
        Evidence(name="memory that they hold", value=held, unit="MiB"),
        Evidence(name="device busy, everybody's kernels", value=device.busy_share, unit="share of time"),
    )
    title = f"another process computes on device {device.device} too"
    fixes = ("use another device (CUDA_VISIBLE_DEVICES=N), or end processes that were left behind there: nvidia-smi lists them",)
    return advice(NAME, "compute", title, evidence, "no other process used the device", fixes, outside=True)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "machine"), judge=judge, advisory=True)
