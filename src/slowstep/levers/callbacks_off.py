"""Callbacks of Lightning's and Hugging Face's trainers are not called: those of one class, or of all.

What it changes:
    callbacks-off=NAME leaves out what callbacks of one class do at every batch, at the end of an epoch and in a validation. Without a name
    `slowstep prove` tries classes one by one: those that took most time in the recording, up to six, progress bars among them; the rest is
    listed as untried. Where none took 0.2 % of the time, and in `slowstep run --with`, all are left out at once. What they do where a
    training or an epoch begins is done, for they prepare themselves there. Left as they are: callbacks that steer the training (they stop
    it, schedule it, freeze layers, say when to log or to save), and those that write checkpoints (checkpoint-off), unless one is named.
    Of classes that are tried one by one such are told by their names: a class of the script's own that steers is tried like any other.
    With `:every=k` one step in k has its callbacks.
What it answers:
    What the training would gain without its callbacks, or with callbacks every k steps. facts.left_out says how often each was left out.
When it has no meaning:
    In a loop of the script's own, where nobody knows what is a callback: use stub=MODULE:FUNCTION. The same for hooks of the module
    itself (LightningModule.on_train_batch_end). The framework's own walk through its callbacks, some 5 us a callback and step, stays.
How it is undone:
    The callbacks' methods are hidden by attributes of the instances, which are taken away.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from slowstep.levers._calls.handing import Function, Handler
from slowstep.levers._calls.left_out import CallsOff
from slowstep.levers._calls.trainers import huggingface_trainer, lightning_trainer
from slowstep.record.experiment.lever import Change, Lever, LeverSpec, NotApplicable
from slowstep.record.experiment.training import Training
from slowstep.record.patch import replace

# What callbacks do in or after steps, and in validations. Not where something begins: other methods rely on it.
_METHODS: Final = (
    *("on_train_batch_start", "on_train_batch_end", "on_before_backward", "on_after_backward", "on_before_optimizer_step"),
    *("on_before_zero_grad", "on_train_epoch_end", "on_validation_batch_start", "on_validation_batch_end", "on_validation_epoch_end"),
    *("on_step_begin", "on_step_end", "on_substep_end", "on_pre_optimizer_step", "on_optimizer_step", "on_epoch_end", "on_log"),
    *("on_evaluate", "on_prediction_step", "on_save", "on_validation_end"),
)
STEERS: Final = frozenset(
    {
        *("EarlyStopping", "Timer", "GradientAccumulationScheduler", "StochasticWeightAveraging", "WeightAveraging", "BaseFinetuning"),
        *("ModelPruning", "BatchSizeFinder", "LearningRateFinder", "SpikeDetection", "DefaultFlowCallback", "EarlyStoppingCallback"),
    }
)
_BASES: Final = frozenset({"Callback", "TrainerCallback"})
_FRAMEWORKS: Final = ("lightning.", "pytorch_lightning.", "transformers.")


class CallbacksOff(CallsOff):
    """Hides methods of callbacks. Raises NotApplicable where there are none to hide."""

    def __init__(self, training: Training, spec: LeverSpec) -> None:
        super().__init__(training, spec.every)
        self._trainer, self._name = lightning_trainer() or huggingface_trainer(), spec.value
        if self._trainer is None:
            raise NotApplicable(
                "callbacks are known of Lightning's and Hugging Face's trainers only; "
                "in a loop of the script's own use stub=MODULE:FUNCTION"
            )
        if not self._chosen():
            raise NotApplicable(self._why_none())

    def replaced(self) -> Iterable[tuple[Function, Handler]]:
        """No function of a class: other callbacks may inherit it."""
        return ()

    def on(self) -> None:
        """Hide them."""
        super().on()
        for callback in self._chosen():
            for method in _methods(callback):
                self.add_undo(replace(callback, method, self._left_out(callback, method)))

    def facts(self) -> Mapping[str, Any]:
        """Which callbacks were left as they are, beside the counts."""
        chosen = [id(callback) for callback in self._chosen()]
        return {**super().facts(), "kept": sorted({type(c).__name__ for c in self._all() if id(c) not in chosen})}

    def _left_out(self, callback: Any, method: str) -> Any:
        original, name = getattr(callback, method), f"{type(callback).__name__}.{method}"

        def left_out(*args: Any, **kwargs: Any) -> Any:
            if not self.leaves_out():
                return original(*args, **kwargs)
            self.count(name)
            return None

        return left_out

    def _chosen(self) -> list[Any]:
        if self._name is not None:
            return [callback for callback in self._all() if self._name in _names(type(callback)) and _methods(callback)]
        return [callback for callback in self._all() if not _is_kept(callback) and _methods(callback)]

    def _all(self) -> list[Any]:
        handler = getattr(self._trainer, "callback_handler", self._trainer)
        return list(handler.callbacks)

    def _why_none(self) -> str:
        there = ", ".join(sorted({type(callback).__name__ for callback in self._all()})) or "none"
        if self._name is None:
            return f"the trainer has no callback that could be left out (it has: {there})"
        return f"no callback that does something in steps is called {self._name} (the trainer has: {there})"


def _methods(callback: Any) -> list[str]:
    """The methods that a callback has of its own: those of the base class do nothing."""
    if not hasattr(callback, "__dict__"):
        return []
    return [name for name in _METHODS if callable(own := getattr(callback, name, None)) and not _is_of_base(own)]


def _is_of_base(method: Any) -> bool:
    owner, module = getattr(method, "__qualname__", "").rpartition(".")[0], str(getattr(method, "__module__", ""))
    return owner in _BASES and module.startswith(_FRAMEWORKS)


def _names(kind: type) -> tuple[str, str]:
    return kind.__name__, f"{kind.__module__}.{kind.__qualname__}"


def _is_kept(callback: Any) -> bool:
    names = {base.__name__ for base in type(callback).__mro__}
    return bool(names & STEERS) or "Checkpoint" in names


def prepare(training: Training, spec: LeverSpec) -> Change:
    """Find the trainer and its callbacks. Raises NotApplicable in a loop of the script's own, and where no callback is meant."""
    return CallbacksOff(training, spec)


LEVER = Lever(name="callbacks-off", takes="NAME", takes_optional=True, every=True, long_steps="its own", prepare=prepare)
