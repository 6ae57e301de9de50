"""The topic `compute`: forward, backward and update, and what else the training thread does inside its steps."""

from __future__ import annotations

from dataclasses import dataclass

from slowstep.analyses.compute.before_update import BeforeUpdate
from slowstep.analyses.compute.between_forwards import BetweenForwards
from slowstep.analyses.compute.blocked import Blocked
from slowstep.analyses.compute.dispatched import Dispatched
from slowstep.analyses.compute.embedding_tables import EmbeddingTables
from slowstep.analyses.compute.fixed_cost import FixedCost
from slowstep.analyses.compute.in_backward import InBackward
from slowstep.analyses.compute.narrow_operations import NarrowOperations
from slowstep.analyses.compute.own_update import OwnUpdate
from slowstep.analyses.compute.products import PassProducts, WhyUnknown
from slowstep.analyses.compute.retraces import Retrace
from slowstep.analyses.compute.unused_gradients import UnusedGradients
from slowstep.analyses.compute.work import Work
from slowstep.faults import MayLack


@dataclass(frozen=True, kw_only=True, slots=True)
class ComputeTopic(MayLack):
    """The training's own work. None is unknown."""

    device: str  # where the anchor optimizer's parameters are
    work: Work
    fixed_cost: FixedCost
    trainer_cpu_ns: float | None  # CPU time of the training thread per step
    before_update: BeforeUpdate | None  # what the user's code does between backward and update
    own_update: OwnUpdate | None  # what an optimizer of the script's own does
    in_backward: InBackward | None  # what hooks of the user's do inside backward
    blocked: Blocked | None  # inside the steps' own work
    between_forwards: BetweenForwards  # in steps of several forwards and no loader
    tables: EmbeddingTables | None  # embedding tables, where whole graphs of backward passes were looked at
    dispatched: Dispatched | None = None  # operations that the host dispatches one by one; None where nothing tells of any
    retraces: tuple[Retrace, ...] = ()  # why functions were traced again, where that is known
    products: PassProducts | WhyUnknown = WhyUnknown.NOT_LOOKED  # what a backward pass multiplies, or why that is not known
    narrow: NarrowOperations | None = None  # operations in 16 bits on the processor; None where no graph tells
    unused: UnusedGradients | None = None  # of parameters that no optimizer holds; None where nobody looked for them
