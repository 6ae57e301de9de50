"""What the recorder asks of the frameworks that train: the one contract between `record`, which knows none, and `frameworks/*/inside`.

Each framework says what it is in `frameworks/NAME/inside/_framework.py`, as `FRAMEWORK`, where the registry finds it. What hooks of one
framework alone need stays with them.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import FrameType
from typing import Any, Final, NamedTuple, Protocol

from slowstep.record.attributes import code_of, innermost
from slowstep.record.patch import Undo
from slowstep.record.writing import format as contract
from slowstep.registry import discover


class PlacedArray(NamedTuple):
    """Where the numbers of an array lie, of what shape they are and how many bytes. Two arrays at one place are one."""

    address: int
    shape: tuple[int, ...]
    size_bytes: int


class DeviceMemory(Protocol):
    """The memory of an accelerator, in bytes; None where that is not known."""

    def used_bytes(self) -> int | None:
        """What is in use now."""

    def forget_peak(self) -> None:
        """Begin a peak anew."""

    def peak_bytes(self) -> int | None:
        """The most that was in use since."""

    def free_bytes(self) -> int | None:
        """What there is beyond what is in use."""


# Dimensions of one.
_MATRIX: Final = 2
# Whether something is told of just now.
Tells = Callable[[], bool]


class Framework:
    """One framework, seen from inside the training. The answers here are those of one that says nothing of itself.

    `module` is imported by whoever trains with it, and its import begins a recording; None where it stands on another one. `packages` are
    the installed packages whose frames are its own; without functions of its `needed_modules` no training goes on. Calls of functions are
    distinguished by files, written with slashes: what calls a model (`model_files`), what stands in for the beginning of its backward pass
    (`backward_files`), what makes an update (`update_files`), and the folder of all that does (`update_folder`). Where it
    `has_optimizers`, updates are their calls; where it `tells_losses`, hooks see those of its updates, in runs that are asked for them. Its
    `steering_callbacks`, by their classes, are those that stop a training, schedule it, or say when to log and to save.
    """

    name = ""
    module: str | None = None
    packages: tuple[str, ...] = ()
    needed_modules: tuple[str, ...] = ()
    model_files: tuple[str, ...] = ()
    backward_files: tuple[str, ...] = ()
    update_files: tuple[str, ...] = ()
    update_folder: str | None = None
    has_optimizers = True
    tells_losses = False
    steering_callbacks: frozenset[str] = frozenset()

    def owns(self, file: str) -> bool:
        """Whether a file is one of its installed packages'."""
        return any(f"-packages{os.sep}{package}{os.sep}" in file for package in self.packages)

    def tells_of(self, function: Any) -> Tells | None:
        """What says at each call of a function that another framework compiles whether its own hooks tell of the steps that this makes: of
        its own functions always. None of one of which they never do. It keeps nothing of the function's.
        """
        code = code_of(innermost(function))
        return always if code is not None and self.owns(code.co_filename) else None

    def facts(self) -> dict[str, Any]:
        """What it would use of this machine; it must initialise nothing, for a process that forks afterwards could not use it.

        One whose calls return before its work is done says also that it is `asynchronous`; one whose calls wait for their input, and do
        not tell how long, that it `waits_inside`; one that several others can compute for, which one it `computes_with`; and one whose
        loop takes several kinds of input, which kind it `reads`, where that is known.
        """
        return {"threads": None, "interop": None, "cuda_available": None, "world_size": None}

    def rank(self) -> tuple[int, int] | None:
        """The number of this process among those that train together, and how many they are; None where it trains alone."""
        return None

    def has_compiled(self) -> bool:
        """Whether it runs compiled code, or might, which must not notice that it is recorded."""
        return False

    def compilations(self) -> int | None:
        """How often it has compiled so far, again for other shapes included; None where it does not say."""
        return 0

    def is_compiled(self, function: Any) -> bool:
        """Whether code that it has compiled looks at a function, or is of it; True as well where it does not say. Asked if it has any."""
        return False

    def is_tracing(self) -> bool:
        """Whether what the calling thread calls is made into code that is kept, and is not done now."""
        return False

    def is_used_up(self, value: Any) -> bool:
        """Whether a value, or an array in it, was given away for good and is of no use. May raise what the value's class does."""
        return False

    def trainer(self) -> Any:
        """The trainer whose loop calls, on the calling thread; None where it has none, and where the loop is the script's own."""
        return None

    def has_gradient(self) -> Callable[[], bool]:
        """What tells whether operations of the calling thread are differentiated just now."""
        return lambda: False

    def graph_nodes(self) -> Callable[[], int] | None:
        """What tells how many operations of the calling thread were noted to be differentiated so far; None where it does not say."""
        return None

    def describe_optimizer(self, optimizer: Any) -> dict[str, Any]:
        """The parameters of an optimizer, as `describe_parameters`, and whether one call updates them all (`fused`)."""
        return {**self.describe_parameters(()), "fused": None}

    def describe_parameters(self, parameters: Iterable[Any]) -> dict[str, Any]:
        """How many elements they have (`params`), of which `dtypes`, on which `device` most of them; each None where that is not known. And
        in how many `tensors`, of how many different `shapes`, where something tells.
        """
        return {"params": None, "dtypes": None, "device": None}

    def parameters_of(self, optimizer: Any) -> list[Any] | None:
        """The parameters that an optimizer holds; None where to refer to them would harm. Raises where it does not say."""
        return None

    def array_of(self, value: Any) -> PlacedArray | None:
        """What one of its arrays is; None of anything else, and of one that lies in no one place. It computes and waits for nothing."""
        return None

    def dataset_of(self, loader: Any) -> Any:
        """The data set that one of its loaders reads; None where it has none."""
        return None

    def holds_iterator(self, loader: Any, iterator: Any) -> bool:
        """Whether one of its loaders keeps this iterator for its next epoch."""
        return False

    def is_bound_to_shapes(self) -> bool:
        """Whether code of the training was compiled, or captured, for the shapes that it gets, and would be anew for others.
        Raises TooManyObjects where that cannot be known."""
        return False

    def device_memory(self) -> DeviceMemory | None:
        """That of the accelerator which the training uses; None where it uses none."""
        return None

    def shift_seeds(self, added: int) -> Undo:
        """Seed it, and have `added` added to every seed that the script sets (record/experiment/seeds.py)."""
        return lambda: None


