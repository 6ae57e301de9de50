"""A case: one file or folder, and the changes that damage it. It is a line of text, from which it can be made again."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Most damage is a single fault; a few files are damaged in many places.
CHANGES = (1, 1, 1, 2, 2, 3, 5, 10)
SEEDS = 1_000_000

# Changes the document and says how, in words; None where the document holds nothing that it could change.
Alteration = Callable[[Any, random.Random], str | None]


@dataclass(frozen=True, kw_only=True)
class Target:
    """A kind of input. `load` gives a base as a document that can be changed, `write` makes it a file or folder below a folder."""

    name: str
    bases: Mapping[str, Callable[[], Any]]
    changes: Mapping[str, Alteration]
    write: Callable[[Any, Path], Path]


@dataclass(frozen=True)
class Case:
    """What is damaged, and how: each change by its name and the seed of its choices."""

    target: str
    base: str
    changes: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        return " ".join((self.target, self.base, *(f"{name}@{seed}" for name, seed in self.changes)))

    @classmethod
    def parse(cls, line: str) -> Case:
        """The case of a line. Raises ValueError for what is none."""
        target, base, *changes = line.split()
        pairs = (change.split("@") for change in changes)
        return cls(target, base, tuple((name, int(seed)) for name, seed in pairs))


def drawn(target: Target, seed: int) -> Case:
    """The case of a seed."""
    rng = random.Random(f"{target.name} {seed}")
    base = rng.choice(sorted(target.bases))
    names = rng.choices(sorted(target.changes), k=rng.choice(CHANGES))
    return Case(target.name, base, tuple((name, rng.randrange(SEEDS)) for name in names))


def made(target: Target, case: Case, folder: Path) -> tuple[Path, list[str]]:
    """Write a case into an empty folder; gives its path, and in words what was changed."""
    document = target.bases[case.base]()
    said = [target.changes[name](document, random.Random(seed)) for name, seed in case.changes]
    return target.write(document, folder), [words for words in said if words is not None]
