"""What `pytorch_lightning` shows to its profilers: callbacks, hooks of modules, checkpoints."""

from __future__ import annotations

from slowstep.record.lightning import actions_hook

HOOK = actions_hook("pytorch_lightning", "pytorch_lightning_actions")
