"""What modules of `lightning.pytorch` log while they train."""

from __future__ import annotations

from slowstep.record.lightning_log import metrics_hook

HOOK = metrics_hook("lightning.pytorch", "lightning_metrics")
