"""Recording, inside the training process: standard library only, and never an exception into the training."""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_active: list[Recorder] = []


def activate(just_imported: str | None = None, import_began_ns: int | None = None) -> None:
    """Start recording in this process when it was started by `slowstep run`; does nothing otherwise, or when done before.

    `just_imported` names a module that is complete although Python does not say so yet; `import_began_ns` is when its import began.
    """
    if _active:
        return
    try:
        from slowstep.record.activation import activated

        recorder = activated(just_imported, import_began_ns)
    except Exception:
        # The training goes on; that nothing was recorded is said by the launcher.
        return
    if recorder is not None:
        _active.append(recorder)


def active() -> Recorder | None:
    """This process's recorder; None when it is not being recorded."""
    return _active[0] if _active and _active[0].live[0] else None


class _CallableModule(ModuleType):
    """`slowstep.record` names this package, and what users call: `with slowstep.record():`."""

    def __call__(self, **options: Any) -> Any:
        """See slowstep.workflow.session.record, which nothing that runs inside a training imports by itself."""
        return import_module("slowstep.workflow.session").record(**options)


sys.modules[__name__].__class__ = _CallableModule
