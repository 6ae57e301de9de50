"""Lightning, the Hugging Face Trainer and Accelerate as they are installed: what is named, what is counted, and that nothing changes."""

from __future__ import annotations

import importlib.util
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from launching import Workplace
from recorded import Process, Ran, Servers, run_script
from slowstep.record.writing.format import ENV_STEPS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

NEEDS = {"lightning": ("lightning",), "huggingface": ("transformers", "accelerate"), "accelerate": ("accelerate",)}
# What takes seconds to import, unlike Accelerate: once for all scripts. Those of `slowstep run` import it themselves.
IMPORTED = {"lightning": ("lightning.pytorch",), "huggingface": ("transformers.trainer",), "accelerate": ()}


def needs(framework: str) -> Any:
    missing = [name for name in NEEDS[framework] if importlib.util.find_spec(name) is None]
    return pytest.param(framework, marks=pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}"))


def at_night(parameter: Any) -> Any:
    return pytest.param(*parameter.values, marks=[*parameter.marks, pytest.mark.nightly])


TITLES = {"lightning": "Lightning", "huggingface": "Hugging Face Trainer"}
FRAMEWORKS = [needs(framework) for framework in NEEDS]
TRAINERS = [needs("lightning"), needs("huggingface")]
# What no framework's hook decides is tried with every change under one of them: it handles signals itself.
MAINLY_LIGHTNING = [needs("lightning"), at_night(needs("huggingface")), at_night(needs("accelerate"))]

DATA = """
import os, signal, sys, time, warnings
warnings.simplefilter("ignore")
import torch
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __init__(self, length=24):
        self.length = length
    def __len__(self):
        return self.length
    def __getitem__(self, index):
        return {"x": torch.full((8,), float(index)), "labels": torch.tensor(index % 3)}

def loss_of(model, batch):
    return torch.nn.functional.cross_entropy(model(batch["x"]), batch["labels"])
"""

# In each, `train(epochs, accumulate, validate, on_step)` trains with batches of 2, calls `on_step()` in a callback after each step, and
# returns the model.
SCRIPTS = {
    "lightning": """
import logging
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
import lightning.pytorch as pl
from lightning.pytorch.profilers.profiler import Profiler as Hooked

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def training_step(self, batch, index):
        return loss_of(self.layer, batch)
    def validation_step(self, batch, index):
        self.log("loss", loss_of(self.layer, batch))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

class Watch(pl.Callback):
    def __init__(self, on_step):
        self.on_step = on_step
    def on_train_batch_end(self, *arguments):
        self.on_step()

def train(epochs=1, accumulate=1, validate=False, on_step=lambda: time.sleep(0.001)):
    torch.manual_seed(1)
    trainer = pl.Trainer(max_epochs=epochs, accelerator="cpu", callbacks=[Watch(on_step)], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, accumulate_grad_batches=accumulate)
    net = Net()
    trainer.fit(net, DataLoader(Numbers(), batch_size=2), DataLoader(Numbers(8), batch_size=2) if validate else None)
    return net.layer
""",
    "huggingface": """
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_callback import CallbackHandler as Hooked

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 3)
    def forward(self, x, labels):
        return {"loss": loss_of(self.layer, {"x": x, "labels": labels}), "logits": labels}

class Watch(TrainerCallback):
    def __init__(self, on_step):
        self.on_step = on_step
    def on_step_end(self, *arguments, **more):
        self.on_step()

def train(epochs=1, accumulate=1, validate=False, on_step=lambda: time.sleep(0.001)):
    torch.manual_seed(1)
    arguments = TrainingArguments(output_dir="out", num_train_epochs=epochs, per_device_train_batch_size=2, per_device_eval_batch_size=2,
        gradient_accumulation_steps=accumulate, use_cpu=True, report_to="none", save_strategy="no", disable_tqdm=True,
        eval_strategy="epoch" if validate else "no", logging_strategy="no", optim="sgd")
    net = Net()
    Trainer(model=net, args=arguments, train_dataset=Numbers(), eval_dataset=Numbers(8), callbacks=[Watch(on_step)]).train()
    return net.layer
""",
    "accelerate": """
from accelerate import Accelerator
from accelerate.accelerator import Accelerator as Hooked

def train(epochs=1, accumulate=1, validate=False, on_step=lambda: time.sleep(0.001)):
    torch.manual_seed(1)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=accumulate)
    layer = torch.nn.Linear(8, 3)
    prepared = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.01), DataLoader(Numbers(), batch_size=2))
    model, optimizer, loader = prepared
    validation = accelerator.prepare(DataLoader(Numbers(8), batch_size=2))
    for epoch in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                accelerator.backward(loss_of(model, batch))
                optimizer.step()
                optimizer.zero_grad()
            on_step()
        for batch in validation if validate else ():
            with torch.no_grad():
                loss_of(model, batch)
    accelerator.save_state("out")
    return layer
""",
}


