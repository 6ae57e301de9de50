from __future__ import annotations

import copy
import json

import pytest

from judged import finding
from made_measurements import measurements
from slowstep.cli.main import main
from slowstep.findings import EvidenceCode
from slowstep.report.comparison import FOREIGN_LOAD, compare_reports, is_slower_by
from slowstep.report.comparison_terminal import render
from slowstep.stages import STAGES, UNATTRIBUTED


def report(*, per_s=100.0, half=1.02, batch_size=10, **run):
    """A report of a training of `per_s` steps/s, whose interval is that times and by `half`."""
    compute = {"stage": "compute", "share": 1.0, "ms_per_step": 1e3 / per_s, "parts": []}
    others = [{"stage": stage, "share": 0.0, "ms_per_step": 0.0, "parts": []} for stage in (*STAGES, UNATTRIBUTED) if stage != "compute"]
    return {
        "schema": "slowstep/report/1",
        "run": {"name": "train", "batch_size": batch_size, "command": ["train.py"], "device": "cpu", **run},
        "throughput": {
            "samples_per_s": None if batch_size is None else per_s * batch_size,
            "steps_per_s": per_s,
            "steps_per_s_interval": {"low": per_s / half, "high": per_s * half},
            "step_ms": {"median": 1e3 / per_s, "p05": None, "p95": None},
        },
        "ledger": [compute, *others],
        "verdict": {"state": "healthy", "stage": "compute", "healthy": True, "rule": None, "summary": "healthy"},
        "findings": [],
    }


def test_the_ratio_is_of_samples_and_its_interval_adds_both_runs_as_squares():
    comparison = compare_reports(report(per_s=100, half=1.03), report(per_s=150, half=1.04))

    ratio = comparison["ratio"]
    assert comparison["state"] == "faster"
    assert ratio["of"] == "samples"
    assert ratio["value"] == pytest.approx(1.5)
    # ln 1.03 and ln 1.04 as the sides of a right angle.
    assert ratio["high"] / ratio["value"] == pytest.approx(1.0502, abs=1e-3)
    assert ratio["value"] / ratio["low"] == pytest.approx(1.0502, abs=1e-3)


def test_an_interval_that_reaches_further_up_of_the_slower_run_leaves_it_open_which_is_faster():
    busy = report(per_s=80)
    busy["throughput"]["steps_per_s_interval"]["high"] = 80 * 1.4

    slower, faster = compare_reports(report(), busy), compare_reports(busy, report())

    assert slower["state"] == faster["state"] == "cannot distinguish"
    assert slower["ratio"]["high"] == pytest.approx(1 / faster["ratio"]["low"])
    assert slower["ratio"]["low"] == pytest.approx(0.8 / 1.0284, abs=1e-3)


@pytest.mark.parametrize(("per_s", "state"), [(120, "faster"), (101, "cannot distinguish"), (99, "cannot distinguish"), (80, "slower")])
def test_only_an_interval_without_1_tells_the_runs_apart(per_s, state):
    assert compare_reports(report(), report(per_s=per_s))["state"] == state


def test_two_samples_a_step_are_compared_with_twenty_by_the_sample():
    comparison = compare_reports(report(per_s=100, batch_size=2), report(per_s=50, batch_size=20))

    compute = next(row for row in comparison["ledger"] if row["stage"] == "compute")
    assert comparison["ratio"]["value"] == pytest.approx(5.0)
    assert comparison["per"] == "sample"
    assert (compute["before_ms"], compute["after_ms"]) == (pytest.approx(5.0), pytest.approx(1.0))


def test_steps_are_compared_only_where_they_are_known_to_be_alike():
    unknown = report(batch_size=None)

    assert compare_reports(unknown, report(per_s=200, batch_size=None))["ratio"]["of"] == "steps"
    assert compare_reports(unknown, report(per_s=200, batch_size=10))["state"] == "not comparable"


def test_steps_of_several_batches_are_no_steps_of_one():
    accumulating = report(per_s=25, batches_per_step=4)

    by_samples = compare_reports(
        report(batches_per_step=1), accumulating | {"throughput": {**accumulating["throughput"], "samples_per_s": 1e3}}
    )
    unknown = compare_reports(report(batch_size=None, batches_per_step=1), report(per_s=25, batch_size=None, batches_per_step=4))

    compute = next(row for row in by_samples["ledger"] if row["stage"] == "compute")
    assert (by_samples["state"], by_samples["per"]) == ("cannot distinguish", "sample")
    assert compute["before_ms"] == pytest.approx(compute["after_ms"])
    assert unknown["state"] == "not comparable"


def test_runs_of_other_numbers_of_ranks_are_compared_by_all_their_ranks_together():
    one, rows = report(ranks=1), [{"report": "report.json"}, {"report": "report-rank1.json"}]
    two = report(per_s=90, ranks=2, all_samples_per_s=1_800.0, rank_rows=rows)

    comparison = compare_reports(one, two)

    assert (comparison["state"], comparison["after"]["samples_per_s"]) == ("faster", 1_800.0)
    assert comparison["ratio"]["value"] == pytest.approx(1.8)
    assert compare_reports(one, report(per_s=90, ranks=3, all_samples_per_s=1_800.0, rank_rows=rows))["state"] == "not comparable"


