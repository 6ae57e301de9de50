"""An interrupted training of `pytorch_lightning`."""

from __future__ import annotations

from slowstep.record.lightning_interrupt import interrupt_hook

HOOK = interrupt_hook("pytorch_lightning", "pytorch_lightning_interrupt")
