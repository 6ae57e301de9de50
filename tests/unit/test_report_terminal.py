from __future__ import annotations

import ast
import io
import itertools
import math
import re
from pathlib import Path

import pytest
from rich.cells import cell_len

import slowstep
from parsed import parsed
from slowstep.document.validity import validate
from slowstep.prove.ended_by import EndedBy
from slowstep.report.canvas import Canvas
from slowstep.report.terminal import render, show

REPORTS = Path(__file__).parents[1] / "data" / "reports"
NAMES = ["bottleneck", "healthy", "undetermined", "unknown", "nothing", "ranks", "proved"]


def _is_command(line: str) -> bool:
    """A command is left whole, to be copied."""
    return line.split(maxsplit=1)[:1] in (["Next"], ["More"], ["Again"])


def _command(label: str, text: str) -> str:
    return next(line.split(maxsplit=1)[1] for line in text.splitlines() if line.split(maxsplit=1)[:1] == [label])


@pytest.mark.parametrize("name", NAMES)
def test_the_report_looks_as_it_was_last_looked_at(sample_report, looked_at, name):
    text = render(sample_report(name), width=80, color=False)

    assert text == looked_at(REPORTS / f"{name}.80.txt", text)


@pytest.mark.parametrize("width", [40, 100])
def test_a_rich_report_looks_as_it_was_last_looked_at_on_other_widths(sample_report, looked_at, width):
    text = render(sample_report("bottleneck"), width=width, color=False)

    assert text == looked_at(REPORTS / f"bottleneck.{width}.txt", text)


def test_a_rich_report_with_all_that_was_measured_looks_as_it_was_last_looked_at(sample_report, looked_at):
    text = render(sample_report("bottleneck"), width=80, color=False, verbose=True)

    assert text == looked_at(REPORTS / "bottleneck.verbose.80.txt", text)


@pytest.mark.parametrize("width", [40, 60, 80, 140])
@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_wider_than_the_terminal_and_none_ends_in_blanks(sample_report, name, width):
    lines = render(sample_report(name), width=width, color=False).splitlines()

    assert [line for line in lines if (cell_len(line) > width and not _is_command(line)) or line != line.rstrip()] == []


@pytest.mark.parametrize("name", ["healthy", "undetermined", "unknown", "nothing"])
def test_an_ordinary_report_fits_one_screen(sample_report, name):
    assert len(render(sample_report(name), width=80, color=False).splitlines()) <= 32


@pytest.mark.parametrize("unicode", [True, False])
@pytest.mark.parametrize("width", range(40, 121, 5))
@pytest.mark.parametrize("name", NAMES)
def test_no_row_begins_or_ends_with_what_stands_between_clauses(sample_report, name, width, unicode):
    lines = render(sample_report(name), width=width, color=False, unicode=unicode).splitlines()

    assert [line for line in lines if line.strip().strip("·|").strip() != line.strip()] == []
    assert any(f" {'·' if unicode else '|'} " in line for line in lines)


@pytest.mark.parametrize("width", [60, 80, 140])
@pytest.mark.parametrize("name", NAMES)
def test_no_number_is_parted_from_its_unit(sample_report, name, width):
    lines = render(sample_report(name), width=width, color=False).splitlines()

    assert [line for line, after in itertools.pairwise(lines) if re.search(r"\d$", line) and re.match(r"\s+(ms|%|s|us)\b", after)] == []


@pytest.mark.parametrize("width", [40, 80, 120])
def test_what_was_proved_has_its_gain_however_long_its_lever_is(sample_report, width):
    report = sample_report("proved")
    row = next(row for row in report["experiments"] if row["verdict"] == "proved" and row["role"] == "fix")
    row["lever"] = f"swap=data:{'darken' * 12}=data:faster"

    lines = render(report, width=width, color=False).splitlines()

    proof = next(number for number, line in enumerate(lines) if line.startswith("PROVED"))
    assert re.search(r"x \(\d\.\d+-\d\.\d+\) +by swap=", " ".join(lines[proof : proof + 3]))


