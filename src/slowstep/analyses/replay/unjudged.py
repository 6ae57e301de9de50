"""Why a step, or what a change to it would do, cannot be known by replay; and how the table `replay` keeps it: a code, and its values."""

from __future__ import annotations

import json
from typing import Final

from slowstep.analyses.device.clocks import AHEAD_AT_LAUNCHES, AHEAD_AT_WAITS, BEHIND
from slowstep.reasons import Reason, Wording

# Of all of it.
NOTHING_LAUNCHED: Final = Wording("nothing-launched", "no host thread launches work in the trace")
TRACE_TOO_LARGE: Final = Wording(
    "trace-too-large",
    "the trace shows no steps, and all of it holds at least {events:,} calls and kernels, more than the {most:,} that are replayed; "
    "mark its steps",
)
STEP_TOO_LARGE: Final = Wording(
    "step-too-large", "one step holds at least {events:,} calls and kernels, more than the {most:,} that are replayed"
)
# Of a step.
DELAYS_IN_STEP: Final = Wording("delays-in-step", "{share:share} of the step are delays that no dependency in the trace explains")
REBUILT_OTHERWISE: Final = Wording(
    "rebuilt-otherwise",
    "the step took {took:ms} ms, and rebuilt from its own events {rebuilt:ms} ms: "
    "it depends on steps before it, so what a change would gain cannot be told from it alone",
)
NO_DEVICE_WORK: Final = Wording("no-device-work-in-step", "no device work of this step is in the trace")
NO_LAUNCH: Final = Wording("no-launch-in-step", "no launch of this step is in the trace")
# Of a change.
DELAYS_THEN: Final = Wording(
    "delays-then", "{share:share} of what the step would then take are delays that no dependency in the trace explains"
)
HOST_TIME_THEN: Final = Wording(
    "host-time-then",
    "{share:share} of what the step would then take are delays that no dependency in the trace explains, or host time without any call, "
    "of which it is not seen whether the host works or waits for the device",
)
# What an operator would take on a processor if it were another one, no trace tells; a device's kernels have known speeds.
ON_A_PROCESSOR: Final = Wording(
    "on-a-processor",
    "a replay cannot tell how long other operators take on a processor: measure it with slowstep run, or slowstep prove",
)
NO_INPUT_NAMED: Final = Wording("no-input-named", "the trace names no wait for input")
HOST_OPERATORS_UNSEEN: Final = Wording("host-operators-unseen", "the trace does not show which operators ran on the host")
ELIGIBLE_UNSEEN: Final = Wording("eligible-unseen", "the trace does not show which kernels could use Tensor Cores")
PINNED_UNSEEN: Final = Wording("pinned-unseen", "the trace does not distinguish pageable from pinned copies")
COPIED_BYTES_UNSEEN: Final = Wording("copied-bytes-unseen", "the trace does not have the copies' bytes")
SHARED_BYTES_UNSEEN: Final = Wording("shared-bytes-unseen", "the trace does not have the collectives' bytes")
NO_STEPS_SHOWN: Final = Wording("no-steps-shown", "the trace shows no steps")

_OF_CODE: Final = {
    wording.code: wording
    for wording in (
        BEHIND,
        AHEAD_AT_LAUNCHES,
        AHEAD_AT_WAITS,
        NOTHING_LAUNCHED,
        TRACE_TOO_LARGE,
        STEP_TOO_LARGE,
        DELAYS_IN_STEP,
        REBUILT_OTHERWISE,
        NO_DEVICE_WORK,
        NO_LAUNCH,
        DELAYS_THEN,
        HOST_TIME_THEN,
        ON_A_PROCESSOR,
        NO_INPUT_NAMED,
        HOST_OPERATORS_UNSEEN,
        ELIGIBLE_UNSEEN,
        PINNED_UNSEEN,
        COPIED_BYTES_UNSEEN,
        SHARED_BYTES_UNSEEN,
        NO_STEPS_SHOWN,
    )
}


def unjudged_columns(reason: Reason) -> dict[str, str]:
    """A reason as columns of the table `replay`."""
    return {"not_judged": reason.code, "not_judged_values": json.dumps(dict(reason.values))}


def reason_of(code: str, values: str) -> Reason:
    """The reason that `unjudged_columns` kept. Raises KeyError for a code of no such reason."""
    return _OF_CODE[code](**json.loads(values))
