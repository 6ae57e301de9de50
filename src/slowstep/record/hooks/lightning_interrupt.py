"""An interrupted training of `lightning.pytorch`."""

from __future__ import annotations

from slowstep.record.lightning_interrupt import interrupt_hook

HOOK = interrupt_hook("lightning.pytorch", "lightning_interrupt")
