"""What a command is told, when it runs in a copy of its folder: arguments and variables that name paths in it name the copy's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from slowstep.prove.sandbox.mounts import is_within

# They name programs and libraries, which are nowhere written to.
_KEPT_VARIABLES: Final = frozenset(("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX"))


@dataclass(kw_only=True)
class Moved:
    """Paths in `folder`, which are now in `copy`, but for those in `kept`; what is to be written elsewhere goes to `outputs`."""

    folder: str
    copy: str
    kept: tuple[str, ...]
    outputs: str
    _output_folders: dict[str, str] = field(default_factory=dict)

    def word(self, word: str) -> str:
        """An argument: a path, or an option or key with a path behind its `=`."""
        head, sign, tail = word.partition("=")
        if sign and not os.path.isabs(head):
            return f"{head}={self._named(tail)}"
        return self._named(word)

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """The environment, with the paths in its lists of paths moved."""
        return {name: value if name in _KEPT_VARIABLES else self._listed(value) for name, value in environ.items()}

    def path(self, path: str) -> str:
        """An absolute path, moved where it lies in the folder; by whichever links it is named."""
        for named in (os.path.normpath(path), os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))):
            if is_within(named, self.folder) and not any(is_within(named, kept) for kept in self.kept):
                return os.path.normpath(os.path.join(self.copy, os.path.relpath(named, self.folder)))
        return path

    def _listed(self, value: str) -> str:
        return os.pathsep.join(self.path(part) if os.path.isabs(part) else part for part in value.split(os.pathsep))

    def _named(self, text: str) -> str:
        if not os.path.isabs(text):
            return self._relative(text)
        moved = self.path(text)
        return moved if moved != text else self._output(text)

    def _relative(self, text: str) -> str:
        # Out of the folder and back: from the copy it would lead elsewhere.
        target = os.path.normpath(os.path.join(self.folder, text))
        leaves = os.pardir in text.split(os.sep) and not is_within(target, self.folder)
        return target if leaves and os.path.exists(target) else text

    def _output(self, path: str) -> str:
        """What is not there yet is no input: it is put into the scratch, its neighbours beside it."""
        above = os.path.dirname(os.path.normpath(path))
        if os.path.lexists(path) or above == os.sep or not os.path.isdir(above) or not os.access(above, os.W_OK):
            return path
        if above not in self._output_folders:
            self._output_folders[above] = os.path.join(self.outputs, str(len(self._output_folders)))
            os.makedirs(self._output_folders[above])
        return os.path.join(self._output_folders[above], os.path.basename(os.path.normpath(path)))
