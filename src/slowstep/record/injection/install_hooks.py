"""Finds the recording that this process belongs to, and installs the hooks."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from slowstep.record import imports
from slowstep.record.active import recorders
from slowstep.record.framework import control_flags, training_modules
from slowstep.record.hook import Hook
from slowstep.record.injection.ancestry import find_recording
from slowstep.record.patch import Unfit, all_or_nothing
from slowstep.record.recorder import Recorder
from slowstep.record.steps import garbage_collections, state_writers
from slowstep.record.system.multiprocessing_child import is_child_of_multiprocessing
from slowstep.record.timing.startup_stacks import StartupStacks
from slowstep.record.timing.tracebacks import show_own_frames
from slowstep.record.writing import format as contract
from slowstep.record.writing.page import set_flag
from slowstep.registry import discover_whole

_attached: list[Recorder] = []
_at_fork: list[Callable[[], None]] = []


def activated(just_imported: str | None = None, import_began_ns: int | None = None) -> Recorder | None:
    """The recorder of this process with all hooks installed; None when the environment names no recording that is under way."""
    folder = os.environ.get(contract.ENV_RECORDING)
    if folder and not os.path.exists(os.path.join(folder, contract.CONTROL_FILE)):
        # A fork server outlives the recording in which it was started; its children belong to the one that is on now.
        folder = find_recording(instead=True)
    if not folder or os.environ.get(contract.ENV_DISABLE):
        return None
    for module in training_modules():
        if module in sys.modules:
            set_flag(control_flags()[module])
    recorder = _recorder_of(folder)
    if recorder is None:
        return None
    # Every process that is forked from this one was started with it.
    recorder.introduce({"kind": "startup", "import_began_ns": import_began_ns, "activated_ns": time.monotonic_ns()})
    attach(recorder, just_imported)
    if recorder.level >= 1 and not is_child_of_multiprocessing():
        recorder.startup = StartupStacks()
        recorder.startup.start()
    atexit.register(recorder.stop, "exit")
    return recorder


def _recorder_of(folder: str) -> Recorder | None:
    """As the environment asks for it, with nothing installed; None where the recording has ended, or is none."""
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
    recorder.capture = _range(contract.ENV_CAPTURE)
    recorder.experiment = os.environ.get(contract.ENV_EXPERIMENT) == "1"
    recorder.levers = _levers()
    recorder.loader_place = int(place) if (place := os.environ.get(contract.ENV_LOADER, "")).isdecimal() else None
    return recorder


def attach(recorder: Recorder, just_imported: str | None = None) -> None:
    """Install the hooks in this process, and have its forked children start anew."""
    for earlier in _attached:
        earlier.hand_over(recorder)
    _attached.clear()
    install(recorder, just_imported)
    _attached.append(recorder)
    # What is registered once cannot be taken back: one function for all recordings of this process.
    if hasattr(os, "register_at_fork") and not _at_fork:
        _at_fork.append(_forget_all)
        os.register_at_fork(after_in_child=_forget_all)


def detach(recorder: Recorder) -> None:
    """Think of a recorder no more, when its recording has ended; of its hooks as long as a thread may still be in them."""
    if recorder in recorders:
        recorders.remove(recorder)
    if recorder in _attached and not recorder.optimizer_undos:
        _attached.remove(recorder)


def _forget_all() -> None:
    for recorder in _attached:
        try:
            recorder.forget()
        except Exception:
            # Python would print it.
            recorder.live[0] = False


def install(recorder: Recorder, just_imported: str | None = None) -> None:
    """Install the hooks of what is imported already, and have the others installed as soon as it is."""
    recorder.undos.append(show_own_frames)
    waiting: dict[str, list[Hook]] = {}
    for hook in discovered(recorder):
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
        with all_or_nothing():
            undo = hook.install(recorder)
        recorder.undos.append(undo)
    except Unfit as error:
        state, reason = "off", str(error)
    except Exception as error:  # what does not fit this version of a framework stays off, and is named
        state, reason = "off", f"{type(error).__name__}: {error}"
    recorder.introduce({"kind": "hook", "name": hook.name, "state": state, "reason": reason})


def discovered(recorder: Recorder) -> list[Hook]:
    """The hooks of all frameworks and of Python itself, in the order of their installation; a broken file is noted as one that is off."""
    hooks, broken = discover_whole("slowstep.frameworks", "HOOK", Hook, in_each="inside")
    for file, error in broken.items():
        recorder.introduce({"kind": "hook", "name": file, "state": "off", "reason": str(error).rstrip(".")})
    return sorted([*hooks.values(), garbage_collections.HOOK, *state_writers.HOOKS], key=lambda hook: hook.name)


def _is_complete(name: str) -> bool:
    module = sys.modules.get(name)
    return module is not None and not getattr(getattr(module, "__spec__", None), "_initializing", False)


def _range(name: str) -> tuple[int, int] | None:
    first, _, last = os.environ.get(name, "").partition("-")
    return (int(first), int(last)) if first.isdecimal() and last.isdecimal() else None


def _levers() -> list[dict[str, Any]]:
    try:
        levers = json.loads(os.environ.get(contract.ENV_LEVERS) or "[]")
    except ValueError:
        return []
    return [fields for fields in levers if isinstance(fields, dict)] if isinstance(levers, list) else []


def _number(name: str) -> float | None:
    text = os.environ.get(name)
    return float(text) if text else None