@pytest.mark.parametrize(
    ("predicted", "measured", "head", "line"),
    [
        (None, None, "gain unknown, 2.5x if it cost nothing", " Fix "),
        (1.8, None, "gain 1.8x (2.5x if it cost nothing)", "Gain predicted 1.8x (90 % interval 1.6 to 2.0) if "),
        (None, {"value": 1.36, "low": 1.18, "high": 1.53}, "gain 1.36x measured", "measured 1.36x (95 % interval 1.18 to 1.53) Fix"),
        (1.8, {"value": 1.36, "low": 1.18, "high": 1.53}, "gain 1.36x measured", "1.53); predicted 1.8x (90 % interval 1.6 to 2.0) if "),
        (None, {"value": 1.02, "low": 0.97, "high": 1.07}, "gain uncertain, 1.02x measured", "(95 % interval 0.97 to 1.07) Fix"),
        (None, {"value": 0.80, "low": 0.71, "high": 0.92}, "no gain, 0.80x measured", "(95 % interval 0.71 to 0.92) Fix"),
    ],
)
def test_a_gain_that_was_measured_is_the_one_that_is_known(sample_report, predicted, measured, head, line):
    report = sample_report("bottleneck")
    low, high = (None, None) if predicted is None else (1.6, 2.0)
    report["findings"][0]["gain"] |= {"predicted": predicted, "low": low, "high": high, "measured": measured}

    lines = render(report, width=80, color=False).splitlines()

    assert next(text for text in lines if text.startswith("1. ")).endswith(f" {head}")
    assert line in " ".join(" ".join(lines).split())


@pytest.mark.parametrize(("gain", "is_said"), [(1.05, False), (1.4, True), (None, False)])
def test_what_the_training_could_reach_is_said_where_it_is_worth_it(sample_report, gain, is_said):
    report = sample_report("bottleneck")
    if gain is None:
        del report["throughput"]["reach"]
    else:
        report["throughput"]["reach"] = {"gain": gain, "low": gain - 0.01, "high": gain + 0.01}

    assert ("Reach: 1.40x (1.39-1.41)" in render(report, width=80, color=False)) is is_said


def test_of_a_gain_that_is_unknown_the_most_is_said_where_it_is_known(sample_report):
    report = sample_report("bottleneck")
    report["findings"][0]["gain"] |= {"predicted": None, "low": None, "high": None, "measured": None, "headroom": 2.6}

    lines = render(report, width=80, color=False).splitlines()

    assert next(text for text in lines if text.startswith("1. ")).endswith(" gain unknown, 2.6x if it cost nothing")


def test_a_gain_without_an_upper_end_is_so_much_or_more(sample_report):
    report = sample_report("bottleneck")
    report["findings"][0]["gain"] |= {"predicted": 1.73, "low": 0.66, "high": None, "measured": None}

    assert "predicted 1.7x (0.7 or more) if " in " ".join(render(report, width=80, color=False).split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_a_lever_was_tried_for_is_never_cut(sample_report, width):
    report = sample_report("proved")
    row = next(row for row in report["experiments"] if row["verdict"] == "proved")
    row.update(lever=f"swap=data:{'darken' * 12}=data:faster", role="other")

    text = " ".join(render(report, width=width, color=False).split())

    assert f"an alternative to the function of {row['rule']}, as measured" in text


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"loader": "Labelled", "read_together": 2}, "of the loader that the training waits for most, Labelled"),
        ({"loader": "Labelled", "read_together": 2, "mocked": 2}, "of all 2 loaders that feed the training"),
        ({}, None),
    ],
)
def test_of_several_loaders_a_row_says_which_its_lever_changed(sample_report, facts, said):
    report = sample_report("proved")
    row = next(row for row in report["experiments"] if row["verdict"] == "proved")
    row["facts"] = facts

    text = " ".join(render(report, width=140, color=False).split())

    assert said in text if said else "that is waited for most" not in text


@pytest.mark.parametrize(("busy", "found", "said"), [(True, [], True), (False, [], False), (True, ["foreign-load"], False)])
def test_a_busy_machine_is_said_of_an_experiment_unless_a_note_says_it_of_the_whole_run(sample_report, busy, found, said):
    report = sample_report("proved")
    report["run"]["experiment"] |= {"foreign_share": 0.3, "busy": busy}
    report["findings"] = [{**report["findings"][0], "rule": rule} for rule in found]

    assert ("other processes used 30 % of the cores" in render(report, width=140, color=False)) is said


NARROW = {"value": 1.2, "low": 1.1, "high": 1.3}


@pytest.mark.parametrize(
    ("gains", "rounds", "said"),
    [
        ([{"value": 1.2, "low": 0.4, "high": 3.6}], 12, "any"),
        ([NARROW], 3, "any"),
        ([None], 0, "any"),
        ([NARROW, None], 12, "every"),
    ],
    ids=["far too wide", "too few rounds", "not measured", "one of two"],
)
def test_where_no_gain_is_known_that_is_said_of_all_of_them(sample_report, gains, rounds, said):
    report = sample_report("proved")
    usual = next(row for row in report["experiments"] if row["verdict"] == "proved")
    usual |= {"verdict": "cannot distinguish", "rounds": rounds}
    report["experiments"] = [usual | {"gain": gain, "state": "measured" if gain else "unmeasured"} for gain in gains]
    report["run"]["experiment"] |= {"ended_by": "budget", "precision": 0.05, "reached": None}

    assert f"its budget before {said} gain was known (asked: to within 5 %)" in " ".join(render(report, width=140, color=False).split())


