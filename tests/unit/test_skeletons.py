"""What the pages beside the code tell a newcomer to begin with works as it stands there, in the place that the page names."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from fake_machine import FakeMachine
from made_measurements import measurements
from made_recordings import Training, make_recording
from recorded import make_folder, only
from slowstep.diagnosis.engine import diagnose, rules
from slowstep.document.build import build
from slowstep.document.training import sections_of_training
from slowstep.document.validity import faults
from slowstep.errors import UnreadableInput, UnwritableOutput
from slowstep.faults import Attempts
from slowstep.record.experiment.lever import LeverSpec, NotApplicable
from slowstep.record.recorder import Recorder
from slowstep.record.writing import format as contract
from slowstep.report.terminal import render
from slowstep.sources._source import PLAIN
from slowstep.stages import STAGES
from slowstep.workflow.analyze import analyze, examine
from slowstep.workflow.export import export, exporters
from slowstep.workflow.traces.find import find
from slowstep.workflow.traces.trace_request import TraceRequest

ROOT = Path(__file__).parents[2] / "src" / "slowstep"
PAGES = {
    "slowstep.diagnosis.rules.after_update.slow_thing": "diagnosis/rules",
    "slowstep.exporters.thing": "exporters",
    "slowstep.frameworks.torch.inside.thing": "frameworks#Add a hook",
    "slowstep.frameworks.torch.inside.thing_loader": "frameworks#A loader",
    "slowstep.record.monitors.thing": "record/monitors",
    "slowstep.sources.thing": "sources",
}
RUN: Any = dict.fromkeys(
    ("framework", "step_boundary", "batch_size", "batch_size_from", "device", "started", "duration_s", "startup_s", "warmup_steps")
) | {"name": "train", "command": ["train.py"], "ranks": 1, "steps": 200}
Place = Callable[[str], ModuleType]


def text_of(room: str) -> str:
    """The code on the page of a package: the first, or that under the heading after a `#`."""
    folder, _, heading = room.partition("#")
    page = (ROOT / folder / "README.md").read_text(encoding="utf-8")
    block = re.search(r"```python\n(.*?)```", page[page.index(f"# {heading}") :], flags=re.DOTALL)
    assert block is not None
    return block[1]


def skeleton(room: str) -> dict[str, Any]:
    """The names that it defines."""
    names: dict[str, Any] = {"__name__": "skeleton"}
    exec(compile(text_of(room), room, "exec"), names)
    return names


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Puts the file of a page where it says, as far as the package and whoever looks for plug-ins in it can tell."""
    placed: list[str] = []

    def place(module: str) -> ModuleType:
        home, _, file = module.rpartition(".")
        folder = tmp_path / home.replace(".", "/")
        folder.mkdir(parents=True)
        (folder / f"{file}.py").write_text(text_of(PAGES[module]), encoding="utf-8")
        # Rules are looked for in the folders of the package above.
        for name, path in ((home, folder), (home.rpartition(".")[0], folder.parent)):
            package = importlib.import_module(name)
            monkeypatch.setattr(package, "__path__", [*package.__path__, str(path)])
        placed.append(module)
        return importlib.import_module(module)

    yield place
    for module in placed:
        home, _, file = module.rpartition(".")
        if sys.modules.pop(module, None) is not None:
            delattr(sys.modules[home], file)


def test_the_lever_leaves_calls_out_and_puts_back_what_was_there(monkeypatch):
    calls: list[int] = []
    framework = SimpleNamespace(thing=calls.append)
    monkeypatch.setitem(sys.modules, "framework", framework)
    before = framework.thing
    lever = skeleton("levers")["IMPLEMENTATION"]

    change = lever.prepare(None, LeverSpec(name=lever.name))
    change.on()
    framework.thing(1)
    change.off()
    framework.thing(2)

    assert (calls, change.effect) == ([2], 1)
    assert framework.thing == before


def test_the_lever_has_no_meaning_without_its_framework():
    lever = skeleton("levers")["IMPLEMENTATION"]

    with pytest.raises(NotApplicable):
        lever.prepare(None, LeverSpec(name=lever.name))


def test_the_rule_is_found_judges_and_has_its_finding_in_the_report(place):
    thing = place("slowstep.diagnosis.rules.after_update.slow_thing").THING
    m, attempt = measurements(ledger={thing: 8.0}), Attempts()

    found = rules()["slow-thing"]
    diagnosis = diagnose(m)

    assert found.judge(m).finding.share == pytest.approx(8.0 / 27.5)
    assert (diagnosis.verdict.state, diagnosis.verdict.rule) == ("bottleneck", "slow-thing")
    report = build(sections_of_training(RUN, m, diagnosis, (), attempt))
    assert faults(report) == []
    assert (report["findings"][0]["rule"], report["findings"][0]["gain"]["predicted"]) == ("slow-thing", pytest.approx(27.5 / 19.5))
    assert "the thing runs in every step" in " ".join(render(report, width=80, color=False).lower().split())


