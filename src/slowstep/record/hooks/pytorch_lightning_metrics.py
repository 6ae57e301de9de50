"""What modules of `pytorch_lightning` log while they train."""

from __future__ import annotations

from slowstep.record.lightning_log import metrics_hook

HOOK = metrics_hook("pytorch_lightning", "pytorch_lightning_metrics")
