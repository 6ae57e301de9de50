"""What a word for a share means wherever slowstep says it."""

from __future__ import annotations

from typing import Final

# Mostly: less than half leaves more to something else.
MOSTLY: Final = 0.5
