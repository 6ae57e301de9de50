"""What torch is to the recorder: whose frames are its own, and what it says of a training."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Final

from slowstep.frameworks.torch.inside._answers import compiled, facts, memory, seeding
from slowstep.frameworks.torch.inside._answers.parameters import array_of, describe, describe_optimizer, parameters_of
from slowstep.record.framework import DeviceMemory, Framework, PlacedArray
from slowstep.record.patch import Undo


class Torch(Framework):
    """Operations on tensors, optimizers and loaders, and no loop of its own."""

    name = "torch"
    module = "torch"
    packages = ("torch",)
    needed_modules = ("torch.optim", "torch.autograd")
    tells_losses = True
    model_files = ("torch/nn/modules/module.py",)
    backward_files = ("slowstep/frameworks/torch/inside/backward.py",)
    update_files = ("torch/optim/optimizer.py",)
    update_folder = "torch/optim/"

    def facts(self) -> dict[str, Any]:
        """Threads, devices and ranks."""
        return super().facts() | facts.facts()

    def rank(self) -> tuple[int, int] | None:
        """That of its process group. Raises what torch does."""
        return facts.rank()

    def has_compiled(self) -> bool:
        """Whether torch.compile has been at work."""
        return compiled.has_compiled()

    def compilations(self) -> int | None:
        """Those of torch.compile."""
        return compiled.compilations()

    def is_compiled(self, function: Any) -> bool:
        """By the guards of torch.compile's graphs."""
        return compiled.is_compiled(function)

    def has_gradient(self) -> Callable[[], bool]:
        """That of autograd."""
        has: Callable[[], bool] = getattr(sys.modules.get("torch"), "is_grad_enabled", lambda: False)
        return has

    def graph_nodes(self) -> Callable[[], int] | None:
        """The number of the next node of autograd's graph on a thread; not public, and only read."""
        return getattr(getattr(sys.modules.get("torch"), "autograd", None), "_get_sequence_nr", None)

    def describe_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """Those of all groups."""
        return describe_optimizer(optimizer)

    def describe_parameters(self, parameters: Iterable[Any]) -> dict[str, Any]:
        """Those that say what they are."""
        return describe(parameters)

    def parameters_of(self, optimizer: Any) -> list[Any] | None:
        """Those of all groups; None where `model.to()` may swap one."""
        return parameters_of(optimizer)

    def array_of(self, value: Any) -> PlacedArray | None:
        """A plain tensor."""
        return array_of(value)

    def dataset_of(self, loader: Any) -> Any:
        """That of a DataLoader."""
        return loader.dataset

    def holds_iterator(self, loader: Any, iterator: Any) -> bool:
        """A DataLoader with persistent workers does."""
        return getattr(loader, "_iterator", None) is iterator

    def is_bound_to_shapes(self) -> bool:
        """By torch.compile, or by graphs of an accelerator."""
        return compiled.has_compiled() or compiled.has_graphs()

    def device_memory(self) -> DeviceMemory | None:
        """That of CUDA's current device."""
        return memory.device_memory()

    def shift_seeds(self, added: int) -> Undo:
        """Those of its default generators."""
        return seeding.shift_seeds(added)


FRAMEWORK: Final = Torch()
