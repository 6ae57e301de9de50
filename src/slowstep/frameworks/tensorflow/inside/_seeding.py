"""TensorFlow's global seed, of operations and tf.data's shuffles, shifted by what the environment gives (record/experiment/seeds.py).

A `tf.random.Generator` keeps its own, also where that is the system's. What is given a seed of its own draws by both.
"""

from __future__ import annotations

import operator
import sys
from typing import Any, Final

from slowstep.record.experiment.seeds import FIRST_SEED, shifted
from slowstep.record.patch import Undo, all_of, replace

_DEFINES: Final = "tensorflow.python.framework.random_seed"
# By what modules each function is called, and how.
_NAMES: Final = {
    "set_seed": ("random", "compat.v2.random"),
    "set_random_seed": ("compat.v1", "compat.v1.random"),
}


def shift_seeds(added: int) -> Undo:
    """Seed it and replace its seeding functions."""
    tensorflow, defines = sys.modules["tensorflow"], sys.modules[_DEFINES]
    # Without one each run has another order.
    tensorflow.random.set_seed(FIRST_SEED + added)
    undos = []
    for name, places in _NAMES.items():
        original = getattr(defines, name)
        new = shifted(original, lambda seed: _seed(seed, added), name="seed")
        owners = [defines, *(operator.attrgetter(place)(tensorflow) for place in places)]
        undos += [replace(owner, name, new) for owner in owners if vars(owner).get(name) is original]
    return all_of(undos)


def _seed(seed: Any, added: int) -> Any:
    try:
        return operator.index(seed) + added
    except TypeError:
        return seed