def run(servers: Servers, place: Path, framework: str, main: str, **options: Any) -> Ran:
    place.mkdir(exist_ok=True)
    return run_script(servers.having(*IMPORTED[framework]), place, DATA + SCRIPTS[framework] + "\n" + main, **options)


def named(process: Process) -> Counter[str]:
    """How often each named span was recorded."""
    texts = {note["id"]: note["text"] for note in process.noted("text")}
    return Counter(texts[record.a] for record in process.of("SPAN"))


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("accumulate", [pytest.param(1, marks=pytest.mark.nightly), 4])
def test_updates_waits_and_backwards_are_counted_once(servers: Servers, tmp_path: Path, framework: str, accumulate: int) -> None:
    ran = run(servers, tmp_path, framework, f"train(epochs=2, accumulate={accumulate})")

    assert ran.code == 0, ran.err
    kinds = Counter(record.kind for record in ran.trainer.records)
    got = [record for record in ran.trainer.of("WAIT") if not record.flags]
    assert (kinds["UPDATE"], kinds["BACKWARD"], len(got)) == (24 // accumulate, 24, 24)
    hooks = ran.trainer.noted("hook")
    assert {note["state"] for note in hooks} == {"on"}, hooks
    assert "recorder-fault" not in ran.trainer.health


@pytest.mark.parametrize(
    ("framework", "callback"),
    [
        pytest.param(*needs("lightning").values, "callback: Watch.on_train_batch_end", marks=needs("lightning").marks),
        pytest.param(*needs("huggingface").values, "callback: Watch.on_step_end", marks=needs("huggingface").marks),
    ],
)
def test_callbacks_and_validation_have_names_and_places(servers: Servers, tmp_path: Path, framework: str, callback: str) -> None:
    ran = run(servers, tmp_path, framework, "train(epochs=2, validate=True)")

    assert ran.code == 0, ran.err
    spans = named(ran.trainer)
    assert spans[callback] == 24
    assert spans["validation"] >= 2
    (number,) = [note["id"] for note in ran.trainer.noted("text") if note["text"] == callback]
    (place,) = [note for note in ran.trainer.noted("place") if note["text"] == number]
    assert Path(place["file"]).name == "train.py"
    assert not [name for name in spans if name.endswith((".training_step", ".optimizer_step", "Strategy.backward"))]


@pytest.mark.parametrize("framework", [needs("lightning")])
def test_a_logger_is_named_where_a_callback_calls_it_too_and_left_as_it_was(servers: Servers, tmp_path: Path, framework: str) -> None:
    main = """
from lightning.pytorch.callbacks import LearningRateMonitor
from lightning.pytorch.loggers import CSVLogger
class Slow(CSVLogger):
    def log_metrics(self, metrics, step=None):
        time.sleep(0.002)
        super().log_metrics(metrics, step)
class Logged(Net):
    def training_step(self, batch, index):
        loss = loss_of(self.layer, batch)
        self.log("loss", loss)
        return loss
before = dict(vars(Slow))
pl.Trainer(max_epochs=2, accelerator="cpu", callbacks=[LearningRateMonitor("step")], logger=[Slow("csv"), CSVLogger("other")],
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1).fit(
    Logged(), DataLoader(Numbers(), batch_size=2))
print(dict(vars(Slow)) == before)
"""
    ran = run(servers, tmp_path, framework, main, **{ENV_STEPS: "20"})

    assert (ran.code, ran.out.splitlines()[-1]) == (0, "True"), ran.err
    # Once a step by the trainer, once by the callback, whose first call comes before the trainer's; the recording ends within a step.
    assert named(ran.trainer)["logging: Slow"] >= 2 * 20 - 3
    (number,) = [note["id"] for note in ran.trainer.noted("text") if note["text"] == "logging: Slow"]
    places = {Path(note["file"]).name for note in ran.trainer.noted("place") if note["text"] == number}
    assert places == {"train.py"}
    assert "recorder-fault" not in ran.trainer.health


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_training_ends_the_same_when_it_is_recorded(servers: Servers, tmp_path: Path, framework: str) -> None:
    main = "layer = train(epochs=2, accumulate=2, validate=True)\nprint([float(p.sum()) for p in layer.parameters()])"

    plain = run(servers, tmp_path / "plain", framework, main, recorded=False)
    ran = run(servers, tmp_path / "recorded", framework, main)

    assert (ran.code, ran.out.splitlines()[-1]) == (plain.code, plain.out.splitlines()[-1])


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_when_the_recording_ends_in_the_middle_everything_is_put_back(servers: Servers, tmp_path: Path, framework: str) -> None:
    main = """
changed = {name for name, v in vars(Hooked).items() if "/slowstep/" in getattr(getattr(v, "__code__", None), "co_filename", "")}
train(epochs=3)
left = {name for name, v in vars(Hooked).items() if "/slowstep/" in getattr(getattr(v, "__code__", None), "co_filename", "")}
print(len(changed) > 0, left)
"""
    ran = run(servers, tmp_path, framework, main, **{ENV_STEPS: "10"})

    assert (ran.code, ran.out.splitlines()[-1]) == (0, "True set()")
    assert len(ran.trainer.of("UPDATE")) < 36


@pytest.mark.parametrize("framework", FRAMEWORKS)
@pytest.mark.parametrize("at", [pytest.param(1, marks=pytest.mark.nightly), 20])
def test_an_exception_in_a_callback_is_the_users_own(servers: Servers, tmp_path: Path, framework: str, at: int) -> None:
    main = f"""
calls = []
def fail():
    calls.append(1)
    if len(calls) == {at}:
        raise KeyError("mine")
train(epochs=2, on_step=fail)
"""
    ran = run(servers, tmp_path, framework, main)

    assert ran.code == 1
    assert ran.err.rstrip().endswith("KeyError: 'mine'")
    assert "slowstep/record/" not in ran.err
    assert "slowstep/frameworks/" not in ran.err
    assert len(ran.trainer.of("UPDATE")) == at


@pytest.mark.parametrize("framework", MAINLY_LIGHTNING[:2])
def test_a_killed_training_leaves_what_was_recorded(servers: Servers, tmp_path: Path, framework: str) -> None:
    # The shortest steps are written some together, and the last of them are lost: a sample that takes a millisecond makes none so short.
    main = """
made = Numbers.__getitem__
Numbers.__getitem__ = lambda self, index: time.sleep(0.001) or made(self, index)
calls = []
def kill():
    calls.append(1)
    time.sleep(0.001)
    if len(calls) == 20:
        os.kill(os.getpid(), signal.SIGKILL)
train(epochs=2, on_step=kill)
"""
    ran = run(servers, tmp_path, framework, main)

    assert ran.code == -9
    assert len(ran.trainer.of("UPDATE")) == 20
    spans = named(ran.trainer)
    assert max(spans["callback: Watch.on_train_batch_end"], spans["callback: Watch.on_step_end"]) == 19


# What a training may do to itself after its eighth step, and how many of its 24 updates come of it.
FAULTS = {
    "leaves at once": ("os._exit(7)", 8),
    "is interrupted": ("os.kill(os.getpid(), signal.SIGINT)", 8),
    "is told to end": ("os.kill(os.getpid(), signal.SIGTERM)", 8),
    "closes its output": ("os.close(1)", 24),
    "forks": ("os.waitpid(pid, 0) if (pid := os.fork()) else os._exit(0)", 24),
}
# What no framework handles: test_faults_training.py shows it without one.
AS_WITHOUT_ONE = ("leaves at once", "forks")


@pytest.mark.parametrize("framework", MAINLY_LIGHTNING)
@pytest.mark.parametrize("fault", [pytest.param(fault, marks=[pytest.mark.nightly] * (fault in AS_WITHOUT_ONE)) for fault in FAULTS])
def test_what_a_training_does_to_itself_ends_as_without_recording(servers: Servers, tmp_path: Path, framework: str, fault: str) -> None:
    does, updates = FAULTS[fault]
    main = f"""
signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))
calls = []
def fault():
    calls.append(1)
    if len(calls) == 8:
        {does}
train(epochs=2, on_step=fault)
os.write(2, b"trained to the end\\n")
"""
    plain = run(servers, tmp_path / "plain", framework, main, recorded=False)
    ran = run(servers, tmp_path / "recorded", framework, main)

    assert ran.code == plain.code
    assert ran.err.splitlines()[-1:] == plain.err.splitlines()[-1:]
    assert len(ran.trainer.of("UPDATE")) == updates
    assert "recorder-fault" not in ran.trainer.health


@pytest.mark.parametrize("framework", MAINLY_LIGHTNING)
def test_a_training_whose_recording_is_deleted_goes_on(servers: Servers, tmp_path: Path, framework: str) -> None:
    main = """
import shutil
calls = []
def delete():
    calls.append(1)
    if len(calls) == 8:
        shutil.rmtree(os.environ["SLOWSTEP_RECORDING"])
train(epochs=2, on_step=delete)
os.write(2, b"trained to the end after %d steps\\n" % len(calls))
"""
    ran = run(servers, tmp_path, framework, main)

    assert (ran.code, ran.err.splitlines()[-1:]) == (0, ["trained to the end after 24 steps"])
    assert "slowstep/record/" not in ran.err
    assert "slowstep/frameworks/" not in ran.err


@pytest.mark.parametrize("framework", TRAINERS)
def test_a_callback_that_sleeps_is_the_first_finding_with_its_name_and_place(work: Workplace, framework: str) -> None:
    work.write("train.py", DATA + SCRIPTS[framework] + "\ntrain(epochs=5, on_step=lambda: time.sleep(0.04))\n")

    report = work.report("train.py")

    first = report["findings"][0]
    assert (first["rule"], first["stage"]) == ("slow-callback", "output"), report["verdict"]["summary"]
    assert "train.py:" in first["title"]
    # How sure its gain is hangs on who else uses the machine.
    assert report["verdict"]["state"] in ("bottleneck", "undetermined")


@pytest.mark.nightly
@pytest.mark.parametrize("framework", TRAINERS)
def test_a_slow_callback_of_the_examples_is_the_verdict_with_its_name_and_place(work: Workplace, framework: str) -> None:
    report = work.report(str(EXAMPLES / f"{framework}_training.py"), "--batches", "25", "--variant", "slow-callback")

    verdict = report["verdict"]
    assert (verdict["rule"], verdict["stage"]) == ("slow-callback", "output"), verdict["summary"]
    assert "WeightHistograms.on_" in report["findings"][0]["title"]
    assert f"{framework}_training.py:" in report["findings"][0]["title"]


@pytest.mark.nightly
@pytest.mark.parametrize("framework", TRAINERS)
def test_a_healthy_training_is_not_blamed(work: Workplace, framework: str) -> None:
    report = work.report(str(EXAMPLES / f"{framework}_training.py"), "--batches", "25")

    assert report["run"]["framework"].endswith(f"with {TITLES[framework]}")
    assert report["verdict"]["state"] != "bottleneck", report["verdict"]["summary"]
    assert max(report["ledger"], key=lambda row: row["share"] or 0)["stage"] == "compute"
