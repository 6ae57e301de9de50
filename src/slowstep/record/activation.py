"""Finds the recording that this process belongs to, and installs the hooks."""

from __future__ import annotations

import atexit
import os
import sys
import time
from functools import partial

from slowstep.record import format as contract
from slowstep.record import imports
from slowstep.record.hook import Hook, Unfit
from slowstep.record.recorder import Recorder
from slowstep.record.tracebacks import show_own_frames
from slowstep.registry import discover


def activated(just_imported: str | None = None, import_began_ns: int | None = None) -> Recorder | None:
    """The recorder of this process with all hooks installed; None when the environment names no recording that is under way."""
    folder = os.environ.get(contract.ENV_RECORDING)
    if not folder or os.environ.get(contract.ENV_DISABLE):
        return None
    try:
        recorder = Recorder(
            folder,
            level=int(os.environ.get(contract.ENV_LEVEL) or 1),
            steps=None if (steps := _number(contract.ENV_STEPS)) is None else int(steps),
            seconds=_number(contract.ENV_SECONDS),
        )
    except (OSError, ValueError):
        return None
    if not recorder.page.recording:
        return None
    # Every process that is forked from this one was started with it.
    recorder.introduce({"kind": "startup", "import_began_ns": import_began_ns, "activated_ns": time.monotonic_ns()})
    install(recorder, just_imported)
    atexit.register(recorder.stop, "exit")
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(_forget, recorder))
    return recorder


def _forget(recorder: Recorder) -> None:
    try:
        recorder.forget()
    except Exception:
        # Python would print it.
        recorder.live[0] = False


def install(recorder: Recorder, just_imported: str | None = None) -> None:
    """Install the hooks of what is imported already, and have the others installed as soon as it is."""
    recorder.undos.append(show_own_frames)
    waiting: dict[str, list[Hook]] = {}
    for hook in discovered():
        if hook.module == just_imported or _is_complete(hook.module):
            install_one(recorder, hook)
        else:
            waiting.setdefault(hook.module, []).append(hook)
    for module_name, late in waiting.items():
        imports.when_imported(module_name, partial(_install_late, recorder, late))
    recorder.undos.append(lambda: imports.forget(list(waiting)))


def _install_late(recorder: Recorder, late: list[Hook]) -> None:
    for hook in late:
        install_one(recorder, hook)


def install_one(recorder: Recorder, hook: Hook) -> None:
    """Install one hook; one that does not fit stays off, and the recording says why."""
    if not recorder.live[0]:
        return
    state, reason = "on", None
    try:
        recorder.undos.append(hook.install(recorder))
    except Unfit as error:
        state, reason = "off", str(error)
    except Exception as error:
        state, reason = "off", f"{type(error).__name__}: {error}"
    recorder.introduce({"kind": "hook", "name": hook.name, "state": state, "reason": reason})


def discovered() -> list[Hook]:
    """The hook of every module in `hooks`, by name. Raises DiscoveryError for a broken one."""
    return [hook for hook in discover("slowstep.record.hooks", "HOOK").values() if isinstance(hook, Hook)]


def _is_complete(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _number(name: str) -> float | None:
    text = os.environ.get(name)
    return float(text) if text else None
