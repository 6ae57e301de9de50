"""Where the script has made the Trainer's arguments, of which the Trainer makes its loaders: for experiments alone."""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

from slowstep.frameworks.transformers.inside._framework import FRAMEWORK
from slowstep.record.experiment.made_calls import MadeCalls
from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.timing.call_sites import call_site

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_MODULE = "transformers.training_args"


def install(recorder: Recorder) -> Undo:
    """Replace what the constructors of all its kinds end with. Raises Unfit where this version has none."""
    if not recorder.experiment:
        return all_of([])
    arguments = find(sys.modules[_MODULE], "TrainingArguments")
    original, calls = find(arguments, "__post_init__"), recorder.shared(MadeCalls)

    @functools.wraps(original)
    def __post_init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        try:
            calls.settings(self, call_site(2, None), arguments, FRAMEWORK.name)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)

    return replace(arguments, "__post_init__", __post_init__)


HOOK = Hook(name="huggingface_arguments", module=_MODULE, install=install)
