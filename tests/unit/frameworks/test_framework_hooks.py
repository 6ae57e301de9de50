"""Hooks of frameworks on stand-ins of the same shape: what is written, that nothing changes, and that everything is put back."""

from __future__ import annotations

import contextlib
import copy
import pickle
import sys
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from recorded import Process, Record, make_folder, only
from slowstep.frameworks.accelerate.inside import accelerator as accelerate_accelerator
from slowstep.frameworks.lightning.inside import actions, interrupt, metrics
from slowstep.frameworks.lightning.inside.actions import label_of
from slowstep.frameworks.transformers.inside import callbacks as huggingface_callbacks
from slowstep.frameworks.transformers.inside import trainer as huggingface_trainer
from slowstep.record.hook import Hook
from slowstep.record.patch import Unfit
from slowstep.record.recorder import Recorder
from slowstep.record.steps import named_spans
from slowstep.record.steps.named_spans import NOT_RECORDED, Label, place_of
from slowstep.record.writing.format import FAILED
from slowstep.stages import STAGES

LIGHTNING = {hook.name: hook for hook in (*actions.HOOKS, *interrupt.HOOKS, *metrics.HOOKS)}


@pytest.fixture
def recorder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    # However short, so that no test has to take its time.
    monkeypatch.setattr(named_spans.NamedSpans.write, "__kwdefaults__", {"failed": False, "shortest_ns": 0})
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    yield recorder
    recorder.stop("test")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a module importable, with some attributes."""

    def module(name: str, **attributes: Any) -> types.ModuleType:
        made = types.ModuleType(name)
        vars(made).update(attributes)
        monkeypatch.setitem(sys.modules, name, made)
        return made

    return module


def spans(recorder: Recorder) -> list[tuple[str, str]]:
    """Name and stage of every span, in the order in which they ended."""
    recorder.stop("exit")
    process = only(recorder.folder)
    return [(name_of(process, record), STAGES[record.b]) for record in process.of("SPAN")]


def name_of(process: Process, record: Record) -> str:
    return next(note["text"] for note in process.noted("text") if note["id"] == record.a)


class Profiler:
    def __init__(self) -> None:
        self.seen: list[str] = []

    def start(self, action: str) -> None:
        self.seen.append(f"start {action}")

    def stop(self, action: str) -> None:
        self.seen.append(f"stop {action}")

    @contextlib.contextmanager
    def profile(self, action_name: str) -> Iterator[str]:
        try:
            self.start(action_name)
            yield action_name
        finally:
            self.stop(action_name)


class Quiet(Profiler):
    def start(self, action: str) -> None:
        pass

    stop = start


class Plot:
    state_key = "Plot"

    def on_train_batch_end(self) -> None:
        pass


def call(profiler: Profiler, action: str, fn: Any = None) -> None:
    # As Lightning's _call_callback_hooks has it: a local variable `fn` holds what is called.
    with profiler.profile(action):
        if fn is not None:
            fn()


@pytest.mark.parametrize("hook", [LIGHTNING["lightning_actions"], LIGHTNING["pytorch_lightning_actions"]], ids=lambda hook: hook.name)
@pytest.mark.parametrize("chosen", [Profiler, Quiet])
def test_an_action_of_a_callback_is_a_span_with_the_place_of_its_function(recorder: Recorder, module: Any, hook: Hook, chosen: Any) -> None:
    module(hook.module, Profiler=Profiler)
    undo = hook.install(recorder)
    profiler = chosen()

    call(profiler, "[Callback]Plot.on_train_batch_end", Plot().on_train_batch_end)
    call(profiler, "run_training_batch")
    undo()

    assert spans(recorder) == [("callback: Plot.on_train_batch_end", "output")]
    (place,) = only(recorder.folder).noted("place")
    assert (place["file"], place["line"]) == (__file__, Plot.on_train_batch_end.__code__.co_firstlineno)
    if chosen is Profiler:
        assert profiler.seen == [
            *("start [Callback]Plot.on_train_batch_end", "stop [Callback]Plot.on_train_batch_end"),
            *("start run_training_batch", "stop run_training_batch"),
        ]


def test_after_undoing_the_profiler_is_as_it_was(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_actions"].module, Profiler=Profiler)
    before = dict(vars(Profiler))

    undo = LIGHTNING["lightning_actions"].install(recorder)
    assert vars(Profiler)["profile"] is not before["profile"]
    undo()

    assert dict(vars(Profiler)) == before


def test_a_profiler_is_a_decorator_still_and_can_be_pickled_and_copied(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_actions"].module, Profiler=Profiler)
    undo = LIGHTNING["lightning_actions"].install(recorder)
    profiler = Profiler()

    assert profiler.profile("[Callback]Plot.on_fit_start")(lambda: 5)() == 5
    assert copy.deepcopy(profiler).seen == pickle.loads(pickle.dumps(profiler)).seen == profiler.seen
    undo()

    assert [entry.partition(" ")[0] for entry in profiler.seen] == ["start", "stop"]


def test_an_exception_in_a_callback_passes_and_its_span_is_marked(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_actions"].module, Profiler=Profiler)
    undo = LIGHTNING["lightning_actions"].install(recorder)

    def fail() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        call(Profiler(), "[Callback]Plot.on_train_batch_end", fail)
    undo()
    recorder.stop("exit")

    (record,) = only(recorder.folder).of("SPAN")
    assert record.flags == FAILED


@pytest.mark.parametrize(
    ("action", "label"),
    [
        (
            "[Callback]ModelCheckpoint{'monitor': 'a.b', 'mode': 'min'}.on_validation_end",
            ("checkpoint: ModelCheckpoint.on_validation_end", "store"),
        ),
        ("[Callback]TQDMProgressBar.on_train_batch_end", ("progress bar: TQDMProgressBar.on_train_batch_end", "output")),
        ("[Callback]EarlyStopping.on_validation_end", ("callback: EarlyStopping.on_validation_end", "output")),
        ("[Callback]Average.on_save_checkpoint", ("checkpoint: Average.on_save_checkpoint", "store")),
        ("[LightningModule]Net.on_train_epoch_end", ("callback: Net.on_train_epoch_end", "output")),
        ("[LightningModule]Net.on_after_batch_transfer", ("transform: Net.on_after_batch_transfer", "preprocess")),
        ("[LightningDataModule]Data.train_dataloader", ("Data.train_dataloader", "preprocess")),
        ("[LightningDataModule]Data.val_dataloader", ("validation", "output")),
        ("[Strategy]DDPStrategy.validation_step", ("validation", "output")),
        ("save_checkpoint", ("checkpoint: Trainer.save_checkpoint", "store")),
    ],
)
def test_an_action_is_named_and_belongs_to_a_stage(action: str, label: tuple[str, str]) -> None:
    named = label_of(action, {})

    assert (named.name, named.stage) == label


@pytest.mark.parametrize(
    "action",
    [
        *(
            "run_training_epoch",
            "run_training_batch",
            "my own block",
            "[Strategy]DDPStrategy.training_step",
            "[LightningModule]Net.optimizer_step",
        ),
        *(
            "[_TrainingEpochLoop].train_dataloader_next",
            "[Strategy]DDPStrategy.on_train_batch_start",
            "[LightningModule]Net.configure_optimizers",
        ),
    ],
)
def test_a_steps_own_work_is_left_to_the_hooks_of_torch(action: str) -> None:
    assert label_of(action, {}) == NOT_RECORDED


class Logger:
    def log_metrics(self) -> None:
        pass


class Own(Logger):
    def save(self) -> None:
        pass


class Connector:
    def __init__(self, loggers: list[Any]) -> None:
        self.trainer = types.SimpleNamespace(loggers=loggers)

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> int:
        for logger in self.trainer.loggers:
            logger.log_metrics()
        return len(metrics)


def test_each_logger_is_a_span_by_its_name_whoever_calls_it(recorder: Recorder, module: Any) -> None:
    before = dict(vars(Logger)), dict(vars(Own))
    module(LIGHTNING["lightning_loggers"].module, _LoggerConnector=Connector)
    undo = LIGHTNING["lightning_loggers"].install(recorder)

    own = Own()
    assert Connector([Logger(), own]).log_metrics({"loss": 1.0}, step=3) == 1
    own.save()
    assert Connector([]).log_metrics({}) == 0
    undo()
    own.save()

    # The connector's own ends after those of the loggers that it calls; what an inherited method takes is noted once.
    names = [name for name, _ in spans(recorder)]
    assert names.count("logging: Logger") == names.count("logging: Trainer.log_metrics") == 1
    assert set(names) == {"logging: Logger", "logging: Own", "logging: Trainer.log_metrics"}
    assert (dict(vars(Logger)), dict(vars(Own))) == before


def test_loggers_that_are_met_after_the_recording_are_left_alone(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_loggers"].module, _LoggerConnector=Connector)
    undo = LIGHTNING["lightning_loggers"].install(recorder)
    running = Connector.log_metrics
    undo()
    before = dict(vars(Own))

    assert running(Connector([Own()]), {"loss": 1.0}) == 1

    assert dict(vars(Own)) == before


class Module:
    """As Lightning has it: `log_dict` calls `log` for each of its values."""

    def __init__(self, stage: str = "TRAINING") -> None:
        self._trainer = types.SimpleNamespace(state=types.SimpleNamespace(stage=types.SimpleNamespace(_name_=stage)))
        self.logged: list[tuple[str, float, bool]] = []

    def log(self, name: str, value: float, prog_bar: bool = False) -> None:
        if value < 0:
            raise ValueError("mine")
        self.logged.append((name, value, prog_bar))

    def log_dict(self, dictionary: dict[str, float], prog_bar: bool = False) -> None:
        for name, value in dictionary.items():
            self.log(name=name, value=value, prog_bar=prog_bar)

    def training_step(self) -> None:
        self.log("loss", 1.0)
        self.log_dict({"a": 2.0, "b": 3.0}, prog_bar=True)

    def on_train_batch_end(self) -> None:
        [self.log(name, 4.0) for name in "c"]


def test_what_a_module_logs_is_a_span_by_the_function_that_does_and_log_dict_is_one(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_metrics"].module, LightningModule=Module)
    before = dict(vars(Module))
    undo = LIGHTNING["lightning_metrics"].install(recorder)
    net = Module()

    net.training_step()
    net.on_train_batch_end()
    undo()
    net.training_step()

    assert dict(vars(Module)) == before
    assert net.logged[:4] == [("loss", 1.0, False), ("a", 2.0, True), ("b", 3.0, True), ("c", 4.0, False)]
    named = ["metrics: self.log in Module.training_step"] * 2 + ["metrics: self.log in Module.on_train_batch_end"]
    assert spans(recorder) == [(name, "output") for name in named]
    assert (__file__, Module.training_step.__code__.co_firstlineno) in {
        (place["file"], place["line"]) for place in only(recorder.folder).noted("place")
    }


@pytest.mark.parametrize(("stage", "count"), [("TRAINING", 2), ("VALIDATING", 0), ("SANITY_CHECKING", 0)])
def test_what_a_validation_logs_is_the_validations(recorder: Recorder, module: Any, stage: str, count: int) -> None:
    module(LIGHTNING["lightning_metrics"].module, LightningModule=Module)
    undo = LIGHTNING["lightning_metrics"].install(recorder)

    Module(stage).training_step()
    Module().training_step()
    undo()

    assert len(spans(recorder)) == count + 2


def test_an_exception_of_log_passes_and_the_next_call_is_recorded(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_metrics"].module, LightningModule=Module)
    undo = LIGHTNING["lightning_metrics"].install(recorder)
    net = Module()

    with pytest.raises(ValueError, match="mine"):
        net.log_dict({"a": -1.0})
    net.training_step()
    undo()

    assert len(spans(recorder)) == 3


def test_a_trainer_that_does_not_say_what_it_does_is_no_fault_of_the_training(recorder: Recorder, module: Any) -> None:
    module(LIGHTNING["lightning_metrics"].module, LightningModule=Module)
    undo = LIGHTNING["lightning_metrics"].install(recorder)
    net = Module()
    net._trainer = types.SimpleNamespace()

    Module().training_step()
    net.training_step()
    undo()

    assert len(net.logged) == 3
    assert len(spans(recorder)) == 2


def test_the_validation_loop_is_one_span(recorder: Recorder, module: Any) -> None:
    class Loop:
        def run(self) -> list[int]:
            return [1]

    module(LIGHTNING["lightning_validation"].module, _EvaluationLoop=Loop)
    undo = LIGHTNING["lightning_validation"].install(recorder)

    assert Loop().run() == [1]
    undo()

    assert spans(recorder) == [("validation", "output")]


def test_that_lightning_was_interrupted_is_noted_and_an_error_is_not(recorder: Recorder, module: Any) -> None:
    def interrupt(trainer: Any, exception: BaseException) -> str:
        return f"{trainer} {type(exception).__name__}"

    call = module(LIGHTNING["lightning_interrupt"].module, _interrupt=interrupt)
    undo = LIGHTNING["lightning_interrupt"].install(recorder)
    noted: list[dict[str, Any]] = []
    recorder.note = noted.append  # type: ignore[method-assign]

    said = [call._interrupt("trainer", kind()) for kind in (ValueError, KeyboardInterrupt)]
    undo()

    assert said == ["trainer ValueError", "trainer KeyboardInterrupt"]
    assert noted == [{"kind": "interrupted", "by": "KeyboardInterrupt"}]
    assert call._interrupt is interrupt


@pytest.mark.parametrize(
    ("hook", "missing"),
    [
        (LIGHTNING["lightning_actions"], "Profiler"),
        (LIGHTNING["lightning_validation"], "_EvaluationLoop"),
        (LIGHTNING["lightning_loggers"], "_LoggerConnector"),
        (LIGHTNING["lightning_metrics"], "LightningModule"),
        (huggingface_callbacks.HOOK, "CallbackHandler"),
        (huggingface_trainer.HOOK, "Trainer"),
        (accelerate_accelerator.HOOK, "Accelerator"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_version_without_what_is_hooked_turns_that_hook_off(recorder: Recorder, module: Any, hook: Hook, missing: str) -> None:
    module(hook.module)
    with pytest.raises(Unfit, match=missing):
        hook.install(recorder)

    module(hook.module, **{missing: type(missing, (), {})})
    with pytest.raises(Unfit, match=missing):
        hook.install(recorder)


class Handler:
    """As transformers has it."""

    def __init__(self, callbacks: list[Any]) -> None:
        self.callbacks = callbacks
        self.model = "model"

    def call_event(self, event: str, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        for callback in self.callbacks:
            result = getattr(callback, event)(args, state, control, model=self.model, **kwargs)
            if result is not None:
                control = result
        return control


class Doubling:
    def on_log(self, args: Any, state: Any, control: int, **kwargs: Any) -> int:
        assert kwargs == {"model": "model", "logs": {}}
        return 2 * control


class Failing:
    def on_log(self, *args: Any, **kwargs: Any) -> None:
        raise ValueError("mine")


class PrinterCallback:
    def on_log(self, *args: Any, **kwargs: Any) -> None:
        pass


def test_every_callback_of_an_event_is_a_span_of_its_own(recorder: Recorder, module: Any) -> None:
    module(huggingface_callbacks.HOOK.module, CallbackHandler=Handler)
    before = dict(vars(Handler))
    undo = huggingface_callbacks.HOOK.install(recorder)

    assert Handler([Doubling(), PrinterCallback(), Doubling()]).call_event("on_log", 0, 0, 3, logs={}) == 12
    undo()

    assert dict(vars(Handler)) == before
    doubling, printer = ("logging: Doubling.on_log", "output"), ("progress bar: PrinterCallback.on_log", "output")
    assert spans(recorder) == [doubling, printer, doubling]


def test_an_exception_in_one_callback_passes_and_ends_its_span(recorder: Recorder, module: Any) -> None:
    module(huggingface_callbacks.HOOK.module, CallbackHandler=Handler)
    undo = huggingface_callbacks.HOOK.install(recorder)

    with pytest.raises(ValueError, match="mine"):
        Handler([Doubling(), Failing(), Doubling()]).call_event("on_log", 0, 0, 3, logs={})
    undo()

    assert [name for name, _ in spans(recorder)] == ["logging: Doubling.on_log", "logging: Failing.on_log"]


def test_a_handler_can_be_pickled_and_copied_while_it_is_hooked(recorder: Recorder, module: Any) -> None:
    module(huggingface_callbacks.HOOK.module, CallbackHandler=Handler)
    undo = huggingface_callbacks.HOOK.install(recorder)
    handler = Handler([Doubling()])

    assert pickle.loads(pickle.dumps(handler)).model == copy.deepcopy(handler).model == "model"
    undo()


def metrics(prediction: Any) -> dict[str, float]:
    return {"accuracy": 0.5}


class Trainer:
    def __init__(self) -> None:
        self.compute_metrics = metrics

    def evaluate(self) -> dict[str, float]:
        return self.evaluation_loop()

    def evaluation_loop(self) -> dict[str, float]:
        assert self.compute_metrics.__name__ == "metrics"
        return self.compute_metrics(None)

    def save_model(self) -> str:
        return "saved"


def test_evaluation_metrics_and_checkpoints_of_a_trainer_are_spans(recorder: Recorder, module: Any) -> None:
    module(huggingface_trainer.HOOK.module, Trainer=Trainer)
    before = dict(vars(Trainer))
    undo = huggingface_trainer.HOOK.install(recorder)
    trainer = Trainer()

    assert (trainer.evaluate(), trainer.save_model()) == ({"accuracy": 0.5}, "saved")
    assert trainer.compute_metrics is metrics
    undo()

    assert dict(vars(Trainer)) == before
    assert spans(recorder) == [
        *(("callback: metrics", "output"), ("validation", "output"), ("validation", "output")),
        ("checkpoint: Trainer.save_model", "store"),
    ]


class Metrics:
    """Metrics that may not be asked for more than they are called for."""

    def __call__(self, prediction: Any) -> dict[str, float]:
        return {"accuracy": 0.5}

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_metrics_that_raise_when_they_are_looked_at_are_recorded_all_the_same(recorder: Recorder, module: Any) -> None:
    class Evaluator:
        def evaluation_loop(self) -> dict[str, float]:
            return self.compute_metrics(None)

        def __init__(self) -> None:
            self.compute_metrics = Metrics()

        evaluate = evaluation_loop

    module(huggingface_trainer.HOOK.module, Trainer=Evaluator)
    undo = huggingface_trainer.HOOK.install(recorder)

    assert Evaluator().evaluation_loop() == {"accuracy": 0.5}
    undo()
    assert ("callback: Metrics", "output") in spans(recorder)


def test_an_accelerators_checkpoints_and_logs_are_spans(recorder: Recorder, module: Any) -> None:
    class Accelerator:
        trackers = (Logger(),)

        def save_state(self) -> str:
            return "there"

        def log(self, values: dict[str, float]) -> None:
            pass

    module(accelerate_accelerator.HOOK.module, Accelerator=Accelerator)
    before = dict(vars(Accelerator))
    undo = accelerate_accelerator.HOOK.install(recorder)

    assert Accelerator().save_state() == "there"
    Accelerator().log({})
    undo()

    assert dict(vars(Accelerator)) == before
    assert spans(recorder) == [("checkpoint: Accelerator.save_state", "store"), ("logging: Logger", "output")]


def test_calls_too_short_to_matter_are_not_written(tmp_path: Path) -> None:
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    writer = named_spans.NamedSpans(recorder)

    writer.write(Label("callback: short"), time.monotonic_ns())
    writer.write(Label("callback: long"), time.monotonic_ns() - named_spans.SHORTEST_NS)

    assert spans(recorder) == [("callback: long", "output")]


def test_the_place_of_installed_code_and_of_anything_odd_is_not_given() -> None:
    assert place_of(pytest.fixture) == (None, 0)
    assert place_of(len) == place_of(None) == place_of(3) == (None, 0)
    assert place_of(metrics) == (__file__, metrics.__code__.co_firstlineno)
