"""For how long a script has to train for an experiment: at least, and so that there is time enough for all of it."""

from __future__ import annotations

from slowstep.prove.lead_in import LeadLimits
from slowstep.prove.stats.design import FEWEST_ARMS, MIN_ROUNDS, block_steps, round_seconds
from slowstep.units import format_about


def shortest_proof_s(step_ms: float) -> float:
    """The seconds from its first update on within which no experiment is done: the shortest lead-in, and the fewest rounds of one lever."""
    limits = LeadLimits()
    lead_in_s = max(limits.enough_s, limits.updates * step_ms / 1000)
    return lead_in_s + MIN_ROUNDS * round_seconds(FEWEST_ARMS, block_steps(step_ms), step_ms)


def train_longer(budget_s: float) -> str:
    """What a script that ended too soon is to do, as a clause. The longest lead-in may take as long again as the experiment."""
    enough = format_about(budget_s + LeadLimits().most_s)
    return f"let the script train longer, {enough} or more (more epochs, more steps)"
