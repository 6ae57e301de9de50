"""What a module of Lightning hands to `self.log` and `self.log_dict` while it trains: each metric is converted, checked and averaged there.

Loggers come later, and only every `log_every_n_steps`; this is paid for in every step. `log_dict` calls `log` for each of its values: only
the outermost call is timed, and what it calls passes by one comparison.
"""

from __future__ import annotations

import functools
import sys
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook, Undo, all_of, find, replace
from slowstep.record.named_spans import NOT_RECORDED, Label, NamedSpans, place_of_code
from slowstep.record.recorder import now
from slowstep.record.tracebacks import hide_own_frames
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
        self._spans = NamedSpans(recorder)
        self._labels: dict[CodeType, Label] = {}
        # Of the thread that trains: where another one logs meanwhile, some of its calls are not written down.
        self._inside = [False]
        recorder.forgetters.append(self._labels.clear)

    def timed(self, original: Any) -> Any:
        """`original`, one of the two methods, which behaves as before."""
        inside, live, write = self._inside, self._recorder.live, self._write

        @functools.wraps(original)
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            if inside[0] or not live[0]:
                return original(self, *args, **kwargs)
            inside[0] = True
            began_ns, failed = now(), True
            try:
                result = original(self, *args, **kwargs)
                failed = False
                return result
            except BaseException:  # passed on, without our frames in the traceback
                hide_own_frames()
                raise
            finally:
                inside[0] = False
                write(self, sys._getframe(1).f_code, began_ns, failed=failed)

        return method

    def _write(self, module: Any, caller: CodeType, began_ns: int, *, failed: bool) -> None:
        try:
            label = self._labels.get(caller)
            if label is None:
                label = self._labels[caller] = _label(caller)
            self._spans.write(label if _is_training(module) else NOT_RECORDED, began_ns, failed=failed)
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)


def _label(caller: CodeType) -> Label:
    return Label(f"{METRICS}self.log in {caller.co_qualname.partition(_WITHIN)[0]}", "output", *place_of_code(caller))


def _is_training(module: Any) -> bool:
    """Whether it is no validation or test that logs, of which all is charged to that; Fabric's trainers do not say."""
    trainer = getattr(module, "_trainer", None)
    # By its name: Lightning's enumerations compare themselves with text, which takes longer than all of this.
    return trainer is None or trainer.state.stage is None or trainer.state.stage._name_ == "TRAINING"
