"""One function's calls, in the training's process and in the workers of its DataLoader."""

from __future__ import annotations

from slowstep.frameworks.torch.inside.levers._worker_ends import InWorkers
from slowstep.levers._calls.function_change import FunctionChange
from slowstep.levers._calls.targets import known_function
from slowstep.record.experiment.lever import Change, LeverSpec
from slowstep.record.experiment.training import Training


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Watch the function. Raises NotApplicable for one that cannot be replaced, ValueError for an unclear name."""
    return FunctionChange(training, spec, workers=InWorkers, backward=known_function("torch.autograd", "backward"))
