"""The accelerator runs below its speed though it has work.

What it sees:
    While the device had work (a kernel ran in a tenth of the time or more), in at least a tenth of the readings: its clocks were lowered
    for heat, by a power brake or a hardware slowdown, or by a power limit below the one it is made for; or its median performance state
    was P5 or slower (P8 and P12 save power), or clocks that an administrator set were below four fifths of the highest.
Why it costs:
    Kernels that compute take as much longer as the clock is lower.
How the gain is predicted:
    Not at all: how much of a step follows the clock is not known. The clock's share of the highest is shown.
When it is wrong:
    A device with little to do rests between its readings and is seen in a low state for that. Full power at its own limit is how a large
    device is meant to run: that is not blamed. What a virtual device reports may be another's.
What to try:
    Cooling and dust for heat; the power limit and application clocks by an administrator: nvidia-smi -q -d PERFORMANCE,CLOCK,POWER says.
"""

from __future__ import annotations

from slowstep.analyses.machine.devices import LOWERED_BY, DeviceUse
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "device-throttled"
# One odd reading of ten is a change of load; five readings are five seconds.
READINGS_AT_LEAST = 5
LOWERED_SHARE = 0.10
# P0 to P2 compute; from P5 on the memory's clock is lowered too (nvidia-smi: P8 and P12 are idle states).
LOW_STATE = 5
SLOW_CLOCK = 0.80
# A limit set within 5 % of the device's own is that one.
OWN_LIMIT = 0.95
BY_POWER, BY_ADMINISTRATOR = LOWERED_BY[0x04], LOWERED_BY[0x02]

CLOCKS_NOT_MEASURED = Wording("clocks-not-measured", "clocks of the training's device were not measured while it worked")


def judge(m: Measurements) -> Answer:
    """Whether a device of the training is slower than it could be while it works."""
    if m.compute.device == "cpu":
        return None
    seen = [device for device in m.machine.resources.devices if device.working >= READINGS_AT_LEAST]
    if not seen:
        return NotJudged(rule=NAME, reason=CLOCKS_NOT_MEASURED())
    for device in seen:
        reason = _reason(device)
        if reason is not None:
            title = f"device {device.device} runs below its full clock speed while it works: {reason}"
            fixes = (
                (
                    "nvidia-smi -q -d PERFORMANCE,CLOCK,POWER says more: better cooling if it is heat, an administrator if it is a limit "
                    "or a fixed clock"
                ),
            )
            return advice(NAME, "compute", title, _evidence(device), "kernels were faster in proportion to the clock", fixes, outside=True)
    return None


def _reason(device: DeviceUse) -> str | None:
    if device.state is not None and device.state >= LOW_STATE:
        return f"performance state P{device.state}"
    for reason, share in sorted(device.lowered.items(), key=lambda item: -item[1]):
        if share >= LOWERED_SHARE and _is_fault(device, reason):
            return f"{reason}, in {format_share(share)} of the readings"
    return None


def _is_fault(device: DeviceUse, reason: str) -> bool:
    if reason == BY_POWER:
        limit, own = device.power_limit_w, device.default_power_limit_w
        return limit is not None and own is not None and limit < OWN_LIMIT * own
    if reason == BY_ADMINISTRATOR:
        return device.sm_mhz is not None and bool(device.most_sm_mhz) and device.sm_mhz < SLOW_CLOCK * (device.most_sm_mhz or 0)
    return True


def _evidence(device: DeviceUse) -> tuple[Evidence, ...]:
    state = None if device.state is None else f"P{device.state}"
    return (
        Evidence(name="performance state", value=state, unit="", where=device.name),
        Evidence(name="clock", value=device.sm_mhz, unit="MHz", threshold=device.most_sm_mhz),
        *(Evidence(name=f"lowered: {reason}", value=share, unit="share of readings") for reason, share in device.lowered.items()),
        Evidence(name="power", value=device.power_w, unit="W", threshold=device.power_limit_w),
        Evidence(name="highest temperature", value=device.temperature_c, unit="degrees C"),
        Evidence(name="readings while busy", value=device.working, unit="readings"),
    )


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "machine"), judge=judge, advisory=True)
