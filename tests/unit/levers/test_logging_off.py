"""`logging-off` in real trainings: what logs and prints is left out, and nothing else."""

from __future__ import annotations

import builtins
import csv
import io
import logging
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from few import few
from made_trainings import LEAD_IN, Script, Walked, loader, plan_of, walk
from slowstep.levers._calls.intercept import _calls


@pytest.fixture(autouse=True)
def _no_function_is_intercepted() -> Iterator[None]:
    before = builtins.print, logging.Logger._log.__code__, vars(csv.DictWriter)["writerow"].__code__
    yield
    assert not _calls, "a function is intercepted still"
    assert before == (builtins.print, logging.Logger._log.__code__, vars(csv.DictWriter)["writerow"].__code__)


def walked_with(folder: Path, log: Callable[[int], Any], lever: str = "logging-off", blocks: tuple[int, ...] = (0, 1, 0, 1)) -> Walked:
    """A training that logs after each step."""

    def train(script: Script) -> None:
        for step, batch in enumerate(batches := loader()):
            more = script.step(batch)
            log(step)
            if not more:
                return
        assert batches

    return walk(folder / "recording", plan_of([lever], blocks), train)


def all_steps(walked: Walked) -> int:
    return 20 + len(walked.steps.arm) + 1


def test_what_is_printed_to_the_terminal_is_left_out(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    own = builtins.print
    # As in a script: pytest's own stream has no descriptor of the process.
    with open(1, "w", closefd=False) as terminal:
        walked = walked_with(tmp_path, lambda step: print(f"step {step}", file=terminal, flush=True))

    printed = capfd.readouterr().out.splitlines()
    assert walked.effect() == (12, {"left_out": {"print": 12}})
    assert len(printed) == all_steps(walked) - 12
    assert builtins.print is own


def test_what_is_printed_into_a_buffer_or_a_file_stays(tmp_path: Path) -> None:
    buffer = io.StringIO()
    with (tmp_path / "log.txt").open("w") as file:

        def log(step: int) -> None:
            print(step, file=buffer)
            print(step, file=file)

        walked = walked_with(tmp_path, log)

    assert walked.effect()[0] == 0
    assert len(buffer.getvalue().split()) == len((tmp_path / "log.txt").read_text().split()) == all_steps(walked)


def test_log_records_are_left_out_but_errors(tmp_path: Path) -> None:
    logger = logging.getLogger("of the script")
    logger.setLevel(logging.INFO)
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger.addHandler(handler)

    def log(step: int) -> None:
        logger.debug("never shown")
        logger.info("step %d", step)
        logger.error("wrong %d", step)

    try:
        walked = walked_with(tmp_path, log)
    finally:
        logger.removeHandler(handler)

    assert walked.effect() == (12, {"left_out": {"logging.Logger": 12}})
    assert stream.getvalue().count("step") == all_steps(walked) - 12
    assert stream.getvalue().count("wrong") == all_steps(walked)


@pytest.mark.slow
def test_rows_of_a_table_are_left_out(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["step"])

    walked = walked_with(tmp_path, lambda step: writer.writerow({"step": step}))

    assert walked.effect() == (12, {"left_out": {"DictWriter.writerow": 12}})
    assert len(stream.getvalue().split()) == all_steps(walked) - 12


def test_one_step_in_k_is_logged_whole(tmp_path: Path) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["step", "name"])

    def log(step: int) -> None:
        writer.writerow({"step": step, "name": "loss"})
        writer.writerow({"step": step, "name": "accuracy"})

    walked = walked_with(tmp_path, log, "logging-off:every=4")

    # Of ten counted steps three log, and of two in which it settled one.
    assert walked.effect()[0] == 16
    steps = [row.split(",")[0] for row in stream.getvalue().split()]
    assert {steps.count(step) for step in steps} == {2}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("every", "seldom"), [(2, 1), (3, 3), *(pytest.param(*case, marks=pytest.mark.slow) for case in ((3, 1), (5, 1), (2, 3), (5, 3)))]
)
def test_of_the_steps_that_log_one_in_k_does_in_the_counted_ones(tmp_path: Path, every: int, seldom: int) -> None:
    stream = io.StringIO()
    writer = csv.DictWriter(stream, ["step"])

    def log(step: int) -> None:
        if step % seldom == 0:
            writer.writerow({"step": step})

    walked = walked_with(tmp_path, log, f"logging-off:every={every}", blocks=(0, 1) * 9)

    logged = {int(row) for row in stream.getvalue().split()}
    steps = walked.steps
    counted = [LEAD_IN + at for at, (arm, settling) in enumerate(zip(steps.arm, steps.settling, strict=True)) if arm == 1 and not settling]
    due = [step for step in counted if step % seldom == 0]
    assert len(counted) == 45
    assert abs(sum(step in logged for step in due) - len(due) / every) <= 0.5


