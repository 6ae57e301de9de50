"""The loggers of `lightning.pytorch`."""

from __future__ import annotations

from slowstep.record.lightning import loggers_hook

HOOK = loggers_hook("lightning.pytorch", "lightning_loggers")
