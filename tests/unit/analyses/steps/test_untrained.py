from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from slowstep.analyses.steps.untrained import describe_untrained
from slowstep.errors import NothingRecorded
from slowstep.record.writing import format as fmt
from slowstep.sources.recording import SOURCE
from slowstep.workflow.diagnose_recordings import diagnose_all


def describe(events: Events, **ending: object) -> str:
    events.launcher.lines[-1] |= {"started_ns": at(0)}
    events.launcher.lines.append({"kind": "exit", "ended_ns": at(40_000), "by": "script", "signals": [], "code": 0, **ending})
    return describe_untrained(events.timeline())


@pytest.fixture
def events(tmp_path) -> Events:
    """A loop that calls no optimizer: three backward passes."""
    events = Events(tmp_path)
    for k in range(3):
        events.wait(10 * k, 10 * k + 1)
        events.backward(10 * k + 2, 10 * k + 4)
    assert fmt.UPDATE not in {fmt.RECORD.unpack(record)[-1] for record in events.trainer.records}
    return events


def test_what_was_seen_instead_of_updates_is_counted(events):
    text = describe(events)

    assert "no training step was recorded in 40 s" in text
    assert "3 batches requested, 3 backward passes" in text
    assert "The command" not in text


def test_of_a_command_that_failed_before_it_trained_the_failure_is_all_there_is_to_say(tmp_path, events):
    asked = Events(tmp_path / "other")
    asked.wait(0, 1)

    for text in (describe(events, code=3), describe(asked, code=3)):
        assert "failed before any update (exit code 3)" in text
        assert text.endswith("says why.")


def test_a_loop_of_jax_in_which_no_step_is_seen_is_told_of_jax_and_not_of_torch(tmp_path):
    events = Events(tmp_path)
    for k in range(3):
        events.wait(10 * k, 10 * k + 1)
    exit_line = {"kind": "exit", "code": 0, "ended_ns": at(40_000), "by": "script", "signals": [], "told": ["python", "torch", "jax"]}
    events.launcher.lines.append(exit_line)

    text = describe_untrained(events.timeline())

    assert "jitted function" in text
    assert "jax.profiler" in text
    assert "torch.optim" not in text


def test_a_first_step_that_has_not_ended_is_not_said_to_be_none(events):
    events.trainer.lines.append({"kind": "optimizer", "id": 1, "type": "LBFGS"})

    text = describe_untrained(events.timeline())

    assert "3 backward passes" in text
    assert "had not ended" in text
    assert "was called" not in text


def test_a_command_that_failed_after_many_backward_passes_says_so_before_any_other_advice(events):
    for k in range(3, 40):
        events.backward(10 * k + 2, 10 * k + 4)

    text = describe(events, code=3)

    assert "failed before any update (exit code 3)" in text
    assert text.index("exit code 3") < text.index("Updates without a torch.optim optimizer")


@pytest.mark.parametrize(
    ("code", "signals", "failed"), [(1, [], True), (0, [], False), (130, [2], False)], ids=["failed", "ended", "stopped"]
)
def test_of_an_update_alone_it_is_said_whether_the_command_failed(tmp_path, code, signals, failed):
    events = Events(tmp_path)
    events.update(30, 31)
    events.launcher.lines[-1] |= {"started_ns": at(0)}
    events.launcher.lines.append({"kind": "exit", "ended_ns": at(40_000), "by": "script", "signals": signals, "code": code})

    with pytest.raises(NothingRecorded, match="only 1 update recorded") as told:
        diagnose_all(events.close())

    assert ("The command failed after that (exit code 1)" in str(told.value)) == failed


def test_what_has_not_begun_to_train_is_to_run_longer(tmp_path, events):
    begun, not_begun = describe(events), Events(tmp_path / "other")
    not_begun.wait(0, 1)

    assert "Let it run until it trains" in describe(not_begun)
    assert "Let it run until it trains" not in begun


def in_a_session(events: Events) -> Events:
    """The same, recorded from within a script since its first second."""
    run = next(line for line in events.launcher.lines if line["kind"] == "run")
    run |= {"started_in": "a script", "recorded_from_ns": at(1_000), "thread": 1}
    return events


def test_a_block_around_no_training_is_to_stand_around_it(tmp_path):
    text = without_training(in_a_session(Events(tmp_path)), ended_ms=3_000, code=0)

    assert text.startswith("no training step was recorded in 2 s: nothing called a loader, backward or an optimizer.")
    assert "`with slowstep.record():`" in text
    assert "import slowstep.auto" not in text
    assert "the command" not in text


def test_a_block_that_ended_before_its_training_began_is_told_no_options_of_a_command(tmp_path):
    events = in_a_session(Events(tmp_path))
    events.wait(0, 1)

    text = describe_untrained(events.timeline())

    assert "Record on until it trains." in text
    assert "--stop" not in text


def test_a_command_that_was_killed_names_the_signal(events):
    assert "was ended by SIGKILL (exit code 137)" in describe(events, code=137)


def test_a_command_that_an_experiment_ended_was_not_ended_by_an_option_of_run(events):
    text = describe(events, code=137, by="slowstep --stop", signals=["SIGKILL"])

    assert "The experiment ended before it trained" in text
    assert "--stop" not in text.partition("Let it run")[0]
    assert "exit code" not in text


def test_a_command_that_stop_ended_is_no_failure(events):
    text = describe(events, code=130, by="slowstep --stop", signals=["SIGINT"])

    assert "ended by --stop" in text
    assert "exit code" not in text


