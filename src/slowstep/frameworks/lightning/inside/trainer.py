"""Where the script has made its Trainer, whose arguments levers may stand for: for experiments alone."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.lightning.inside._framework import FRAMEWORK, PACKAGES
from slowstep.record.experiment.made_calls import MadeCalls
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.timing.call_sites import call_site

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "trainer.trainer"


def _install(package: str, recorder: Recorder) -> Undo:
    """Replace the constructor. Raises Unfit where this version has none."""
    if not recorder.experiment:
        return all_of([])
    trainer = find(sys.modules[f"{package}.{_MODULE}"], "Trainer")
    original, calls = find(trainer, "__init__"), recorder.shared(MadeCalls)

    @functools.wraps(original)
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            calls.trainer(self, call_site(2, original), trainer, FRAMEWORK.name)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return replace(trainer, "__init__", __init__)


HOOKS = tuple(
    Hook(name=f"{package.replace('.', '_')}_trainer", module=f"{package}.{_MODULE}", install=functools.partial(_install, package))
    for package in PACKAGES
)
