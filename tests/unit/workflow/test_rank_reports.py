"""Reports of recordings with several trainings: one each, and all of them in one table."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest

from made_events import Events
from made_ranks import make_job
from slowstep.document.next_step import NextStep
from slowstep.document.validity import validate
from slowstep.errors import BadUsage, NothingRecorded
from slowstep.report.terminal import render
from slowstep.workflow import diagnose_recordings
from slowstep.workflow.diagnose_recordings import diagnose_all, diagnose_recording


def _health(report) -> dict[str, str]:
    return {row["name"]: row["remedy"] for row in report["health"]}


def rank_rows(report) -> list[list[str]]:
    """The words of each row of the table of ranks, which ends with an empty line or with how many more there are."""
    lines = iter(render(report, width=80, color=False).splitlines())
    next(line for line in lines if re.match(r"rank +pid ", line))
    return [line.split() for line in itertools.takewhile(re.compile(r"[> ] \d").match, lines)]


def test_every_rank_has_a_valid_report_of_its_own(tmp_path: Path) -> None:
    diagnosed = diagnose_all(make_job(tmp_path, [4.0, 12.0, 4.0]))

    assert list(diagnosed.files) == ["report-rank0.json", "report.json", "report-rank2.json"]
    for number, report in diagnosed.reports.items():
        validate(report)
        assert (report["run"]["rank"], report["run"]["ranks"], report["run"]["pid"]) == (number, 3, 100 + number)
    sharing = [next(row for row in r["ledger"] if row["stage"] == "gradient_sharing")["ms_per_step"] for r in diagnosed.reports.values()]
    assert sharing == pytest.approx([9, 1, 9], abs=0.01)


def test_a_rank_that_waits_for_another_is_neither_healthy_nor_blamed(tmp_path: Path) -> None:
    reports = diagnose_all(make_job(tmp_path, [4.0, 12.0])).reports

    assert reports[0]["verdict"]["state"] == "undetermined"
    assert reports[0]["verdict"]["code"] == "waits-for-rank"
    assert reports[0]["run"]["next_command"].endswith("--rank 1")
    assert reports[1]["verdict"]["code"] != "waits-for-rank"
    assert any("rank 1 sets the pace" in note for note in reports[1]["run"]["notes"])


def test_a_rank_of_too_few_steps_to_be_compared_is_here_and_not_missing(tmp_path: Path) -> None:
    report = diagnose_recording(make_job(tmp_path, [4.0, 12.0, 4.0, 4.0], steps=(60, 60, 60, 8)))

    assert "missing_ranks" not in report["run"]
    assert "missing-ranks" not in _health(report)
    assert [row["steps"] for row in report["run"]["rank_rows"]][3] < 10
    [said] = [note for note in report["run"]["notes"] if "is the last" in note]
    assert said.startswith("of the 3 of 4 ranks that could be compared, rank 1 is the last")


def test_nothing_has_to_be_done_before_a_look_at_the_slowest_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = NextStep(first="put the secret in place of FILL_IN", command="slowstep run train.py --token FILL_IN")
    monkeypatch.setattr(diagnose_recordings, "after_recording", lambda *_: alone)

    waiting, slowest = (report["run"] for report in diagnose_all(make_job(tmp_path, [4.0, 12.0])).reports.values())

    assert waiting["next_command"].endswith("--rank 1")
    assert "before_next" not in waiting
    assert (slowest["before_next"], slowest["next_command"]) == (alone.first, alone.command)


def test_much_sharing_among_equal_ranks_is_not_called_healthy(tmp_path: Path) -> None:
    verdict = diagnose_recording(make_job(tmp_path, [10.0, 10.0], share_ms=5))["verdict"]

    assert verdict["state"] == "undetermined"
    assert verdict["code"] == "overlap-not-known"


def test_little_sharing_among_equal_ranks_is_no_reason_for_doubt(tmp_path: Path) -> None:
    summary = diagnose_recording(make_job(tmp_path, [20.0, 20.0], share_ms=0.5))["verdict"]["summary"]

    assert "sharing" not in summary
    assert "rank" not in summary


def test_what_cannot_be_seen_of_a_rank_is_null_and_not_zero(tmp_path: Path) -> None:
    for i in range(2):
        events = Events(tmp_path, pid=100 + i, rank=(i, 2))
        events.loader()
        end = 0.0
        for k in range(60):
            end = events.step(end, batch=k)
        events.close()
    report = diagnose_recording(tmp_path)

    assert next(row for row in report["ledger"] if row["stage"] == "gradient_sharing")["share"] is None
    assert report["verdict"]["state"] == "undetermined"
    assert report["run"]["rank_rows"][0]["own_ms"] is None
    validate(report)


def test_the_speed_of_the_job_is_that_of_all_its_ranks(tmp_path: Path) -> None:
    report = diagnose_recording(make_job(tmp_path, [10.0, 10.0]))
    one = report["throughput"]["samples_per_s"]

    assert report["run"]["all_samples_per_s"] == pytest.approx(2 * one)
    assert "of 2 ranks together" in render(report, width=80, color=False)


def test_trainings_of_their_own_have_no_speed_together(tmp_path: Path) -> None:
    for i in range(2):
        events = Events(tmp_path, pid=100 + i)
        events.loader()
        end = 0.0
        for k in range(40):
            end = events.step(end, batch=k)
        events.close()
    report = diagnose_recording(tmp_path)

    assert (report["run"]["ranks"], report["run"]["rank"], report["run"]["trainings"]) == (1, None, 2)
    assert report["run"]["all_samples_per_s"] is None
    assert "of 2 trainings" in render(report, width=80, color=False)


def test_a_lone_training_says_nothing_of_ranks(tmp_path: Path) -> None:
    events = Events(tmp_path)
    events.loader()
    end = 0.0
    for k in range(40):
        end = events.step(end, batch=k)
    report = diagnose_recording(events.close())

    assert "rank_rows" not in report["run"]
    assert "rank" not in render(report, width=80, color=False)


def test_absent_ranks_are_said(tmp_path: Path) -> None:
    make_job(tmp_path, [5.0, 5.0], size=4)
    Events(tmp_path, pid=300, rank=(2, 4)).close()
    health = _health(diagnose_recording(tmp_path))

    assert "rank 3 left no recording" in health["missing-ranks"]
    assert "rank 2 joined" in health["idle-ranks"]


def test_missing_ranks_stand_in_the_table_of_ranks(tmp_path: Path) -> None:
    report = diagnose_recording(make_job(tmp_path, [5.0, 5.0], size=4))

    assert report["run"]["missing_ranks"] == [2, 3]
    assert rank_rows(report)[2:] == [["2", "not", "recorded"], ["3", "not", "recorded"]]
    validate(report)


def test_where_one_of_two_ranks_is_missing_there_is_a_table_of_both(tmp_path: Path) -> None:
    shown, missing = rank_rows(diagnose_recording(make_job(tmp_path, [5.0], size=2)))

    assert shown[:2] == [">", "0"]
    assert missing == ["1", "not", "recorded"]


def test_many_missing_ranks_leave_room_for_those_that_were_recorded(tmp_path: Path) -> None:
    report = diagnose_recording(make_job(tmp_path, [5.0] * 8, size=16, steps=40))
    rows = rank_rows(report)

    assert sum(row[1:] == ["not", "recorded"] for row in rows) == 3
    assert rows[0][:2] == [">", "0"]
    assert "and 8 more in report.json" in render(report, width=80, color=False)


def test_where_the_late_rank_left_no_recording_it_is_not_said_that_nothing_is_late(tmp_path: Path) -> None:
    make_job(tmp_path, [3.0, 3.0, 3.0, 9.0])
    for file in tmp_path.glob("103-*"):
        file.unlink()

    verdict = diagnose_recording(tmp_path)["verdict"]

    assert (verdict["state"], verdict["code"]) == ("undetermined", "late-one-not-recorded")


def test_a_rank_with_too_few_steps_has_a_row_and_no_report(tmp_path: Path) -> None:
    make_job(tmp_path, [5.0, 5.0], size=3)
    short = Events(tmp_path, pid=300, rank=(2, 3))
    short.step(0)
    short.close()
    diagnosed = diagnose_all(tmp_path)

    assert sorted(diagnosed.reports) == [0, 1]
    row = diagnosed.reports[0]["run"]["rank_rows"][2]
    assert (row["rank"], row["report"], row["state"]) == (2, None, None)
    assert "rank 2" in _health(diagnosed.reports[0])["short-trainings"]
    assert "no report" in render(diagnosed.reports[0], width=80, color=False)


def test_where_no_rank_trained_long_enough_that_is_the_error(tmp_path: Path) -> None:
    for i in range(2):
        events = Events(tmp_path, pid=100 + i, rank=(i, 2))
        events.update(9, 10)
        events.close()

    with pytest.raises(NothingRecorded, match="only 1 update"):
        diagnose_all(tmp_path)


def test_a_rank_can_be_asked_for(tmp_path: Path) -> None:
    make_job(tmp_path, [4.0, 12.0])

    assert diagnose_recording(tmp_path, rank=0)["run"]["rank"] == 0
    with pytest.raises(BadUsage, match="0, 1"):
        diagnose_recording(tmp_path, rank=5)


@pytest.mark.slow
def test_many_ranks_stay_on_one_screen_with_the_slowest_among_them(tmp_path: Path) -> None:
    report = diagnose_recording(make_job(tmp_path, [4.0] * 19 + [12.0], steps=40), rank=3)
    lines = render(report, width=80, color=False).splitlines()
    rows = rank_rows(report)

    assert len(rows) == 8
    assert [">", "3"] in [row[:2] for row in rows]
    assert "19" in [row[0] for row in rows]
    assert "and 12 more in report.json" in lines
    assert max(len(line) for line in lines if not line.startswith(("Next", "More"))) <= 80


def _launched(folder: Path, rank: int, of: int) -> Path:
    events = Events(folder, rank=(rank, of))
    events.launcher.lines[-1] |= {"launcher_rank": rank, "launchers": of}
    events.loader()
    end = 0.0
    for k in range(40):
        end = events.step(end, batch=k)
    return events.close()


def test_the_first_of_several_launchers_misses_those_that_made_no_folder(tmp_path: Path) -> None:
    job = tmp_path / "slurm-7.0-train"
    folders = [_launched(job / f"node{rank}-rank{rank}-{rank + 10}", rank, 3) for rank in (0, 2)]

    assert "rank 1 made no folder" in _health(diagnose_recording(folders[0]))["missing-launchers"]
    assert "missing-launchers" not in _health(diagnose_recording(folders[1]))
    _launched(job / "node1-rank1-11", 1, 3)
    assert "missing-launchers" not in _health(diagnose_recording(folders[0]))


def test_launchers_that_need_not_share_a_folder_are_not_missed(tmp_path: Path) -> None:
    folder = _launched(tmp_path / "20261120-100000-train-node0-rank0-10", 0, 3)

    assert "missing-launchers" not in _health(diagnose_recording(folder))


def _waiting_for_others(folder: Path, rank: int) -> Path:
    """One of two ranks, each under a launcher of its own: most of its step is a collective."""
    events = Events(folder, rank=(rank, 2))
    events.launcher.lines[-1] |= {"launcher_rank": rank, "launchers": 2}
    events.loader()
    end = 0.0
    for k in range(60):
        events.collective(end + 2, end + 8)
        events.backward_cpu(end + 2, end + 9, cpu=1)
        end = events.step(end, batch=k)
    return events.close()


def test_a_rank_that_waits_for_those_of_other_launchers_names_the_next_recording(tmp_path: Path) -> None:
    job = tmp_path / "slurm-7.0-train"
    folders = [_waiting_for_others(job / f"node-rank{rank}-{rank + 10}", rank) for rank in (0, 1)]

    reports = [diagnose_recording(folder) for folder in folders]
    assert reports[0]["verdict"]["code"] == "sharing-with-others"
    assert [report["run"]["next_command"] for report in reports] == [f"slowstep analyze {folder}" for folder in folders[::-1]]
