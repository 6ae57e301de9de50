"""What the framework for tests is to the recorder."""

from __future__ import annotations

import sys
from typing import Any

from slowstep.record.framework import Framework


class Pretend(Framework):
    """It computes in a thread of its own: what calls it goes on meanwhile."""

    name = "pretend"
    module = "pretend"
    packages = ("pretend",)
    has_optimizers = False

    def facts(self) -> dict[str, Any]:
        """Whether it is asynchronous."""
        return super().facts() | {"asynchronous": sys.modules["pretend"].is_asynchronous}


FRAMEWORK = Pretend()
