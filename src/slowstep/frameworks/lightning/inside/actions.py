"""What Lightning names itself: the actions that its profilers see, its validation loop, and its loggers.

`lightning.pytorch` and `pytorch_lightning` are the same code under two names; each has hooks of its own, made here.
Actions of a step's own work (`training_step`, `backward`, `optimizer_step`, `run_training_batch`) and requests for input are not written
down: torch's hooks see them, and nothing is to be counted twice.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType, TracebackType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, find, replace
from slowstep.record.recorder import now
from slowstep.record.steps.named_spans import NOT_RECORDED, Label, NamedSpans, place_of, place_of_method, timed
from slowstep.stages import CALLBACK, CHECKPOINT, LOGGING, PROGRESS, TRANSFORM, VALIDATION

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# Hooks of modules, data modules and strategies that are part of a step's own work, or belong to no step.
_STEP: Final = frozenset(
    {
        *("training_step", "backward", "optimizer_step", "optimizer_zero_grad", "configure_gradient_clipping", "lr_scheduler_step"),
        *("batch_to_device", "transfer_batch_to_device", "on_before_batch_transfer", "forward", "setup", "teardown", "prepare_data"),
        *("configure_optimizers", "configure_model", "configure_callbacks", "configure_sharded_model", "on_fit_start", "on_fit_end"),
    }
)
_EVALUATION: Final = frozenset(
    {
        "validation_step",
        "test_step",
        "predict_step",
        "val_dataloader",
        "test_dataloader",
        "predict_dataloader",
        "on_validation_model_zero_grad",
    }
)
_MODEL_STATE: Final = frozenset({"on_save_checkpoint", "on_load_checkpoint"})
# Work on the batch by the user's own code, on the training thread: it makes input, though a loader has handed it out already.
_ON_BATCH: Final = "on_after_batch_transfer"


def actions_hook(package: str, name: str) -> Hook:
    """Every action that Lightning shows to a profiler, whichever profiler the user has chosen."""
    module = f"{package}.profilers.profiler"

    def install(recorder: Recorder) -> Undo:
        """Replace `Profiler.profile`. Raises Unfit where this version has none."""
        profiler = find(sys.modules[module], "Profiler")
        return replace(profiler, "profile", _recorded(recorder, find(profiler, "profile")))

    return Hook(name=name, module=module, install=install)


def validation_hook(package: str, name: str) -> Hook:
    """The loop that validates: all of it, its waits and what its callbacks do too."""
    return _method_hook(f"{package}.loops.evaluation_loop", "_EvaluationLoop", "run", name, lambda _: Label(VALIDATION))


def loggers_hook(package: str, name: str) -> Hook:
    """Metrics handed to all loggers, and what each of these does with them, whoever calls it."""
    module = f"{package}.trainer.connectors.logger_connector.logger_connector"

    def install(recorder: Recorder) -> Undo:
        """Replace `_LoggerConnector.log_metrics`. Raises Unfit where this version has none."""
        connector = find(sys.modules[module], "_LoggerConnector")
        loggers = _Loggers(recorder)
        return all_of([loggers.undo, replace(connector, "log_metrics", loggers.recorded(find(connector, "log_metrics")))])

    return Hook(name=name, module=module, install=install)


class _Loggers:
    """The trainer's loggers by their classes, each timed by its own name.

    Callbacks hand metrics to loggers themselves (LearningRateMonitor): what a logger then takes is not theirs.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._labels: dict[type, Label] = {}
        self._undos: list[Undo] = []
        self._over = False

    def recorded(self, original: Any) -> Any:
        """`_LoggerConnector.log_metrics`; the loggers are known where it is called, and often replaced before."""
        return timed(self._recorder, _after(self._watch, original), _handing_out)

    def undo(self) -> None:
        """Leave the classes of the loggers as they were."""
        self._over = True
        all_of(self._undos)()

    def _watch(self, connector: Any) -> None:
        try:
            for logger in connector.trainer.loggers:
                if type(logger) not in self._labels and not self._over and self._recorder.live[0]:
                    self._replace_in(type(logger))
        except Exception as error:  # the border: counted, and never raised into the training
            self._recorder.fault(error)

    def _replace_in(self, kind: type) -> None:
        methods = [(name, method) for name in ("log_metrics", "save") if isinstance(method := getattr(kind, name, None), FunctionType)]
        own = [place for _, method in methods if (place := place_of(method))[0] is not None]
        self._labels[kind] = Label(LOGGING + kind.__name__, "output", *(own[0] if own else (None, 0)))
        for name, method in methods:
            self._undos.append(replace(kind, name, timed(self._recorder, method, self._label)))

    def _label(self, logger: Any) -> Label:
        # Of a class whose base was seen, and itself not yet: its own time is noted from its first turn on.
        return self._labels.get(type(logger), NOT_RECORDED)


