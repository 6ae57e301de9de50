"""The loggers of `pytorch_lightning`."""

from __future__ import annotations

from slowstep.record.lightning import loggers_hook

HOOK = loggers_hook("pytorch_lightning", "pytorch_lightning_loggers")
