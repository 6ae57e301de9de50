"""The injected `sitecustomize`: how recording reaches every Python process of a command that nobody changed."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from slowstep.record.framework import control_flags, training_modules
from slowstep.record.writing import format as contract

if TYPE_CHECKING:
    from collections.abc import Mapping

INJECT_FOLDER: Final = "inject"
PACKAGE_FOLDER: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# Read by whatever Python the command starts, so it must be valid in all of them, Python 2 included; from 3.11 on it records.
# Until a framework is imported it does next to nothing: most Python processes are no training.
# It ends by importing the next `sitecustomize` on sys.path in its own place: without one that import fails as it does without slowstep,
# and `site` passes over that in silence.
_TEMPLATE: Final = """\
# Written by slowstep for one run, and removed after it.
import os
import sys


def _tell(at):
    # Not by mmap: this runs in whatever Python there is.
    try:
        page = os.open(os.path.join(os.environ[{recording!r}], {control!r}), os.O_WRONLY)
        try:
            os.lseek(page, at, 0)
            os.write(page, b"\\1")
        finally:
            os.close(page)
    except Exception:
        pass  # the recording is over


def _activate(name, began_ns):
    from slowstep.record.injection.activate import activate
    activate(name, began_ns)


class _Door(object):
    def find_spec(self, name, path=None, target=None):
        # What opens the door: a framework, and slowstep itself, which a spawned worker asks for first.
        if name not in {training!r} + ("slowstep",):
            return None
        try:
            sys.meta_path.remove(self)
            listener = type(sys)("_slowstep_imports")
            listener.__file__ = {imports!r}
            type(__loader__)("_slowstep_imports", listener.__file__).exec_module(listener)
            flags = {flags!r}
            listener.listen({package!r}, _activate, lambda known: known in flags and _tell(flags[known]), {training!r})
            return sys.meta_path[0].find_spec(name, path, target)
        except Exception:
            return None  # a training is never harmed; that nothing was recorded is said at its end


if {recording!r} in os.environ and not os.environ.get({disable!r}):
    _tell({flags[python]!r} if sys.version_info >= (3, 11) else {flags[old_python]!r})
if sys.version_info >= (3, 11) and {recording!r} in os.environ and not os.environ.get({disable!r}):
    sys.meta_path.insert(0, _Door())
    if {seeds!r} in os.environ:
        try:
            import slowstep.record.experiment.seeds
            slowstep.record.experiment.seeds.install({training!r})
        except Exception:  # a training is never harmed; its seeds are then the script's own
            pass
sys.path[:] = [entry for entry in sys.path if entry != {here!r}]
sys.modules.pop("sitecustomize", None)
import sitecustomize
"""


def write_injection(folder: str) -> str:
    """Write `inject/sitecustomize.py` into a recording's folder and return the absolute path to put on PYTHONPATH."""
    here = os.path.join(folder, INJECT_FOLDER)
    os.mkdir(here, 0o700)
    text = _TEMPLATE.format(
        training=training_modules(),
        recording=contract.ENV_RECORDING,
        disable=contract.ENV_DISABLE,
        control=contract.CONTROL_FILE,
        flags=control_flags(),
        seeds=contract.ENV_SEEDS,
        imports=os.path.join(PACKAGE_FOLDER, "record", "imports.py"),
        package=PACKAGE_FOLDER,
        here=here,
    )
    with open(os.path.join(here, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write(text)
    return here


def remove_injection(folder: str) -> None:
    """Remove what only running processes need: the injected folder and the control page."""
    shutil.rmtree(os.path.join(folder, INJECT_FOLDER), ignore_errors=True)
    try:
        os.unlink(os.path.join(folder, contract.CONTROL_FILE))
    except OSError:
        pass


def injected_environment(
    environ: Mapping[str, str],
    *,
    folder: str,
    inject: str,
    level: int,
    steps: int | None,
    seconds: float | None,
    capture: tuple[int, int] | None = None,
    experiment: bool = False,
    asked: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The environment for the user's command: its own, with the recording in it. An existing PYTHONPATH is kept, behind.

    `asked` are variables of format.py that only some runs are asked for: levers that are always on, seeds, losses.
    """
    theirs = environ.get("PYTHONPATH")
    added = {
        "PYTHONPATH": f"{inject}{os.pathsep}{theirs}" if theirs else inject,
        contract.ENV_RECORDING: folder,
        contract.ENV_LEVEL: str(level),
    }
    if steps is not None:
        added[contract.ENV_STEPS] = str(steps)
    if seconds is not None:
        added[contract.ENV_SECONDS] = repr(seconds)
    if capture is not None:
        added[contract.ENV_CAPTURE] = f"{capture[0]}-{capture[1]}"
    if experiment:
        added[contract.ENV_EXPERIMENT] = "1"
    # A recording around this one is none of the command's.
    inherited = {name: value for name, value in environ.items() if name not in SPOKEN}
    return inherited | added | dict(asked or {})


# What names a recording to the processes that are started.
SPOKEN: Final = (
    contract.ENV_RECORDING,
    contract.ENV_LEVEL,
    contract.ENV_STEPS,
    contract.ENV_SECONDS,
    contract.ENV_CAPTURE,
    contract.ENV_EXPERIMENT,
    contract.ENV_LEVERS,
    contract.ENV_LOADER,
    contract.ENV_SEEDS,
    contract.ENV_LOSSES,
    contract.ENV_UNPROTECTED,
)
