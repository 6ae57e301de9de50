"""Torch's seeds, shifted by what the environment gives (record/experiment/seeds.py). A `torch.Generator` of the script's keeps its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Final

from slowstep.record.experiment.seeds import FIRST_SEED, next_seed, shifted, tell_seeded
from slowstep.record.patch import Undo, all_of, replace

_LOWEST, _HIGHEST = -(2**63), 2**64 - 1
_OF_DEVICES: Final = ("manual_seed", "manual_seed_all")


def shift_seeds(added: int) -> Undo:
    """Seed torch and replace its seeding functions."""
    torch: Any = sys.modules["torch"]
    # Its own first seed is the system's.
    torch.manual_seed(FIRST_SEED + added)
    manual = shifted(torch.manual_seed, lambda seed: _seed(seed, added), name="seed")
    drawn = _drawn(torch.manual_seed, added)
    undos = [replace(owner, name, new) for owner in (torch, torch.random) for name, new in (("manual_seed", manual), ("seed", drawn))]
    for name in _OF_DEVICES:
        new = shifted(getattr(torch.cuda, name), lambda seed: _seed(seed, added), name="seed")
        undos.append(replace(torch.cuda, name, new))
    return all_of(undos)


def _drawn(manual_seed: Any, added: int) -> Callable[[], int]:
    """In place of torch.seed, which takes a seed of the system's and returns it."""

    def seed() -> int:
        drawn = next_seed(added)
        manual_seed(drawn)
        tell_seeded()
        return drawn

    return seed


def _seed(seed: Any, added: int) -> Any:
    try:
        number = int(seed)
    except (TypeError, ValueError):
        return seed
    if not _LOWEST <= number <= _HIGHEST:
        return seed
    moved = number + added
    return moved if _LOWEST <= moved <= _HIGHEST else number - added
