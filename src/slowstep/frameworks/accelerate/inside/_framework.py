"""What accelerate is to the recorder: it stands on torch, and its frames are none of the user's."""

from __future__ import annotations

from slowstep.record.framework import Framework


class Accelerate(Framework):
    """It has a loop, and nothing that computes."""

    name = "accelerate"
    packages = ("accelerate",)


FRAMEWORK = Accelerate()
