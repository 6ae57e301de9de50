"""The validation loop of `pytorch_lightning`."""

from __future__ import annotations

from slowstep.record.lightning import validation_hook

HOOK = validation_hook("pytorch_lightning", "pytorch_lightning_validation")
