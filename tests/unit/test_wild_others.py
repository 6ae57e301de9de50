"""What other tools say of a training becomes the form that the wild suite scores; their lines are put around what makes a step."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

from wild_folder import wild_folder  # noqa: F401

# Of runs of zarr_patches.py under each tool, shortened.
RECORDED = json.loads((Path(__file__).parents[1] / "data" / "wild" / "others_said.json").read_text())


@pytest.fixture(scope="module")
def others_said():
    import others_said

    return others_said


@pytest.fixture(scope="module")
def instrumented():
    import instrumented

    return instrumented


@pytest.fixture
def case():
    return SimpleNamespace(stages=("preprocess",))


@pytest.fixture
def read(others_said, case):
    def read(tool, said, note=""):
        reading = next(each for each in others_said.READINGS if (each.tool, each.note) == (tool, note))
        return others_said.document(reading, said, case)

    return read


@pytest.mark.parametrize(
    ("tool", "code", "share"),
    [
        ("traceml-ai", "INPUT_BOUND", 0.0),
        ("train-doctor", "dataloader_bound", 1 - 1 / 3.67),
        ("fournex", "input_bound", 0.0),
        ("gpuprof", "waiting on the loader", 0.0),
    ],
)
def test_what_a_tool_said_first_is_its_verdict_and_the_gain_that_it_told_its_share(read, tool, code, share):
    document = read(tool, RECORDED[tool])

    assert document["verdict"] == {"state": "bottleneck", "stage": "preprocess", "rule": code}
    assert document["findings"][0]["share"] == pytest.approx(share)
    assert bool(document["findings"][0]["claims"]) == (share > 0)


@pytest.mark.parametrize("tool", RECORDED)
def test_a_tool_that_failed_has_said_nothing(read, tool):
    document = read(tool, {"failed": "ChildFailed: exit code 1"})

    assert (document["verdict"]["state"], document["findings"]) == ("undetermined", [])


@pytest.mark.parametrize("tool", ["train-doctor", "fournex", "gpuprof"])
def test_a_tool_that_saw_no_steps_does_not_know(read, tool):
    assert read(tool, RECORDED[tool] | {"steps": 0})["verdict"]["state"] == "undetermined"


def test_a_stage_is_right_where_the_word_covers_it_and_else_the_first_that_it_covers(read, case):
    case.stages = ("read",)
    assert read("traceml-ai", RECORDED["traceml-ai"])["verdict"]["stage"] == "read"

    case.stages = ("store",)
    assert read("traceml-ai", RECORDED["traceml-ai"])["verdict"]["stage"] == "read"


def test_context_is_no_bottleneck_unless_it_is_read_as_one(read):
    context = RECORDED["traceml-ai"] | {"kind": "COMPUTE_BOUND", "severity": "info"}

    assert read("traceml-ai", context)["verdict"]["state"] == "healthy"
    assert read("traceml-ai", context, "COMPUTE-BOUND as a bottleneck")["verdict"]["state"] == "bottleneck"
    assert read("traceml-ai", context | {"kind": "INSUFFICIENT_STEP_TIME_DATA"})["verdict"]["state"] == "undetermined"


@pytest.mark.parametrize(("score", "state"), [(0.09, "healthy"), (0.1, "bottleneck")])
def test_what_train_doctor_ranks_is_of_weight_from_a_tenth_on(read, score, state):
    said = RECORDED["train-doctor"]
    first = said["findings"][0] | {"score": score}

    assert read("train-doctor", said | {"findings": [first]})["verdict"]["state"] == state


def test_remarks_of_gpuprof_are_no_bottleneck(read):
    said = RECORDED["gpuprof"]
    remarks = [insight | {"severity": "low"} for insight in said["insights"]]
    of_a_mock = [{"severity": "high", "title": "Peak memory 98% of 80 GB", "recommendation": "Reduce batch size"}]

    assert read("gpuprof", said | {"insights": remarks})["verdict"]["state"] == "healthy"
    assert read("gpuprof", said | {"insights": of_a_mock})["verdict"]["state"] == "healthy"


@pytest.mark.parametrize(
    ("label", "state"), [(None, "healthy"), ("inconclusive", "undetermined"), ("insufficient_telemetry", "undetermined")]
)
def test_fournex_has_words_for_not_knowing(read, label, state):
    said = RECORDED["fournex"]
    diagnosis = said["diagnosis"] | {"user_facing_bottleneck": label, "recommendations": []}

    assert read("fournex", said | {"diagnosis": diagnosis})["verdict"]["state"] == state


def test_what_fournex_concludes_from_a_device_that_is_not_there_may_be_read_as_a_doubt(read):
    said = RECORDED["fournex"]
    launches = said | {"diagnosis": said["diagnosis"] | {"user_facing_bottleneck": "launch_bound"}}

    assert read("fournex", launches)["verdict"] == {"state": "bottleneck", "stage": "compute", "rule": "launch_bound"}
    assert read("fournex", launches, "nothing said of a device")["verdict"]["state"] == "undetermined"
    assert read("fournex", said, "nothing said of a device")["verdict"]["state"] == "bottleneck"


def test_the_gain_that_fournex_tells_is_the_middle_of_its_range(others_said):
    ranged = {"estimated_speedup_pct_min": 10.0, "estimated_speedup_pct_max": 30.0}

    assert others_said.fournex_gain([ranged]) == pytest.approx(1.2)
    assert others_said.fournex_gain([ranged | {"estimated_speedup_pct_max": None}]) is None
    assert others_said.fournex_gain([]) is None


def test_an_environment_is_made_anew_where_other_packages_are_wanted(monkeypatch, tmp_path):
    import rivals

    ran = []
    monkeypatch.setattr(rivals, "CACHE", tmp_path)
    monkeypatch.setattr(rivals.subprocess, "run", lambda words, **_: ran.append(words))
    (tmp_path / "tool").mkdir()

    for version in ("1", "1", "2"):
        monkeypatch.setitem(rivals.PACKAGES, "tool", (f"tool=={version}",))
        rivals.environment_of("tool")

    assert [words[-1] for words in ran if "install" in words] == ["tool==1", "tool==2"]


@pytest.fixture
def drawn(tmp_path):
    """The row of each reading, of one bottleneck with a gain of 2 in the input, of which tools said this."""
    import others_page
    import suite

    script = tmp_path / "train.py"
    script.write_text("")
    unsaid = dict.fromkeys(("source", "mechanism", "function", "line"))
    lists = dict.fromkeys(("needs", "rules", "words", "alike"), ())
    fields = {"name": "train", "script": script, "blind": False, "state": "bottleneck", "stages": ("read",), "same_numbers": True}
    case = suite.Case(**unsaid, **lists, **fields)

    def drawn(**said):
        report = {name.replace("_", "-"): each for name, each in said.items()}
        raw = {"rows": [{"case": "train", "pairs": [{"base": 1.0, "fixed": 2.0}], "report": report}], "tools": {}}
        table = others_page.scores(raw, [case]).splitlines()[2:]
        return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table]

    return drawn


def test_a_row_counts_what_a_tool_said_and_the_error_of_the_gain_that_it_told(drawn):
    said = RECORDED["train-doctor"]["findings"][0] | {"expected_effect": "At most 2.00x (the step time without any data wait)"}

    assert drawn(train_doctor={"steps": 9, "findings": [said]}) == [
        ("train-doctor", "1 of 1", "0 of 1", "0 of 1", "0 of 1", "0 of 0", "0 of 1", "1 of 1", "0.000")
    ]


def test_a_tool_that_is_read_in_two_ways_has_two_rows_and_one_without_a_gain_says_so(drawn):
    rows = drawn(traceml_ai=RECORDED["traceml-ai"] | {"kind": "COMPUTE_BOUND", "severity": "info"})

    assert [row[0] for row in rows] == ["traceml-ai", "traceml-ai (COMPUTE-BOUND as a bottleneck)"]
    assert {row[-1] for row in rows} == {"none told"}


def test_no_report_is_neither_wrong_nor_a_doubt(drawn):
    assert drawn(fournex={"failed": "ChildFailed: exit code 1"})[0][1:5] == ("0 of 1", "0 of 1", "0 of 1", "1 of 1")


IN_A_LOOP = '''
"""A training."""
from __future__ import annotations

def main(net, averaged, loader, optimizer):
    for epoch in range(2):
        for i, batch in enumerate(loader):
            averaged.update(net)
            loss = net(batch)
            loss.backward()
            optimizer.step()
            if i == 3:
                break
'''
IN_A_FUNCTION = """
class Trainer:
    def train_step(self, batch):
        loss = self.net(batch)
        loss.backward()
        self.optimizer.step()
        return loss

    def fit(self):
        for epoch in range(2):
            for batch in self.loader:
                self.train_step(batch)
