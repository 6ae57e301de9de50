"""What a module of Lightning hands to `self.log` and `self.log_dict` while it trains: each metric is converted, checked and averaged there.

Loggers come later, and only every `log_every_n_steps`; this is paid for in every step. `log_dict` calls `log` for each of its values: only
the outermost call is timed, and what it calls passes by one comparison.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.steps.named_spans import NOT_RECORDED, Label, place_of_code, timed
from slowstep.record.timing.tracebacks import hide_own_frames
from slowstep.stages import METRICS

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

_METHODS: Final = ("log", "log_dict")
# Comprehensions and lambdas are named for the function around them.
_WITHIN: Final = ".<locals>.<"


def metrics_hook(package: str, name: str) -> Hook:
    """The metrics of modules of one of Lightning's packages."""
    module = f"{package}.core.module"

    def install(recorder: Recorder) -> Undo:
        """Replace `LightningModule.log` and `log_dict`. Raises Unfit where this version has none."""
        owner = find(sys.modules[module], "LightningModule")
        originals = [find(owner, method) for method in _METHODS]
        metrics = _Metrics(recorder)
        return all_of([replace(owner, method, metrics.timed(each)) for method, each in zip(_METHODS, originals, strict=True)])

    return Hook(name=name, module=module, install=install)


class _Metrics:
    """Times the outermost of these calls, by the function that makes it."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._labels: dict[CodeType, Label] = {}
        # Of the thread that trains: where another one logs meanwhile, some of its calls are not written down.
        self._inside = [False]
        recorder.forgetters.append(self._labels.clear)

    def timed(self, original: Any) -> Any:
        """`original`, one of the two methods, which behaves as before."""
        inside, live, outermost = self._inside, self._recorder.live, timed(self._recorder, original, self._label_of)

        @functools.wraps(original)
        def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
            if inside[0] or not live[0]:
                return original(self, *args, **kwargs)
            inside[0] = True
            try:
                return outermost(self, *args, **kwargs)
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise
            finally:
                inside[0] = False

        return method

    def _label_of(self, module: Any) -> Label:
        """By the function that calls `method`, in which `outermost` asks for this."""
        if not _is_training(module):
            return NOT_RECORDED
        caller = sys._getframe(3).f_code
        label = self._labels.get(caller)
        if label is None:
            label = self._labels[caller] = _label(caller)
        return label


def _label(caller: CodeType) -> Label:
    return Label(f"{METRICS}self.log in {caller.co_qualname.partition(_WITHIN)[0]}", "output", *place_of_code(caller))


def _is_training(module: Any) -> bool:
    """Whether it is no validation or test that logs, of which all is charged to that; Fabric's trainers do not say."""
    trainer = getattr(module, "_trainer", None)
    # By its name: Lightning's enumerations compare themselves with text, which takes longer than all of this.
    return trainer is None or trainer.state.stage is None or trainer.state.stage._name_ == "TRAINING"


HOOKS = (metrics_hook("lightning.pytorch", "lightning_metrics"), metrics_hook("pytorch_lightning", "pytorch_lightning_metrics"))
