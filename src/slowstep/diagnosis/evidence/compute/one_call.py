"""What one line of a model's own code, and one call of it, hold of the steps, with their backward.

Its forward is known by stacks, its backward by what the others leave of the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slowstep.analyses.compute.fixed_cost import WEIGHT_NS
from slowstep.analyses.compute.forward_line import ForwardCall, ForwardLine
from slowstep.analyses.measurements import Measurements
from slowstep.calibration import computing
from slowstep.diagnosis.evidence.trainer_side import with_core_delay
from slowstep.parts import BACKWARD, BODY

# Of the window: what one layer, or what nobody sees, may hold without a word. A fix of more may gain more than any other.
MOST_OF_STEP = 0.5
_, OTHERS_BACKWARD_AT_MOST = computing.LAYERS_BACKWARD.bounds


@dataclass(frozen=True, kw_only=True, slots=True)
class HeldByCall:
    """Shares of the window, 0 to 1: of the forward's call, and of all with its backward, which is at least `low` and at most `high`.

    `has_backward`: whether it is expected to have one; a call without gradients has none, and then `share` is that of its forward.
    `backward_low` is what its backward holds at least, whatever its forward does, `others_high` what that of all others holds at most, as
    far as is expected, and `rest` what all else of forward and backward does.
    """

    forward: float
    share: float
    low: float
    high: float
    has_backward: bool
    backward_low: float
    others_high: float
    rest: float


def held_by_line(m: Measurements, line: ForwardLine) -> float:
    """Share of the window: a line's part of the forward, and on a processor the same share of backward."""
    if m.compute.device != "cpu":
        return line.share * line.forward_share
    body, backward = _shares(m)
    return line.share * (min(line.forward_share, body) + backward)


def held_by_call(m: Measurements, call: ForwardCall) -> HeldByCall:
    """Its backward is the same share of backward as of the forward, as far as is expected.

    At least it is what the others leave: their backward takes no more than so many times their forward, which holds dispatching them too,
    and the gradients of all weights. At most it is all of backward. Stacks give no call more than its share of what the ledger has.
    """
    body, backward = _shares(m)
    low, own, high = (min(share, call.share * body) for share in (call.low, call.window_share, call.high))
    weights_ns = (m.trainer.facts.graph_elements or 0) * WEIGHT_NS * max(m.trainer.backwards_per_step, 1.0)
    weights = weights_ns / float(m.step_ns.mean())

    def left(forward: float) -> float:
        return backward - OTHERS_BACKWARD_AT_MOST * (body - forward) - weights

    # Who has no gradients leaves backward to the others, who then take no longer than others ever do.
    has_backward, least, most = left(own) > 0, low + max(left(low), 0.0), high + backward
    share = float(np.clip(own + (call.share * backward if has_backward else 0.0), least, most))
    return HeldByCall(
        forward=own,
        share=share,
        low=least,
        high=most,
        has_backward=has_backward,
        backward_low=max(left(low), 0.0),
        others_high=OTHERS_BACKWARD_AT_MOST * (body - own),
        rest=body + backward - share,
    )


def _shares(m: Measurements) -> tuple[float, float]:
    """Of the window: the steps' bodies without backward and optimizer, and backward."""
    whole = float(m.step_ns.sum())
    body, backward = (float(with_core_delay(m, part).sum()) / whole for part in (BODY, BACKWARD))
    return body, backward
