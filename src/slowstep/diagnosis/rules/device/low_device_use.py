"""The accelerator has nothing to do for most of the time.

What it sees:
    Kernels of anybody ran on the training's device in less than half of the time, on average over the window.
Why it costs:
    It waits for the training thread: for input, for copies, or for kernels to be launched. The other findings say for which.
How the gain is predicted:
    Not at all: this says that the device waits, not for what.
When it is wrong:
    The driver counts a period as busy in which any kernel ran, however small: the truth is lower, never higher. A training that alternates
    with work on the processor by its nature (environments of reinforcement learning) cannot keep it busy.
What to try:
    What the input findings say; a larger batch; fewer read-backs (.item(), .cpu(), printing a loss in every step).
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "low-device-use"
# The Kineto TensorBoard plugin's and Nsight's.
BUSY_SHARE = 0.5
READINGS_AT_LEAST = 5

USE_NOT_MEASURED = Wording("use-not-measured", "how busy the training's device is was not measured")


def judge(m: Measurements) -> Answer:
    """Whether the training's devices are idle for most of the time."""
    if m.compute.device == "cpu":
        return None
    known = [device for device in m.machine.resources.devices if device.busy_share is not None and device.readings >= READINGS_AT_LEAST]
    if not known:
        return NotJudged(rule=NAME, reason=USE_NOT_MEASURED())
    device = min(known, key=lambda one: one.busy_share or 0.0)
    busy = device.busy_share or 0.0
    if busy >= BUSY_SHARE:
        return None
    evidence = (
        Evidence(name="some kernel ran", value=busy, unit="share of time", threshold=BUSY_SHARE, where=device.name),
        Evidence(name="memory in use at most", value=device.memory_share, unit="share of memory"),
        Evidence(
            name="link while it worked",
            value=_link(device.link),
            unit="",
            where=None if device.most_link is None else f"of at most {_link(device.most_link)}",
        ),
        Evidence(name="readings", value=device.readings, unit="readings"),
    )
    title = f"device {device.device} is idle for {format_share(1 - busy)} of the time: it waits for the training thread"
    readbacks = m.training.words.advise(Remedy.READBACKS)
    fixes = (f"the other findings say what it waits for: input, copies, {readbacks}, or many small kernels",)
    return advice(NAME, "compute", title, evidence, "the device always had work", fixes, share=1 - busy)


def _link(link: tuple[int, int] | None) -> str | None:
    return None if link is None else f"PCIe generation {link[0]}, {link[1]} lanes"


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "machine", "training"), judge=judge, advisory=True)
