"""Variables of this process, set for the children that it starts, and put back exactly."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class OwnEnvironment:
    """Sets variables (None removes one) until `restore`. `inject` is what was put in front of PYTHONPATH.

    What the user sets meanwhile stays: of a PYTHONPATH that he changed, only our own entry is taken out.
    """

    def __init__(self, changes: Mapping[str, str | None], *, inject: str) -> None:
        self._inject = inject
        self._changes = dict(changes)
        self._before = {name: os.environ.get(name) for name in changes}
        for name, value in self._changes.items():
            _put(name, value)

    def restore(self) -> None:
        """Put back what was there before."""
        for name, ours in self._changes.items():
            value, before = os.environ.get(name), self._before[name]
            if value == ours:
                _put(name, before)
            elif name == "PYTHONPATH" and value is not None:
                _put(name, os.pathsep.join(entry for entry in value.split(os.pathsep) if entry != self._inject))


def _put(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value
