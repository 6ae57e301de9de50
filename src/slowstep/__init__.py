"""slowstep: why is my training slow, and what would fixing it gain?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.record.spans import span, steps

__all__ = ["__version__", "span", "steps"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # Lazily: whoever imports slowstep inside a training pays for nothing that it does not use.
    if name in ("steps", "span"):
        from slowstep.record import spans

        return getattr(spans, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