@pytest.mark.parametrize("ended_by", EndedBy)
def test_what_ended_an_experiment_is_said_in_words_of_the_screen(sample_report, ended_by):
    report = sample_report("proved")
    report["run"]["experiment"]["ended_by"] = ended_by.value

    assert f"; {ended_by.value} " not in " ".join(render(report, width=140, color=False).split())


def test_of_a_report_that_knows_of_other_ends_it_is_said_as_it_stands_there(sample_report):
    report = sample_report("proved")
    report["run"]["experiment"]["ended_by"] = "moonrise"

    assert "; moonrise" in " ".join(render(report, width=140, color=False).split())


@pytest.mark.parametrize("width", [60, 140])
@pytest.mark.parametrize("predicted", [None, {"value": 2.0, "low": 1.5, "high": 2.5}])
def test_a_lever_without_figures_was_not_measured(sample_report, width, predicted):
    report = sample_report("proved")
    row = next(row for row in report["experiments"] if row["verdict"] == "proved")
    row |= {"state": "unmeasured", "verdict": None, "gain": None, "predicted": predicted}

    text = render(report, width=width, color=False)

    assert "not measured" in text
    assert "unmeasured" not in text


@pytest.mark.parametrize("name", NAMES)
def test_colour_adds_nothing_but_colour(sample_report, name):
    plain = render(sample_report(name), width=80, color=False)
    coloured = render(sample_report(name), width=80, color=True)

    assert "\x1b" not in plain
    assert coloured != plain
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_without_unicode_gets_plain_ascii(sample_report, name):
    report = sample_report(name)
    report["run"]["name"] = "entraînement→.py"

    text = render(report, width=80, color=False, unicode=False)

    assert text.isascii()
    assert "entra?nement->.py" in text


@pytest.mark.parametrize(
    ("median_ms", "low_ms", "high_ms", "text"),
    [(0.705, 0.690, 0.879, "step 705 us (median; p05 690, p95 879)"), (1500.0, 1250.0, 2000.0, "step 1.50 s (median; p05 1.25, p95 2.00)")],
)
def test_the_spread_of_a_step_is_in_the_unit_of_its_median(sample_report, median_ms, low_ms, high_ms, text):
    report = sample_report("healthy")
    report["throughput"]["step_ms"] |= {"median": median_ms, "p05": low_ms, "p95": high_ms}

    assert text in render(report, width=140, color=False).replace("\xa0", " ")


def test_what_happened_once_is_not_counted_each_time(sample_report):
    report = sample_report("healthy")
    report["run"]["periodic"] = [{"name": "validation", "every_steps": None, "ms": 2410.0, "share": 0.18}]

    assert "Once: validation, 2.41 s (18 %)" in render(report, width=140, color=False).replace("\xa0", " ")


@pytest.mark.parametrize(("code", "said"), [("first-gain-may-be-none", 0), ("rule-not-judged", 1)])
def test_that_a_gain_may_be_none_is_not_said_where_it_was_measured(sample_report, code, said):
    report = sample_report("proved")
    report["verdict"] |= {"state": "undetermined", "code": code, "summary": "why it is open", "answer": "why it is open"}
    report["experiments"][0] |= {"rule": report["findings"][0]["rule"], "role": "fix", "verdict": "proved"}

    assert render(report, width=100, color=False).count("why it is open") == said


def test_a_folder_with_a_direction_in_its_name_can_be_pasted(sample_report):
    report = sample_report("bottleneck")
    report["run"]["recording"] = "/q\u202er/rec"

    text = render(report, width=200, color=False)

    assert "Saved       $'/q\\xe2\\x80\\xaer/rec'" in text
    assert "\u202e" not in text


def test_the_next_command_is_said(sample_report):
    nexts = {name: _command("Next", render(sample_report(name), width=80, color=False)) for name in NAMES if name != "healthy"}

    assert nexts == {
        "bottleneck": "slowstep explain serial-loader",
        "undetermined": "slowstep run --steps 200 train.py --variant serial-loader",
        "unknown": "slowstep explain blocking-checkpoint",
        "nothing": "slowstep run --steps 200 broken.py",
        "ranks": "slowstep explain slow-callback",
        "proved": "slowstep run train.py",
    }


def test_a_healthy_training_needs_no_next_command(sample_report):
    assert "Next" not in render(sample_report("healthy"), width=80, color=False)


def test_a_long_next_command_is_left_whole_to_be_copied(sample_report):
    report = sample_report("undetermined")
    report["run"]["next_command"] = "slowstep run " + "--option value " * 20 + "end"

    assert _command("Next", render(report, width=80, color=False)).endswith("value end")


