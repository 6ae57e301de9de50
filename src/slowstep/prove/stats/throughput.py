"""How much is trained on per second, with a lever and as it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Throughputs:
    """By the clock on the wall, over the steps that the two have in common rounds: samples per second, or steps where `per` says so."""

    per: str
    as_is_per_s: float
    per_s: float