def test_without_an_interval_nothing_is_sure():
    trace = copy.deepcopy(report())
    del trace["throughput"]["steps_per_s_interval"]

    comparison = compare_reports(trace, report(per_s=10))

    assert comparison["state"] == "cannot distinguish"
    assert (comparison["ratio"]["low"], comparison["ratio"]["high"]) == (None, None)
    assert is_slower_by(comparison, 0.05) is None


def test_what_differs_is_named_with_both_values():
    comparison = compare_reports(report(num_workers=0), report(num_workers=2, device="cuda"))

    assert comparison["differs"] == [
        {"fact": "device", "before": "cpu", "after": "cuda"},
        {"fact": "num_workers", "before": 0, "after": 2},
    ]


@pytest.mark.parametrize(("other", "same"), [({}, True), ({"name": "other", "command": ["other.py"]}, False), ({"command": None}, None)])
def test_runs_of_two_scripts_are_told_apart_where_both_have_a_command(other, same):
    assert compare_reports(report(), report(**other))["same_script"] is same


@pytest.mark.parametrize(("per_s", "slower"), [(90, False), (80, True), (120, False)])
def test_a_gate_of_10_percent_trips_only_where_the_whole_interval_is_beyond(per_s, slower):
    assert is_slower_by(compare_reports(report(), report(per_s=per_s)), 0.10) is slower


@pytest.mark.parametrize(("per_s", "has_interval", "code"), [(100, True, 0), (70, True, 3), (70, False, 4)])
def test_the_command_compares_files_of_reports_and_ends_with_the_gates_code(tmp_path, monkeypatch, capsys, per_s, has_interval, code):
    after = report(per_s=per_s)
    if not has_interval:
        del after["throughput"]["steps_per_s_interval"]
    for name, each in {"a.json": report(), "b.json": after}.items():
        (tmp_path / name).write_text(json.dumps(each))
    words = ["slowstep", "compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--fail-above", "5%", "--json", "-"]
    monkeypatch.setattr("sys.argv", words)

    with pytest.raises(SystemExit) as ended:
        main()

    assert ended.value.code == code
    assert json.loads(capsys.readouterr().out)["ratio"]["value"] == pytest.approx(per_s / 100)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_the_page_fits_and_has_both_runs_and_the_stages_that_took_time(width):
    text = render(compare_reports(report(), report(per_s=150, recording="slowstep_runs/x")), width=width, color=False)

    # A command is never broken: it is there to be copied.
    assert max(len(line) for line in text.splitlines() if not line.startswith("Next ")) <= width
    assert "slowstep analyze slowstep_runs/x" in text
    assert "slowstep_runs/x" in text
    assert "FASTER" in text
    assert "compute" in text
    assert "preprocess" not in text


def test_a_busy_machine_is_told_of_each_run_with_how_much_faster_it_may_be_alone():
    load = {
        "rule": "foreign-load",
        "evidence": [{"name": "made up", "value": 3.0}, {"name": "by others", "value": 1.5, "code": "used-by-others"}],
    }
    busy = report(per_s=80, cores=2)
    busy["findings"] = [load]
    busy["throughput"]["steps_per_s_interval"]["high"] = 80 * 1.4

    comparison = compare_reports(busy, report(per_s=100, cores=2))

    assert comparison["before"]["busy"] == {"cores": 1.5, "of": 2, "up_to": pytest.approx(1.4)}
    assert comparison["after"]["busy"] is None
    assert "before: other processes used 1.5 of 2 cores; without them this run may be up to 1.40x" in render(
        comparison, width=120, color=False
    )


def test_what_others_use_is_read_as_the_rule_writes_it():
    found = finding(FOREIGN_LOAD, measurements(load={"foreign_cores": 1.5, "cores": 2.0}, cores=2.0))

    assert [row.value for row in found.evidence if row.code is EvidenceCode.USED_BY_OTHERS] == [1.5]


@pytest.mark.parametrize("per_s", [0.08, 0.8, 80.0])
def test_on_a_narrow_page_times_stay_apart_and_differences_stand_below_each_other(per_s):
    before, after = report(per_s=per_s, cores=4), report(per_s=per_s / 2, cores=8, name="train")

    lines = render(compare_reports(before, after), width=40, color=False).splitlines()

    assert max(map(len, lines)) <= 40
    head = next(number for number, line in enumerate(lines) if line.split()[-3:] == ["before", "after", "change"])
    assert [len(line.split()) for line in lines[head + 1 :] if line.startswith("compute")] == [4]
    differs = lines.index("differs in")
    assert lines[differs + 1].startswith("  cores: 4 before")