SUMMARY = """
class SummaryWriter:
    def __init__(self):
        self.seen = []
    def add_scalar(self, tag, value, step=None):
        self.seen.append(tag)
    def add_histogram(self, *arguments):
        self.seen.append("histogram")
    def flush(self):
        self.seen.append("flush")
"""
RUN = """
class Run:
    def __init__(self):
        self.seen = []
    def log(self, data, step=None):
        self.seen.append(step)
"""
FLUENT = """
seen = []
def log_metric(key, value, step=None):
    seen.append(key)
def log_metrics(metrics, step=None):
    seen.append("metrics")
def log_model(model):
    seen.append("model")
    return "model"
"""
LOGURU = """
class Logger:
    def __init__(self):
        self.seen = []
    def _log(self, level, from_decorator, options, message, args, kwargs):
        self.seen.append(message)
    def info(self, message, *args, **kwargs):
        self._log("INFO", False, (), message, args, kwargs)
"""
TQDM = """
class tqdm:
    def __init__(self):
        self.seen = []
    def display(self, msg=None, pos=None):
        self.seen.append(pos)
        return True
"""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Any]:
    """A module of a library that need not be installed, of the same shape."""

    def make(name: str, source: str) -> Any:
        module = types.ModuleType(name)
        exec(source, vars(module))
        monkeypatch.setitem(sys.modules, name, module)
        return module

    return make


@pytest.mark.slow
@pytest.mark.parametrize("name", few(["torch.utils.tensorboard.writer", "tensorboardX.writer"], every=3))
def test_summaries_are_left_out(tmp_path: Path, stand_in: Any, name: str) -> None:
    writer = stand_in(name, SUMMARY).SummaryWriter()
    held = writer.add_scalar

    def log(step: int) -> None:
        held("loss", 1.0, step)
        writer.add_histogram("weights", [1.0])
        writer.flush()

    walked = walked_with(tmp_path, log)

    assert walked.effect() == (24, {"left_out": {"SummaryWriter.add_scalar": 12, "SummaryWriter.add_histogram": 12}})
    assert writer.seen.count("flush") == all_steps(walked)
    assert writer.seen.count("loss") == all_steps(walked) - 12


@pytest.mark.slow
def test_runs_of_wandb_are_left_out_by_whatever_name(tmp_path: Path, stand_in: Any) -> None:
    run = stand_in("wandb.sdk.wandb_run", RUN).Run()
    # As wandb.init does.
    wandb = types.SimpleNamespace(log=run.log)

    walked = walked_with(tmp_path, lambda step: wandb.log({"loss": 1.0}, step=step))

    assert walked.effect() == (12, {"left_out": {"Run.log": 12}})
    assert len(run.seen) == all_steps(walked) - 12


@pytest.mark.slow
def test_metrics_of_mlflow_are_left_out_and_models_are_not(tmp_path: Path, stand_in: Any) -> None:
    fluent = stand_in("mlflow.tracking.fluent", FLUENT)
    log_metric = fluent.log_metric

    def log(step: int) -> None:
        log_metric("loss", 1.0)
        fluent.log_metrics({"loss": 1.0})
        assert fluent.log_model(None) == "model"

    walked = walked_with(tmp_path, log)

    assert walked.effect() == (24, {"left_out": {"log_metric": 12, "log_metrics": 12}})
    assert fluent.seen.count("model") == all_steps(walked)


@pytest.mark.slow
def test_loguru_and_tqdm_are_left_out(tmp_path: Path, stand_in: Any) -> None:
    logger, bar = stand_in("loguru._logger", LOGURU).Logger(), stand_in("tqdm.std", TQDM).tqdm()

    def log(step: int) -> None:
        logger.info("step")
        assert bar.display(pos=step) is True

    walked = walked_with(tmp_path, log)

    assert walked.effect() == (24, {"left_out": {"Logger._log": 12, "tqdm.display": 12}})
    assert len(bar.seen) == len(logger.seen) == all_steps(walked) - 12


@pytest.mark.slow
def test_a_training_that_logs_nothing_shows_no_effect(tmp_path: Path) -> None:
    walked = walked_with(tmp_path, lambda step: None)

    assert walked.effect() == (0, {"left_out": {}})