def without_pytorch(folder: Path, *, ended_ms: float, code: int) -> str:
    """What is said of a command that used no PyTorch."""
    events = Events(folder)
    events.launcher.lines[-1] |= {"started_ns": at(0)}
    return without_training(events, ended_ms=ended_ms, code=code)


def without_training(events: Events, *, ended_ms: float, code: int) -> str:
    """What is said where no process has a file."""
    events.launcher.lines.append({"kind": "exit", "code": code, "ended_ns": at(ended_ms), "by": "script", "signals": []})
    folder = events.close()
    for file in folder.glob("100-1.*"):
        file.unlink()
    return describe_untrained(SOURCE.read(folder))


def test_a_command_that_failed_before_pytorch_was_imported_says_so_too(tmp_path):
    text = without_pytorch(tmp_path, ended_ms=40_000, code=1)

    assert "no training step was recorded in 40 s" in text
    assert "exit code 1" in text
    assert "import slowstep.auto" not in text


def test_a_command_that_was_ended_from_outside_may_not_have_come_to_its_first_update(tmp_path):
    ended, failed = (without_pytorch(tmp_path / str(code), ended_ms=40_000, code=code) for code in (143, 1))

    assert ended.index("was ended by SIGTERM") < ended.index("let it run longer") < ended.index("import slowstep.auto")
    assert "run longer" not in failed


def test_of_a_command_that_failed_at_once_the_failure_is_all_there_is_to_say(tmp_path):
    failed, ended = (without_pytorch(tmp_path / str(code), ended_ms=400, code=code) for code in (2, 0))

    assert failed.startswith("no training step was recorded. The command failed before any update (exit code 2)")
    assert "import" not in failed
    assert "import slowstep.auto" in ended


def without_files(folder: Path, *, told: list[str] | None, code: int = 0) -> str:
    events = Events(folder)
    events.launcher.lines[-1] |= {"started_ns": at(0)}
    exit_line = {"kind": "exit", "code": code, "ended_ns": at(40_000), "by": "script", "signals": [], "told": told}
    events.launcher.lines.append(exit_line)
    events.close()
    for file in folder.glob("100-1.*"):
        file.unlink()
    return describe_untrained(SOURCE.read(folder))


@pytest.mark.parametrize(
    ("told", "said", "unsaid"),
    [
        (["python"], ["imported none of PyTorch", "records PyTorch", "slowstep analyze TRACE"], ["slowstep.auto"]),
        (["python", "tensorflow"], ["TensorFlow", "tf.profiler", "slowstep analyze logs"], ["slowstep.auto", "jax.profiler"]),
        (["python", "jax"], ["JAX", "jax.profiler", "slowstep analyze logs"], ["slowstep.auto", "TensorFlow"]),
        (["old_python"], ["older than 3.11"], ["slowstep.auto"]),
        ([], ["no Python process", "slowstep.auto"], ["never imported"]),
        (["python", "torch"], ["slowstep.auto"], ["never", "records PyTorch"]),
        (["python", "torch", "jax"], ["slowstep.auto", "JAX too", "jax.profiler"], ["never"]),
        (["python", "torch", "tensorflow", "keras"], ["slowstep.auto", "Keras too"], ["never"]),
        (None, ["slowstep.auto"], ["never", "records PyTorch"]),
    ],
)
def test_what_is_advised_depends_on_what_was_imported(tmp_path, told, said, unsaid):
    text = without_files(tmp_path, told=told)

    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []


@pytest.mark.parametrize(
    ("code", "said", "unsaid"),
    [
        (130, ["ended by SIGINT", "Let it run until it trains"], ["error message"]),
        (1, ["its own error message"], ["Let it run"]),
    ],
    ids=["Ctrl-C", "an error"],
)
def test_of_a_first_step_that_was_being_compiled_it_is_not_said_that_nothing_trained(tmp_path, code, said, unsaid):
    text = without_files(tmp_path / "begun", told=["python", "keras", "tensorflow", "begun"], code=code)
    without = without_files(tmp_path / "not", told=["python", "keras", "tensorflow"], code=code)

    begun = "fit or train_on_batch had begun its first step, in which Keras compiles the model, and had not ended it."
    assert begun in text
    assert "no model was trained" not in text
    assert [words for words in said if words not in text] == []
    assert [words for words in unsaid if words in text] == []
    assert begun not in without
    assert "no model was trained by fit" in without


def test_batches_of_a_loop_without_pytorch_are_counted_and_promise_no_report(tmp_path):
    events = Events(tmp_path)
    for k in range(3):
        events.wait(10 * k, 10 * k + 1)
    with_torch = describe_untrained(events.timeline())
    events.trainer.lines[0]["torch"] = None

    text = describe_untrained(events.timeline())

    assert "3 batches requested through slowstep.steps()" in text
    assert "PyTorch was not imported" in text
    assert "slowstep.steps()" not in with_torch


def test_a_command_that_was_ended_before_it_imported_pytorch_may_have_been_about_to(tmp_path):
    assert "let it run longer" in without_files(tmp_path, told=["python"], code=143)


def test_of_what_was_lost_it_is_not_said_that_it_was_not_called(events):
    remedy = "the recording of this process ended early (No space left on device): free some space"
    events.trainer.lines.append({"kind": "health", "name": "disk-full", "severity": "data_loss", "count": 1, "remedy": remedy})

    text = describe(events)

    assert text == f"no training step could be read in 40 s: {remedy}."