def described(shapes: Iterable[tuple[str, Sequence[int]]], device: str | None) -> dict[str, Any]:
    """What `describe_parameters` answers, from the type and the shape of each parameter; `tallest` is the matrix with most rows."""
    dtypes: Counter[str] = Counter()
    matrices = []
    for dtype, shape in shapes:
        dtypes[dtype] += math.prod(shape)
        matrices += [list(shape)] if len(shape) == _MATRIX else []
    return {"params": sum(dtypes.values()), "dtypes": dict(dtypes), "device": device, "tallest": max(matrices, default=None)}


# Where no framework trains, or none has trained yet.
NO_FRAMEWORK: Final = Framework()


@cache
def known_frameworks() -> tuple[Framework, ...]:
    """All frameworks, by name. Raises DiscoveryError for a broken one."""
    return tuple(discover("slowstep.frameworks", "FRAMEWORK", Framework, inside="inside._framework").values())


def training_modules() -> tuple[str, ...]:
    """The modules whose import begins a recording."""
    return tuple(framework.module for framework in known_frameworks() if framework.module is not None)


def control_flags() -> dict[str, int]:
    """Where on the control page a process of the command tells that it is one of Python, and which frameworks it has imported."""
    modules = enumerate(sorted(training_modules()), contract.CONTROL_FRAMEWORKS)
    return contract.CONTROL_FLAGS | {name: at for at, name in modules}


def is_imported(framework: Framework) -> bool:
    """Whether this process has imported it; False of one that stands on another."""
    return framework.module is not None and framework.module in sys.modules


def has_compiled() -> bool:
    """Whether any framework of this process runs compiled code, or might."""
    return any(framework.has_compiled() for framework in known_frameworks())


def is_compiled(function: Any) -> bool:
    """Whether a graph of any of them would be compiled anew if the function were replaced."""
    return any(framework.has_compiled() and framework.is_compiled(function) for framework in known_frameworks())


def tracers() -> tuple[Callable[[], bool], ...]:
    """What tells of each framework of this process that may be tracing whether it is."""
    may_be = (each for each in known_frameworks() if type(each).is_tracing is not Framework.is_tracing)
    return tuple(framework.is_tracing for framework in may_be if is_imported(framework))


def always() -> bool:
    """It does."""
    return True


def told_by_others(function: Any, framework: Framework) -> tuple[Tells, ...]:
    """What says at each call of a function whether a framework that trains on this one tells of the steps that it makes."""
    found = (each.tells_of(function) for each in known_frameworks() if each is not framework)
    return tuple(tells for tells in found if tells is not None)


def array_readers() -> tuple[Callable[[Any], PlacedArray | None], ...]:
    """What tells of each framework of this process that says so what its arrays are."""
    says = (each for each in known_frameworks() if type(each).array_of is not Framework.array_of)
    return tuple(framework.array_of for framework in says if is_imported(framework))


def used_up_checks() -> tuple[Callable[[Any], bool], ...]:
    """What tells of each framework of this process that may use values up whether it has."""
    may_be = (each for each in known_frameworks() if type(each).is_used_up is not Framework.is_used_up)
    return tuple(framework.is_used_up for framework in may_be if is_imported(framework))


def needed_modules() -> tuple[str, ...]:
    """The modules whose functions only the training itself may leave out: without them there are no more steps."""
    return tuple(module for framework in known_frameworks() for module in framework.needed_modules)


def steering_callbacks() -> frozenset[str]:
    """The classes of callbacks that steer a training, of all frameworks."""
    return frozenset().union(*(framework.steering_callbacks for framework in known_frameworks()))


def caller(module_name: str, kind: str, method: str) -> Any:
    """The object of a class whose method the calling thread is in; None where there is none."""
    module = sys.modules.get(module_name)
    owner = getattr(module, kind, None)
    if module is None or owner is None:
        return None
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        # Only the method's own frames are looked into: to look into one keeps its variables alive, and batches may be among the script's.
        if frame.f_code.co_name == method and frame.f_code.co_filename == module.__file__ and isinstance(frame.f_locals.get("self"), owner):
            return frame.f_locals["self"]
        frame = frame.f_back
    return None


def versions() -> dict[str, str | None]:
    """The versions of the frameworks that are imported already, by name; None where one is not, or does not say."""
    return {framework.name: version_of(framework.module) for framework in known_frameworks() if framework.module is not None}


def version_of(module: str) -> str | None:
    """The version of a module that is already imported; None where it is not, or does not say."""
    version = getattr(sys.modules.get(module), "__version__", None)
    return None if version is None else str(version)
