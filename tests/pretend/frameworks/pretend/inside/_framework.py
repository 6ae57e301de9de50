"""What the framework for tests is to the recorder."""

from __future__ import annotations

from typing import Any

from slowstep.record.framework import Framework


class Pretend(Framework):
    """It computes in a thread of its own: what calls it goes on meanwhile."""

    name = "pretend"
    module = "pretend"
    packages = ("pretend",)

    def facts(self) -> dict[str, Any]:
        """That it is asynchronous."""
        return super().facts() | {"asynchronous": True}


FRAMEWORK = Pretend()
