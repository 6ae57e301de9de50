"""All that can be damaged."""

from __future__ import annotations

from fuzz import kineto, nsys, recordings, xplane

TARGETS = {target.name: target for target in (kineto.TARGET, xplane.TARGET, nsys.TARGET, recordings.TARGET)}