"""


def test_the_lines_stand_around_the_body_of_the_innermost_loop(instrumented):
    lines = instrumented.Lines(start="import tool as _tool", step="_tool.step({step}, {batch}, {model})")

    text = instrumented.instrumented(IN_A_LOOP.strip(), lines)

    assert text.splitlines()[:2] == ['"""A training."""', "from __future__ import annotations"]
    assert "for _step, (i, batch) in enumerate(enumerate(_loop(loader))):" in text
    assert "\n            with _tool.step(_step, batch, _model(" in text
    assert "\n                averaged.update(net)" in text
    # What is called is the model, before what is only read.
    assert text.index("lambda: net,") < text.index("lambda: averaged")


def test_a_step_that_is_a_function_is_counted_by_its_calls_and_the_loop_that_calls_it_is_wrapped(instrumented):
    text = instrumented.instrumented(IN_A_FUNCTION, instrumented.FOURNEX)

    assert "def train_step(self, batch):\n        with _tool.step_context(step=next(_count), batch=None, model=_model(" in text
    assert "lambda: self.net" in text
    assert "in range(2):\n            for batch in _loop(self.loader):" in text


def test_a_framework_s_loop_has_no_place_for_lines(instrumented):
    with pytest.raises(instrumented.NoStep):
        instrumented.instrumented("trainer.fit(model, loader)", instrumented.TRACEML)


class Net:
    """A pretended module with a parameter, its own loss and optimizer, which keeps what it was called with."""

    def __init__(self):
        self.given = []

    def __call__(self, batch):
        self.given.append(batch)
        return self

    def parameters(self):
        return iter([1])

    def update(self, other):
        pass

    backward = step = lambda self: None


@pytest.fixture
def pretended_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Module=Net)))


def test_lines_see_each_step_with_its_batch_and_the_model_and_leave_the_training_as_it_is(instrumented, pretended_torch):
    lines = instrumented.Lines(start="", step="seen({step}, {batch}, {model})")
    net, averaged, steps, loops = Net(), Net(), [], []
    names = {"seen": lambda *step: steps.append(step) or nullcontext(), "_loop": lambda loader: loops.append(loader) or loader}

    exec(compile(instrumented.instrumented(IN_A_LOOP, lines), "train.py", "exec"), names)
    names["main"](net, averaged, "abcdef", Net())

    assert net.given == ["a", "b", "c", "d"] * 2
    assert steps == [(i, batch, net) for i, batch in enumerate("abcd")] * 2
    assert loops == ["abcdef"] * 2
