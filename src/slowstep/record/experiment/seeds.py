"""Seeds of a training that is run several times: what the script sets is shifted by an offset that the environment gives.

Only in sandboxed trainings. `random`, `numpy.random` and frameworks are seeded before the script can, so that one that sets no
seeds repeats itself too. What the functions return and raise stays as it was. Generators that a script makes with a seed of its own
(`random.Random`, `numpy.random.default_rng(1)`) keep that seed: it is the same in all runs.
"""

from __future__ import annotations

import functools
import operator
import os
import random
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from slowstep.record import imports
from slowstep.record.framework import Framework, known_frameworks, training_modules
from slowstep.record.patch import Undo, all_of, replace
from slowstep.record.writing.format import ENV_SEEDS

# Where the script asks for a seed of the system's: any will do, if it is the same in both runs of a pair.
FIRST_SEED: Final = 20_260_101
_NUMPY_SEEDS: Final = 2**32

# Called after the script has seeded something.
when_seeded: Final[list[Callable[[], None]]] = []
_installed: Final[dict[str, Undo]] = {}
# Whether a seeding function runs already: one may call others, as for each device.
_inside: Final = [False]
_asked: Final = [0]


def offset() -> int | None:
    """What the environment says is added to seeds; None where they are to stay as they are."""
    try:
        return int(os.environ[ENV_SEEDS])
    except (KeyError, ValueError):
        return None


def install(modules: Iterable[str] | None = None) -> None:
    """Shift the seeds of `random` now, and of numpy and frameworks as soon as they are imported. Once is enough in a process.

    `modules` are those of frameworks, for whoever knows them: then nothing is loaded that knows a framework before one is imported.
    """
    added = offset()
    if added is None:
        return
    _once("random", lambda: _shift_random(added))
    _when_imported("numpy.random", lambda: _shift_numpy(added))
    for module in training_modules() if modules is None else modules:
        _when_imported(module, partial(_shift_frameworks, module, added))


def install_now(framework: Framework) -> None:
    """The same for a framework that is complete although Python does not say so yet."""
    install()
    added = offset()
    if added is not None and framework.module is not None:
        _once(framework.module, partial(framework.shift_seeds, added))


def remove() -> None:
    """Put every function back; the generators stay as they are."""
    imports.forget([name for name in ("numpy.random", *training_modules()) if name not in _installed])
    while _installed:
        _installed.popitem()[1]()


def _once(name: str, shift: Callable[[], Undo]) -> None:
    if name not in _installed:
        _installed[name] = shift()


def _when_imported(name: str, shift: Callable[[], Undo]) -> None:
    module = sys.modules.get(name)
    if module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False):
        _once(name, shift)
    elif name not in _installed:
        imports.when_imported(name, lambda: _once(name, shift))


def _shift_frameworks(module: str, added: int) -> Undo:
    return all_of([framework.shift_seeds(added) for framework in known_frameworks() if framework.module == module])


def _shift_random(added: int) -> Undo:
    random.seed(FIRST_SEED + added)
    return replace(random, "seed", shifted(random.seed, lambda seed: _python_seed(seed, added), name="a", optional=True))


def _shift_numpy(added: int) -> Undo:
    module: Any = sys.modules["numpy.random"]
    module.seed((FIRST_SEED + added) % _NUMPY_SEEDS)
    return all_of(
        [
            replace(module, "seed", shifted(module.seed, lambda seed: _numpy_seed(seed, added), name="seed", optional=True)),
            replace(module, "default_rng", _default_rng(module.default_rng, added)),
        ]
    )


def shifted(original: Any, shift: Callable[[Any], Any], *, name: str, optional: bool = False) -> Any:
    """A seeding function whose first argument, called `name`, is shifted."""

    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        if _inside[0]:
            return original(*args, **kwargs)
        if args:
            args = (shift(args[0]), *args[1:])
        elif name in kwargs or optional:
            kwargs = {**kwargs, name: shift(kwargs.get(name))}
        _inside[0] = True
        try:
            return original(*args, **kwargs)
        finally:
            _inside[0] = False
            tell_seeded()

    return seed


def _default_rng(original: Any, added: int) -> Any:
    @functools.wraps(original)
    def default_rng(seed: Any = None) -> Any:
        return original(next_seed(added) if seed is None else seed)

    return default_rng


def tell_seeded() -> None:
    """The script has seeded something."""
    for tell in when_seeded:
        tell()


def next_seed(added: int) -> int:
    """A seed in place of the system's: another one each time, and the same ones in each run with this offset."""
    _asked[0] += 1
    return FIRST_SEED + added + 1_000_003 * _asked[0]


def _python_seed(seed: Any, added: int) -> Any:
    if seed is None:
        return next_seed(added)
    if isinstance(seed, (int, float)):
        return seed + added
    if added and isinstance(seed, str):
        return f"{seed}#{added}"
    if added and isinstance(seed, (bytes, bytearray)):
        return bytes(seed) + str(added).encode()
    return seed


def _numpy_seed(seed: Any, added: int) -> Any:
    if seed is None:
        return next_seed(added) % _NUMPY_SEEDS
    if not added:
        return seed
    try:
        number = operator.index(seed)
    except TypeError:
        return _numpy_seeds(seed, added)
    # Any other number is an error, which the script shall get.
    return (number + added) % _NUMPY_SEEDS if 0 <= number < _NUMPY_SEEDS else seed


def _numpy_seeds(seeds: Any, added: int) -> Any:
    """Several numbers make one seed: the offset becomes one more of them."""
    try:
        numbers = [operator.index(number) for number in seeds]
    except TypeError:
        return seeds
    return [*numbers, added % _NUMPY_SEEDS]