def _after(first: Callable[[Any], None], original: Any) -> Any:
    """`original`, a method, with something done before it."""

    @functools.wraps(original)
    def method(self: Any, /, *args: Any, **kwargs: Any) -> Any:
        first(self)
        return original(self, *args, **kwargs)

    return method


def _handing_out(connector: Any) -> Label:
    """What is left of it: tensors are made numbers, which waits for a device."""
    return Label(LOGGING + "Trainer.log_metrics") if connector.trainer.loggers else NOT_RECORDED


def _method_hook(module: str, owner: str, method: str, name: str, label: Callable[[Any], Label]) -> Hook:
    def install(recorder: Recorder) -> Undo:
        holder = find(sys.modules[module], owner)
        return replace(holder, method, timed(recorder, find(holder, method), label))

    return Hook(name=name, module=module, install=install)


def _recorded(recorder: Recorder, original: Any) -> Any:
    """`Profiler.profile`, whose context also writes a span."""
    spans = NamedSpans(recorder)
    labels: dict[str, Label] = {}
    recorder.forgetters.append(labels.clear)

    @functools.wraps(original)
    def profile(self: Any, action_name: str) -> Any:
        context = original(self, action_name)
        try:
            label = labels.get(action_name)
            if label is None:
                label = labels[action_name] = label_of(action_name, sys._getframe(1).f_locals)
        except Exception as error:  # the border: counted, and never raised into the training
            recorder.fault(error)
            return context
        return _Action(context, spans, label) if label.name else context

    return profile


class _Action:
    """The context of one action, around the profiler's own."""

    __slots__ = ("_began_ns", "_context", "_label", "_spans")

    def __init__(self, context: Any, spans: NamedSpans, label: Label) -> None:
        self._context, self._spans, self._label = context, spans, label
        self._began_ns = 0

    def __call__(self, function: Any) -> Any:
        # Used as a decorator: the profiler's own affair.
        return self._context(function)

    def __enter__(self) -> Any:
        self._began_ns = now()
        return self._context.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> Any:
        try:
            return self._context.__exit__(kind, error, traceback)
        finally:
            self._spans.write(self._label, self._began_ns, failed=error is not None)


def label_of(action: str, caller: dict[str, Any]) -> Label:
    """What an action is called and where it belongs; `caller` are the local variables of Lightning's function that names it."""
    if action == "save_checkpoint":
        return Label(CHECKPOINT + "Trainer.save_checkpoint", "store")
    kind, _, rest = action.partition("]")
    owner, _, hook = rest.rpartition(".")
    # A callback's key may hold its arguments: ModelCheckpoint{'monitor': None, ...}
    owner = owner.partition("{")[0]
    if not kind.startswith("[") or not owner:
        return NOT_RECORDED
    name = f"{owner}.{hook}"
    place = place_of_method(caller.get("callback"), hook) if (fn := caller.get("fn")) is None else place_of(fn)
    if kind == "[Callback":
        return _callback(owner, hook, name, place)
    if hook in _EVALUATION:
        return Label(VALIDATION)
    if hook in _STEP or kind not in ("[LightningModule", "[LightningDataModule"):
        return NOT_RECORDED
    if hook in _MODEL_STATE:
        return Label(CHECKPOINT + name, "store", *place)
    if hook == "train_dataloader":
        return Label(name, "preprocess", *place)
    return Label(TRANSFORM + name, "preprocess", *place) if hook == _ON_BATCH else Label(CALLBACK + name, "output", *place)


def _callback(owner: str, hook: str, name: str, place: tuple[str | None, int]) -> Label:
    if hook in _MODEL_STATE or owner.endswith("Checkpoint"):
        return Label(CHECKPOINT + name, "store", *place)
    return Label((PROGRESS if owner.endswith("ProgressBar") else CALLBACK) + name, "output", *place)


HOOKS = (
    actions_hook("lightning.pytorch", "lightning_actions"),
    loggers_hook("lightning.pytorch", "lightning_loggers"),
    validation_hook("lightning.pytorch", "lightning_validation"),
    actions_hook("pytorch_lightning", "pytorch_lightning_actions"),
    loggers_hook("pytorch_lightning", "pytorch_lightning_loggers"),
    validation_hook("pytorch_lightning", "pytorch_lightning_validation"),
)