def test_the_rule_finds_nothing_in_a_healthy_training_and_does_not_judge_one_without_stacks(place):
    judge = place("slowstep.diagnosis.rules.after_update.slow_thing").RULE.judge

    assert judge(measurements()) is None
    assert judge(measurements(python={"has_stacks": False})).reason.code == "no-stacks-of-thing"


def test_the_exporter_is_found_and_writes_but_over_nothing(place, tmp_path):
    place("slowstep.exporters.thing")
    recording = make_recording(tmp_path / "r", Training(steps=60, workers=1))
    examined = examine([recording])

    written = export(exporters()["thing"], [recording], examined, tmp_path / "out", asked=TraceRequest(), how=PLAIN)

    assert written.read_text() == examined.report["verdict"]["summary"] + "\n"
    with pytest.raises(UnwritableOutput, match="cannot be written: File exists"):
        export(exporters()["thing"], [recording], examined, tmp_path / "out", asked=TraceRequest(), how=PLAIN)


STEP_NS = 20_000_000
# Of each step so much is computed.
KERNEL_NS = 15_000_000


def traced(steps: int, *more: str) -> str:
    """A trace as the page's source reads it; its clock does not begin at 0."""
    lines = []
    for number in range(steps):
        begin = 5_000 + number * STEP_NS
        lines += [f"step {begin} {begin + STEP_NS} {number}", f"operator {begin} {begin + 1_000_000} aten::mm"]
        lines += [f"kernel {begin + 1_000_000} {begin + 1_000_000 + KERNEL_NS} a gemm of two words"]
    return "\n".join(("PROFILE of Thing", *lines, *more)) + "\n"


def test_the_source_is_found_by_content_and_what_it_reads_is_reported(place, tmp_path):
    place("slowstep.sources.thing")
    (tmp_path / "a.thing").write_text(traced(60, "kernel 1 2", "kernel 7 5 backwards", "kernel one two three"))

    (found,), skipped = find([tmp_path / "a.thing"])
    report = analyze([tmp_path / "a.thing"])

    assert (found.source.name, skipped, faults(report)) == ("thing", [], [])
    assert report["run"]["steps"] == 60
    shares = {row["stage"]: row["share"] for row in report["ledger"]}
    assert sum(share for share in shares.values() if share is not None) == pytest.approx(1.0)
    assert shares["compute"] >= KERNEL_NS / STEP_NS
    assert {row["name"]: row["count"] for row in report["health"]}["events-without-times"] == 3


@pytest.mark.parametrize("text", ["PROFILE\n", "PROFILE\nkernel 1\n"], ids=["nothing", "no whole line"])
def test_the_source_refuses_a_trace_of_which_nothing_can_be_made(place, tmp_path, text):
    source = place("slowstep.sources.thing").SOURCE
    (tmp_path / "a.thing").write_text(text)

    with pytest.raises(UnreadableInput, match="no event"):
        source.read(tmp_path / "a.thing", PLAIN)


def test_the_hook_records_calls_and_puts_back_what_was_there(place, tmp_path, monkeypatch):
    framework = SimpleNamespace(thing=lambda value: value + 1)
    monkeypatch.setitem(sys.modules, "framework", framework)
    before, recorder = framework.thing, Recorder(make_folder(tmp_path / "recording"), level=0)
    hook = place("slowstep.frameworks.torch.inside.thing").HOOK

    undo = hook.install(recorder)
    answer = framework.thing(1)
    undo()
    recorder.stop("exit")

    assert (answer, framework.thing) == (2, before)
    assert [STAGES[span.b] for span in only(recorder.folder).of("SPAN")] == ["output"]


def test_the_loader_s_hook_records_each_request_and_puts_back_what_was_there(place, tmp_path, monkeypatch):
    framework = SimpleNamespace(Loader=type("Loader", (), {"__iter__": lambda loader: iter([[1, 2], [3, 4], [5, 6]])}))
    monkeypatch.setitem(sys.modules, "framework", framework)
    before, recorder = vars(framework.Loader)["__iter__"], Recorder(make_folder(tmp_path / "recording"), level=0)
    hook = place("slowstep.frameworks.torch.inside.thing_loader").HOOK

    undo = hook.install(recorder)
    batches = list(framework.Loader())
    undo()
    recorder.stop("exit")

    assert (batches, vars(framework.Loader)["__iter__"]) == ([[1, 2], [3, 4], [5, 6]], before)
    ran = only(recorder.folder)
    # The last one meets the end.
    assert [wait.flags for wait in ran.of("WAIT")] == [0, 0, 0, contract.END]
    assert [(note["dataset"], note["framework"]) for note in ran.noted("iterator")] == [("Loader", "framework")]


def test_the_monitor_reads_what_the_kernel_shows(place, tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "READING_THING", 1000, raising=False)
    monitor = place("slowstep.record.monitors.thing").MONITOR
    machine = FakeMachine(tmp_path)
    machine.write("proc/thing", "17\n")

    reader = monitor.open(machine.place(1))
    machine.write("proc/thing", "19\n")
    readings = reader.read(0)
    reader.close()

    assert readings == [(1000, 19, 0, 0, 0)]