def test_stages_without_time_are_named_apart_from_those_not_measured(sample_report):
    text = " ".join(render(sample_report("unknown"), width=80, color=False, verbose=True).split())

    assert "0 %: output" in text
    assert "not measured: h2d, gradient sharing, d2h" in text
    assert "under 0.5 %: read 0.2 %, preprocess <0.1 %" in text


def test_what_is_left_out_is_counted(bottleneck):
    bottleneck["findings"] = [bottleneck["findings"][2]] * 9
    bottleneck["not_judged"] = [{"rule": f"rule-{number}", "reason": f"reason {number}"} for number in range(5)]
    bottleneck["health"] = [{"name": "lost", "severity": "error", "count": 1, "remedy": "none"}] * 5

    text = " ".join(render(bottleneck, width=80, color=False).split())

    assert "7 findings" in text
    assert "5 rules not judged" in text
    assert "2 doubts" in text
    assert "reason 1" not in text


def test_everything_is_shown_where_it_is_asked_for(bottleneck):
    bottleneck["findings"] = [bottleneck["findings"][2]] * 9
    bottleneck["not_judged"] = [{"rule": f"rule-{number}", "reason": f"reason {number}"} for number in range(5)]

    text = render(bottleneck, width=80, color=False, verbose=True)

    assert text.count(f"{bottleneck['findings'][0]['rule']} in ") == 9
    assert [number for number in range(5) if f"reason {number}" not in text] == []
    assert "Not shown" not in text


def test_rules_that_could_not_judge_are_named_where_there_is_no_answer(sample_report):
    report = sample_report("undetermined")
    advice = {"rule": "memory-growth", "reason": "the window is too short", "advisory": True}
    report["not_judged"] = [advice, {"rule": "small-batch", "reason": "all steps had the same size", "advisory": False}]

    text = render(report, width=80, color=False)

    assert "Not judged  small-batch (all steps had the same size)\n" in text
    assert "memory-growth" not in text


