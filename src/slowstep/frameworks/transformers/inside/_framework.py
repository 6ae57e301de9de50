"""What transformers is to the recorder: it stands on torch, and its frames are none of the user's."""

from __future__ import annotations

from slowstep.record.framework import Framework


class Transformers(Framework):
    """It has a loop, and nothing that computes."""

    name = "transformers"
    packages = ("transformers",)


FRAMEWORK = Transformers()
