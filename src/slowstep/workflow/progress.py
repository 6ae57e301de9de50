"""Where an act that takes a while tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

# Takes the present phase, how far it is (a share, 0 to 1), and what has been reached.
TellPhase = Callable[[str, float, str], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Tell:
    """Where to tell what happens: `say` takes a line, `phase` how far the present phase is."""

    say: Callable[[str], None]
    phase: TellPhase