def test_a_report_ends_with_where_its_recording_is(bottleneck, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bottleneck["run"]["recording"] = str(tmp_path / "slowstep_runs" / "my run")

    short, long = (render(bottleneck, width=80, color=False, verbose=verbose).splitlines()[-2:] for verbose in (False, True))

    assert short == ["Saved       'slowstep_runs/my run'", "More        slowstep analyze --verbose 'slowstep_runs/my run'"]
    assert long == ["Saved       'slowstep_runs/my run'", "Again       slowstep analyze 'slowstep_runs/my run'"]


def test_a_recording_elsewhere_is_named_by_its_whole_path(bottleneck, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bottleneck["run"]["recording"] = "/elsewhere/slowstep_runs/1"

    assert render(bottleneck, width=80, color=False, verbose=True).endswith("slowstep analyze /elsewhere/slowstep_runs/1\n")


def test_the_report_of_one_of_several_ranks_is_shown_again_for_that_rank(sample_report):
    report = sample_report("ranks")
    report["run"]["recording"] = "/elsewhere/1"

    assert _command("More", render(report, width=80, color=False)) == "slowstep analyze --verbose --rank 1 /elsewhere/1"


def test_the_report_of_a_trace_says_which_it_is_of(bottleneck):
    bottleneck["run"] |= {"recording": "/elsewhere/trace.json.gz", "trace": {}}

    text = render(bottleneck, width=80, color=False)

    assert text.endswith("Report of   /elsewhere/trace.json.gz\n")
    assert "report.json" not in text


def test_a_shell_command_in_a_notebook_has_its_prompt(bottleneck):
    bottleneck["run"]["recording"] = "/elsewhere/1"

    text = render(bottleneck, width=80, color=False, prompt="!")

    assert _command("Next", text) == "!slowstep explain serial-loader"
    assert _command("More", text).startswith("!slowstep analyze ")


def test_a_line_of_python_in_a_notebook_has_no_prompt(bottleneck):
    bottleneck["run"] |= {"next_command": "with slowstep.record(): (200 steps or more)", "next_in_python": True}

    assert _command("Next", render(bottleneck, width=80, color=False, prompt="!")) == bottleneck["run"]["next_command"]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_long_name_keeps_its_file_and_line(bottleneck, width):
    bottleneck["ledger"][1]["parts"][0]["name"] = f"save_{'very_' * 30}long (/some/where/{'deep/' * 30}database.py:10)"
    bottleneck["findings"][0]["evidence"][0]["where"] = f"/some/where/{'deep/' * 30}database.py:11"

    text = render(bottleneck, width=width, color=False)

    assert "database.py:10)" in text
    assert "database.py:11" in text


@pytest.mark.parametrize("width", [40, 60, 80])
def test_the_names_of_a_rule_and_a_stage_stay_whole(bottleneck, width):
    bottleneck["findings"][0] |= {"rule": "exposed-communication", "stage": "gradient_sharing"}

    text = " ".join(render(bottleneck, width=width, color=False).split())

    assert "1. exposed-communication in gradient sharing gain 2.4x" in text


def test_a_setting_reads_as_it_is_written_in_a_script(bottleneck):
    row = {"name": "num_workers", "value": 0, "unit": "workers", "threshold": 1, "where": "data set D", "code": "setting"}
    bottleneck["findings"][0]["evidence"] = [row]

    assert "   num_workers=0 (data set D)\n" in render(bottleneck, width=80, color=False)


@pytest.mark.parametrize(
    ("low", "steady", "said"),
    [(0.9, 1.57, "; 1.57x or more on a machine as fast as in this run) if"), (0.9, None, ") if")],
    ids=["it decides", "it does not, or is not known"],
)
def test_the_low_end_at_this_runs_pace_stands_beside_an_interval_that_does_not_tell_that_it_gains(bottleneck, low, steady, said):
    gain = bottleneck["findings"][0]["gain"]
    gain.update(predicted=2.1, low=low, high=5.9, measured=None, **({} if steady is None else {"steady_low": steady}))

    assert f"interval {low} to 5.9{said}" in " ".join(render(bottleneck, width=100, color=False).split())
    validate(bottleneck)


def test_stages_of_ten_seconds_are_in_seconds(bottleneck):
    bottleneck["ledger"][0].update(share=0.9, ms_per_step=12507.5)

    page = render(bottleneck, width=100, color=False)

    assert "s/step" in page.replace("ms/step", "")
    assert re.search(r"90 % +12\.5$", page, re.MULTILINE)


def test_trainings_that_are_told_at_the_top_are_no_notice_too(bottleneck):
    others = [{"name": "other-trainings", "severity": "notice", "count": 1, "remedy": "others are not judged"}]
    bottleneck["health"] = others
    assert "other-trainings" in render(bottleneck, width=100, color=False)
    bottleneck["run"]["in_turn"] = [{"steps": 60, "s": 2.0, "samples_per_s": None, "judged": judged} for judged in (True, False)]

    page = render(bottleneck, width=100, color=False)

    assert "other-trainings" not in page
    assert "Trainings: 2 in turn" in page


def test_how_something_was_seen_comes_after_what_was_seen(bottleneck):
    row = {"value": 1, "unit": "", "threshold": None, "where": None}
    how = row | {"name": "timed in", "code": "timed-in"}
    bottleneck["findings"][0]["evidence"] = [how, *(row | {"name": name} for name in ("one", "two", "three", "four"))]

    text = render(bottleneck, width=80, color=False)

    assert "   four" in text
    assert "timed in" not in text


def test_advice_that_is_pressing_comes_first_of_what_was_not_judged(bottleneck):
    pressing = {"rule": "memory-growth", "reason": "used up in 2 min", "advisory": True, "pressing": True}
    bottleneck["not_judged"] = [{"rule": f"rule-{number}", "reason": f"reason {number}"} for number in range(5)] + [pressing]

    text = render(bottleneck, width=80, color=False)

    assert "Not judged  memory-growth (used up in 2 min)" in text


def test_a_fault_comes_before_a_notice_and_mere_information_is_left_out(sample_report):
    report = sample_report("healthy")
    kinds = [("a", "info"), ("b", "notice"), ("c", "data_loss"), ("d", "error")]
    report["health"] = [{"name": name, "severity": severity, "count": 1, "remedy": "none"} for name, severity in kinds]

    text = render(report, width=80, color=False)

    assert re.findall(r"(\w): none", text) == ["d", "c", "b"]


def test_a_fix_that_changes_the_numerics_says_so(bottleneck):
    bottleneck["findings"][0]["fixes"] = [{"text": "Double the batch", "lever": None, "changes_numerics": True}]

    assert "Double the batch (changes the numerics)" in render(bottleneck, width=80, color=False)


def test_control_characters_of_a_name_never_reach_the_terminal(bottleneck):
    bottleneck["run"]["name"] = "a\x1b[31m\udce9\nb.py"

    text = render(bottleneck, width=80, color=False)

    assert "\x1b" not in text
    text.encode("utf-8")
    assert "a\\x1b[31m\\xe9 b.py" in text


def test_wide_characters_do_not_push_the_lines_out(bottleneck):
    bottleneck["ledger"][1]["parts"][0]["name"] = "変換" * 60
    bottleneck["findings"][0]["evidence"][0]["name"] = "待ち" * 20

    lines = render(bottleneck, width=80, color=False).splitlines()

    assert [line for line in lines if cell_len(line) > 80] == []


def test_drawing_does_not_change_the_report(bottleneck, sample_report):
    render(bottleneck, width=80, color=False)

    assert bottleneck == sample_report("bottleneck")


def test_a_stream_that_is_no_terminal_gets_80_columns_without_colour(bottleneck, monkeypatch):
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    show(bottleneck, stream)

    stream.seek(0)
    assert stream.read() == render(bottleneck, width=80, color=False)


def test_the_environment_can_ask_for_width_and_colour(bottleneck, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("FORCE_COLOR", "1")
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    show(bottleneck, stream)

    stream.seek(0)
    assert stream.read() == render(bottleneck, width=100, color=True, unicode=False)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.605, "share of window", "60 % of the time"),
        (42.25, "ms per step", "42.2 ms per step"),
        (0, "workers", "0 workers"),
        (2.0, "workers", "2 workers"),
        (math.nan, "workers", "nan workers"),
        (1536, "bytes", "1.50 KiB"),
        (16.8, "MB", "16.8 MB"),
        (0.00512, "MB per step", "5.12 kB per step"),
        (3, "", "3"),
        ("decode", "", "decode"),
        (None, "ms", "not measured"),
    ],
)
def test_evidence_reads_in_its_unit(bottleneck, value, unit, text):
    bottleneck["findings"][0]["evidence"] = [{"name": "what was seen", "value": value, "unit": unit, "threshold": None, "where": None}]

    assert f"   what was seen  {text}\n" in render(bottleneck, width=80, color=False)


