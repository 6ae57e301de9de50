"""The names of the parts of a trace's ledger: what an instant can be charged to beside its stage."""

from __future__ import annotations

from typing import Final

# compute, with the device at work
KERNELS: Final = "kernels"
DEVICE_COPIES: Final = "device-to-device copies"
MEMSETS: Final = "filling memory"
# compute, with the device idle: host time that nothing else names, up to the launch of the next kernel
LAUNCH: Final = "launch"
# compute, in a trace without a device: operators, by direction, and what is between them
FORWARD: Final = "forward"
BACKWARD: Final = "backward"
OPTIMIZER: Final = "optimizer"
HOST_PYTHON: Final = "between operators"
# gradient_sharing
COLLECTIVES: Final = "exposed collectives"
# h2d and d2h, with a copy running and nothing of higher rank
COPIES: Final = "exposed copies"
# d2h, with the device idle: the whole part is RUN_DRY followed by the call and, where known, the function it is in
RUN_DRY: Final = "device idle after "
# preprocess: a trace of the training process cannot tell what the producer of the batch did
INPUT_WAIT: Final = "waiting for input"
# output, store: the part is the name of the range; these where it has none
VALIDATION: Final = "validation"
CHECKPOINT: Final = "checkpoint"
LOGGING: Final = "logging"
# unattributed
NO_LAUNCH: Final = "idle before work whose launch is not in the trace"
UNNAMED: Final = "nothing recorded"

# Findings about different things within one of these parts must not fold into one another, nor into one about the whole part, so each
# claims its piece: "kernels: matmul, float32" (class and precision as in the table `kernels`), "launch: operations on the host".
DIVIDED: Final = (KERNELS, LAUNCH, COLLECTIVES, RUN_DRY, FORWARD, COPIES)


def piece(part: str, what: str) -> str:
    """The claim of a finding that concerns only a piece of a part of the ledger."""
    return f"{part}: {what}"


def whole(claim: str) -> str:
    """The part of the ledger in which a claim lies: the claim itself where it is no piece."""
    part, colon, _ = claim.rpartition(": ")
    return part if colon and part.startswith(DIVIDED) else claim
