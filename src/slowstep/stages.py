"""The eight stages of a training step, in the order in which a batch passes through them."""

from __future__ import annotations

from typing import Final, Literal

Stage = Literal["read", "preprocess", "h2d", "compute", "gradient_sharing", "d2h", "output", "store"]

STAGES: Final[tuple[Stage, ...]] = ("read", "preprocess", "h2d", "compute", "gradient_sharing", "d2h", "output", "store")

# The stages of what is done beside the model with what it has computed.
RESULT_STAGES: Final[tuple[Stage, ...]] = ("output", "store")

# Time that no span covers and no stack names. Not a stage: the last row of the ledger.
UNATTRIBUTED: Final = "unattributed"

STAGE_MEANING: Final[dict[str, str]] = {
    "read": "waiting for input that is blocked on storage or network while it is made",
    "preprocess": "waiting for input that is computed, or waits for a core, thread or lock while it is made",
    "h2d": "copies from host to device that the step waits for",
    "compute": "forward, backward and optimizer, with the Python between them",
    "gradient_sharing": "collectives that the step waits for, and waiting for other ranks inside them",
    "d2h": "copies and read-backs from device to host that make the device run dry",
    "output": "callbacks, metrics, validation, plotting and what is handed to loggers, on the host, and Python's garbage collection",
    "store": "writing checkpoints, and what loggers write: event files and logs",
    UNATTRIBUTED: "time that nothing recorded can name",
}

# Parts that frameworks name themselves, as hooks write them and rules read them: a name follows the colon.
CALLBACK: Final = "callback: "
PROGRESS: Final = "progress bar: "
LOGGING: Final = "logging: "
# What a step hands over to be logged, averaged and shown: by the function that does.
METRICS: Final = "metrics: "
CHECKPOINT: Final = "checkpoint: "
# Work on the whole batch on the training thread, between its receipt and the forward.
TRANSFORM: Final = "transform: "
VALIDATION: Final = "validation"
# What a framework takes to begin a pass over its input, where it has no loader whose starts are told.
LOADER_START: Final = "starting the loader"
# What a framework that compiles each function takes for one of them.
COMPILATION: Final = "compiling: "


def stage_in_words(stage: str) -> str:
    """A stage as people read it; reports for programs have its name."""
    return stage.replace("_", " ")