@pytest.mark.parametrize(
    ("threshold", "unit", "text"),
    [
        (0.1, "of the first step", "threshold 0.100"),
        (3, "in the window", "threshold 3"),
        (20.0, "per step, at least", "threshold 20"),
        (0.03, "share of window", "threshold 3 %"),
        (2.0, "ms per step", "threshold 2.00 ms"),
        (8, "", "threshold 8"),
    ],
)
def test_a_threshold_has_its_unit_and_not_half_of_the_words_that_follow_the_value(bottleneck, threshold, unit, text):
    row = {"name": "what was seen", "value": 0.5, "unit": unit, "threshold": threshold, "where": None}
    bottleneck["findings"][0]["evidence"] = [row]

    assert f"  {text}\n" in render(bottleneck, width=80, color=False, verbose=True)


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_the_name_of_a_call_does_not_push_thresholds_off_the_page(bottleneck, width):
    row = {"unit": "share of window", "threshold": 0.5, "where": None}
    bottleneck["findings"][0]["evidence"] = [
        row | {"name": "idle before a launch", "value": 0.74},
        row | {"name": "most of it before", "value": "DistributedDataParallel.forward", "unit": "", "threshold": None},
        row | {"name": "of it in gaps of 1 ms and more", "value": 0.28, "unit": "share"},
        *[row | {"name": "more", "value": 0.1}] * 7,
    ]

    lines = render(bottleneck, width=width, color=False, verbose=True).splitlines()

    assert [line for line in lines if cell_len(line) > width and not _is_command(line)] == []
    assert "threshold 50 %" in " ".join(" ".join(lines).split())
    assert width < 80 or any(line.endswith("  DistributedDataParallel.forward") for line in lines)


def test_a_verdict_of_long_names_is_broken_where_it_does_not_fit(bottleneck):
    bottleneck["verdict"] |= {"state": "bottleneck", "stage": "gradient_sharing", "rule": "exposed-communication"}

    lines = render(bottleneck, width=40, color=False).splitlines()

    at = lines.index("BOTTLENECK in gradient sharing:")
    assert lines[at + 1] == "  exposed-communication"
    assert "BOTTLENECK in gradient sharing: exposed-communication" in render(bottleneck, width=80, color=False).splitlines()


@pytest.mark.parametrize(("size", "text"), [(16, "16"), (16.0, "16"), (15.5, "15.5"), (None, "not measured")])
def test_a_batch_size_is_as_whole_as_it_is(bottleneck, size, text):
    bottleneck["run"].update(batch_size=size, batch_size_from=None)

    assert f"batch size {text} ·" in render(bottleneck, width=120, color=False)


@pytest.mark.parametrize(
    ("batches", "said"), [(4.0, ", 4 batches a step"), (1.5, ", 1.50 batches a step"), (1.0, ""), (0.0, ""), (None, "")]
)
def test_several_batches_of_a_step_are_said_beside_their_size(bottleneck, batches, said):
    bottleneck["run"].update(batch_size=16, batch_size_from=None, batches_per_step=batches)

    assert f"batch size 16{said} ·" in " ".join(render(bottleneck, width=120, color=False).split())


