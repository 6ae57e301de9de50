"""Which scenario is replayed how, and what a trace must hold for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from slowstep.analyses.replay import device_scenarios as device
from slowstep.analyses.replay import host_scenarios as host
from slowstep.analyses.replay import scenarios
from slowstep.analyses.replay.scene import Changed, Scene
from slowstep.analyses.replay.unjudged import NO_DEVICE_WORK, ON_A_PROCESSOR
from slowstep.reasons import Reason

# None: the step has nothing of what the scenario changes, and takes as long as it did.
SceneChange = Callable[[Scene], Changed | Reason | None]

# These need no device: they change what the host does.
OF_HOST: Final[Mapping[str, SceneChange]] = {
    scenarios.NO_INPUT_WAIT: host.no_input_wait,
    scenarios.NO_COMPILATION: host.no_compilation,
    scenarios.NO_CALLBACKS: host.no_callbacks,
    scenarios.NO_WRITES: host.no_writes,
}
OF_DEVICE: Final[Mapping[str, SceneChange]] = {
    scenarios.LAUNCHES_FREE: host.launches_free,
    scenarios.NO_SYNCHRONIZATION: host.no_synchronization,
    scenarios.HALF_PRECISION: device.half_precision,
    scenarios.ALIGNED_SHAPES: device.aligned_shapes,
    scenarios.FUSED_ELEMENTWISE: device.fused_elementwise,
    scenarios.COPIES_PINNED: device.copies_pinned,
    scenarios.COPIES_OVERLAPPED: device.copies_overlapped,
    scenarios.NO_REPEATED_COPIES: device.no_repeated_copies,
    scenarios.NO_READBACKS: device.no_readbacks,
    scenarios.NO_DEVICE_COPIES: device.no_device_copies,
    scenarios.COMMUNICATION_OVERLAPPED: device.communication_overlapped,
    scenarios.COLLECTIVES_MERGED: device.collectives_merged,
    scenarios.HOST_OPERATIONS_ON_DEVICE: host.host_operations_on_device,
    scenarios.NO_ALLOCATOR_CALLS: host.no_allocator_calls,
    scenarios.NO_LOSS_SCALING: host.no_loss_scaling,
    scenarios.SINGLE_PRECISION: device.single_precision,
    scenarios.NO_WORK_BETWEEN_STEPS: host.no_work_between_steps,
    scenarios.LARGER_BATCH: device.larger_batch,
}


def change(scenario: str, scene: Scene) -> Changed | Reason | None:
    """The step changed as a scenario says; a reason where that cannot be known, None where there is nothing to change."""
    if scenario in OF_HOST:
        return OF_HOST[scenario](scene)
    facts = scene.trace.timeline.trace
    if facts is not None and facts.vendor is None and not scene.trace.timeline.count("device_events"):
        return ON_A_PROCESSOR()
    if not len(scene.step.nodes):
        return NO_DEVICE_WORK()
    return OF_DEVICE[scenario](scene)
