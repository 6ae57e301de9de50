"""Updates that a script makes by hand: it has gradients and no optimizer of a framework, so its steps are told by their backward passes."""

from __future__ import annotations

from typing import Any


class ByHand:
    """Stands for the optimizer of a script that has none; `device` is the kind of device that the losses are on, None where unknown."""

    __slots__ = ("__weakref__", "device")

    def __init__(self, device: str | None) -> None:
        self.device = device

    def describe(self) -> dict[str, Any]:
        """The same of it as of an optimizer: which parameters the script changes is not seen."""
        return {"by_hand": True, "params": None, "dtypes": None, "device": self.device}