def test_batch_sizes_that_change_are_a_range(bottleneck):
    bottleneck["run"].update(batch_size=16, batch_size_from=None, batch_sizes=[16, 32])

    assert "batch size 16 to 32 ·" in render(bottleneck, width=120, color=False)


PARTS = [{"name": "monitors", "share": 0.003}, {"name": "hooks", "share": 0.002}]


@pytest.mark.parametrize(
    ("cost", "line"),
    [
        ({"share": 0.004, "held": True, "parts": PARTS}, "Overhead slowstep itself took 0.4 % of the time (limit 0.5 %); 25.0 us a step"),
        (
            {"share": 0.006, "held": True, "limit_share": 0.0077},
            "Overhead slowstep itself took 0.6 % of the time (limit 0.77 %); 25.0 us a step",
        ),
        (
            {"share": 0.0051, "held": False, "may_exceed": True, "parts": PARTS},
            "Recording cost: slowstep itself took 0.51 % of the time (monitors 0.3 %, hooks 0.2 %) (limit 0.5 %); 25.0 us a step",
        ),
        (
            {"share": 0.0948, "held": True, "parts": [{"name": "profiler", "share": 0.09}, *PARTS]},
            "Overhead slowstep itself took 9 % of the time: the profiler of --capture 9 %, recording 0.5 % (limit 0.5 %); 25.0 us a step",
        ),
        (
            {"share": 0.004, "call_timing_share_at_most": 0.007, "may_exceed": True},
            "Recording cost: slowstep itself took 0.4 % of the time, and up to 0.7 % to time function calls (limit 0.5 %); 25.0 us a step",
        ),
        ({"share": None}, "Overhead slowstep itself took 25.0 us a step"),
    ],
    ids=["within the limit", "that of short steps", "above it", "a profiler", "timed calls", "no share"],
)
def test_the_overhead_says_first_whether_it_is_above_its_limit_and_what_is_not_the_recorders(sample_report, cost, line):
    report = sample_report("healthy")
    report["overhead"] = {"us_per_step": 25.0, "limit_share": 0.005, **cost}

    page = " ".join([*render(report, width=120, color=False, verbose=True).split(), ""])

    assert f" {line} " in page
    assert page.count("slowstep itself took") == 1
    validate(report)


def test_a_batch_size_that_no_loader_told_is_assumed(bottleneck):
    bottleneck["run"].update(batch_size=16, batch_size_from=None, batch_size_assumed=True)

    assert "batch size 16 (assumed) ·" in render(bottleneck, width=120, color=False)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1, "writes", "1 write"), (1, "batches", "1 batch"), (1.0, "passes", "1 pass"), (2, "writes", "2 writes"), (1, "GB/s", "1 GB/s")],
)
def test_one_of_a_kind_is_said_in_the_singular(bottleneck, value, unit, text):
    bottleneck["findings"][0]["evidence"] = [{"name": "of it", "value": value, "unit": unit, "threshold": None, "where": None}]

    line = next(line for line in render(bottleneck, width=80, color=False).splitlines() if "of it " in line)
    assert line.partition("of it")[2].strip() == text


def units_of_evidence():
    """The first words of all units that rules write down, but for those that are formatted: times, and bytes."""
    trees = parsed((Path(slowstep.__path__[0]) / "diagnosis").rglob("*.py")).values()
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Evidence"]
    units = [word.value.value for call in calls for word in call.keywords if word.arg == "unit" and isinstance(word.value, ast.Constant)]
    return sorted({unit.partition(" ")[0] for unit in units} - {"ns", "us", "ms", "s", "bytes"})


@pytest.mark.parametrize("unit", [unit for unit in units_of_evidence() if unit.isalpha() and unit.endswith("s")])
def test_of_all_that_rules_count_there_is_a_singular(bottleneck, unit):
    bottleneck["findings"][0]["evidence"] = [{"name": "of it", "value": 1, "unit": unit, "threshold": None, "where": None}]

    assert f"1 {unit}" not in render(bottleneck, width=80, color=False)


def test_what_is_missing_of_a_recording_is_said_once_and_above_all_that_was_made_of_the_rest(sample_report):
    report = sample_report("healthy")
    report["health"] = [{"name": "missing-records", "severity": "data_loss", "count": 7, "remedy": "record again"}]

    said = render(report, width=80, color=False)

    assert said.count("missing-records") == 1
    assert said.index("Data loss: missing-records x7: record again") < said.index("where a step's time goes")


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_empty_line_follows_a_value_that_was_cut_to_fit(bottleneck, width):
    row = {"name": "most of it before", "value": f"run ({'deep/' * 40}model.py:37)", "unit": "", "threshold": None, "where": None}
    bottleneck["findings"][0]["evidence"] = [row, row | {"name": "kernels", "value": 154, "unit": "per step"}]

    lines = render(bottleneck, width=width, color=False).splitlines()

    at = next(number for number, line in enumerate(lines) if "most of it before" in line)
    assert "…" in lines[at]
    assert "kernels" in lines[at + 1]


