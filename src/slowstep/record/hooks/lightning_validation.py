"""The validation loop of `lightning.pytorch`."""

from __future__ import annotations

from slowstep.record.lightning import validation_hook

HOOK = validation_hook("lightning.pytorch", "lightning_validation")
