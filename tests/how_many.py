"""How many cases a test draws: fewer in `make check`."""

from __future__ import annotations

from typing import Final

from hypothesis import settings

# The profiles of hypothesis by how many examples they draw where a test says nothing else; `make check` names the second one.
WHOLE: Final = "whole"
EXAMPLES: Final = {WHOLE: 100, "quick": 25}
for name, most in EXAMPLES.items():
    # No deadline: how long one example takes says how busy the machine is.
    settings.register_profile(name, deadline=None, max_examples=most)


def is_quick() -> bool:
    """Whether this is `make check`."""
    return settings().max_examples < EXAMPLES[WHOLE]


def how_many(most: int) -> int:
    """So many cases, and in `make check` a quarter of them, rounded up."""
    return -(-most * settings().max_examples // EXAMPLES[WHOLE])
