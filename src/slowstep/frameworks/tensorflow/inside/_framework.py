"""What TensorFlow is to the recorder: whose frames are its own, and what it says of a training."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final

from slowstep.frameworks.tensorflow.inside import _seeding
from slowstep.record.framework import Framework, described
from slowstep.record.patch import Undo
from slowstep.record.system.facts import cores_allowed


class TensorFlow(Framework):
    """Functions that are traced once and then run as graphs. On a processor a call returns when all is done, and so is each operation.

    `waits_inside` tells that a function which trains fetches its batches itself, and that nothing shows how long it waits for them.
    """

    name = "tensorflow"
    module = "tensorflow"
    packages = ("tensorflow", "tensorflow_datasets", "tensorflow_probability", "tf_keras")
    has_optimizers = False
    waits_inside = False

    def facts(self) -> dict[str, Any]:
        """Threads, and whether there is a device that calls do not wait for. Asked when something was computed: nothing is initialised."""
        config = sys.modules["tensorflow"].config
        threads = config.threading.get_intra_op_parallelism_threads()
        return super().facts() | {
            # 0 lets it choose: a thread for each core.
            "threads": threads or cores_allowed(),
            "interop": config.threading.get_inter_op_parallelism_threads() or None,
            "cores": cores_allowed(),
            "asynchronous": bool(accelerators()),
            "waits_inside": self.waits_inside,
        }

    def describe_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """What stands for a function that trains was described when it was traced."""
        return {**optimizer.described, "type": optimizer.name, "fused": None}

    def describe_parameters(self, parameters: Iterable[Any]) -> dict[str, Any]:
        """By their shapes; of one whose shape is open the elements are not known, and the device of the first stands for all."""
        found = [each for each in parameters if each is not None]
        shapes = ((str(getattr(each.dtype, "name", each.dtype)), _lengths(each.shape)) for each in found)
        return described(shapes, device_of(found[0]) if found else None)

    def has_compiled(self) -> bool:
        """Its graphs do not notice that they are recorded."""
        return False

    def shift_seeds(self, added: int) -> Undo:
        """Its global one, of which tf.data draws the order of a shuffle."""
        return _seeding.shift_seeds(added)


def _lengths(shape: Any) -> list[int]:
    return [0] if shape.num_elements() is None else [int(length) for length in shape.as_list()]


def accelerators() -> list[Any]:
    """The devices that are no processors. To be asked only of a process that has computed something."""
    return [device for device in sys.modules["tensorflow"].config.list_logical_devices() if device.device_type != "CPU"]


def device_of(tensor: Any) -> str | None:
    """The kind of device that a tensor or variable is on: `cpu`, of `/job:localhost/replica:0/task:0/device:CPU:0` or `cpu:0`."""
    return str(getattr(tensor, "device", "") or "").lower().rpartition("device:")[2].partition(":")[0] or None


FRAMEWORK: Final = TensorFlow()
