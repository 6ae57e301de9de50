"""From where on something is mostly of one kind."""

from __future__ import annotations

from typing import Final

# Mostly: less than half leaves more to something else.
MOSTLY: Final = 0.5
