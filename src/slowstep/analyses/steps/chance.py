"""The seed of all that is drawn at random from a recording or a trace: the same data gives the same report."""

from __future__ import annotations

from typing import Final

SEED: Final = 20200823