@pytest.mark.parametrize(
    ("word", "rows"),
    [
        ("torch.utils.data._utils.collate.default_collate", ["torch.utils.data._utils.collate.", "default_collate"]),
        ("DistributedDataParallel(gradient_as_bucket_view=True,", ["DistributedDataParallel(", "gradient_as_bucket_view=True,"]),
        ("FSDP(backward_prefetch=BACKWARD_PRE_AND_MORE)", ["FSDP(backward_prefetch=", "BACKWARD_PRE_AND_MORE)"]),
        ("/data/runs/20260714-093000/a_long_name_of_a_script.py:123)", ["/data/runs/20260714-093000/", "a_long_name_of_a_script.py:123)"]),
        ("a_class_of_a_long_name_in_a_script_train.py:123", ["a_class_of_a_long_name_in_a_script_", "train.py:123"]),
        (
            "1,742\u00a0of\u00a01,768\u00a0steps\u00a0·\u00a01.3\u00a0minutes\u00a0in\u00a0total",
            ["1,742 of 1,768 steps · 1.3 minutes in", "total"],
        ),
        ("x" * 50, ["x" * 38, "x" * 12]),
    ],
)
def test_a_word_that_is_wider_than_the_page_is_broken_at_its_joints(word, rows):
    canvas = Canvas(width=40)

    canvas.prose(word, indent=2)

    assert [line.strip() for line in canvas.text(color=False).splitlines() if line.strip()] == rows


def test_a_table_of_ranks_has_fewer_columns_where_a_verdict_would_be_cut(sample_report):
    report = sample_report("ranks")
    rule = "worker-thread-oversubscription"
    report["run"]["rank_rows"][0]["rule"] = rule

    narrow, wide = (render(report, width=width, color=False) for width in (40, 100))

    assert rule in narrow
    assert not [line for line in narrow.splitlines() if line.startswith("rank ") and "own work" in line]
    assert [line for line in wide.splitlines() if line.startswith("rank ") and "own work" in line]


def test_a_narrow_page_of_few_steps_says_that_they_are_provisional(sample_report):
    report = sample_report("undetermined")
    report["run"]["provisional"] = True

    assert "provisional" in render(report, width=40, color=False).split()
    assert "where a step's time goes (provisional)" in render(report, width=80, color=False)


@pytest.mark.parametrize(("predicted", "said"), [(2.4, "gain 2.4x, provisional"), (None, " provisional")])
def test_a_gain_of_too_few_steps_is_provisional(bottleneck, predicted, said):
    bottleneck["run"]["provisional"] = True
    bottleneck["findings"][0]["gain"] |= {"predicted": predicted, "low": predicted, "high": predicted, "measured": None}

    text = render(bottleneck, width=100, color=False)

    title = next(line for line in text.splitlines() if line.startswith("1. "))
    assert title.endswith(said)
    assert ("Gain      predicted" in text) is (predicted is not None)


def test_of_no_time_that_was_looked_at_no_duration_is_said(bottleneck):
    bottleneck["run"]["duration_s"] = 0.0

    assert "in total" not in render(bottleneck, width=100, color=False)


@pytest.mark.parametrize("width", [40, 100])
@pytest.mark.parametrize(
    ("name", "value", "unit", "said"),
    [
        ("cores used", 0.625, "cores", "0.625"),
        ("stack samples in it", 106, "samples", "106"),
        ("used by others", 0.625, "cores", "0.625 cores"),
        ("cores", 1, "cores of 2", "1 of 2"),
    ],
)
def test_a_unit_that_the_name_has_is_not_said_twice(bottleneck, width, name, value, unit, said):
    row = {"name": name, "value": value, "unit": unit, "threshold": None, "where": None}
    bottleneck["findings"][0]["evidence"] = [row]

    line = next(text for text in render(bottleneck, width=width, color=False).splitlines() if text.strip().startswith(name))

    assert line.strip().removeprefix(name).lstrip(": ") == said


def test_what_a_folded_finding_would_gain_stands_beside_its_rule(sample_report):
    report = sample_report("bottleneck")
    fix = {"text": "vectorise it", "lever": None, "changes_numerics": False}
    gain = {"predicted": 1.42, "low": 1.2, "high": None}
    report["findings"][0]["folded"] = [{"rule": "slow-transform", "title": "it takes long", "names": None, "fixes": [fix], "gain": gain}]

    validate(report)
    assert "the same time counts for slow-transform (1.42x)" in render(report, width=100, color=False)
