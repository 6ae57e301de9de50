"""The lever `threads` on real trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from few import few
from levered import TRAINING, run_always, run_planned, said, steps_of
from recorded import Server

pytest.importorskip("torch")

COUNTS = TRAINING + "train(lambda *_: print(torch.get_num_threads(), torch.get_num_interop_threads()))\n"
AFTER = "print('after', torch.get_num_threads())\n"


@pytest.mark.slow
def test_operations_have_so_many_threads_in_its_blocks_and_the_old_number_in_all_others(server: Server, tmp_path: Path) -> None:
    ran = run_planned(server, tmp_path, COUNTS + AFTER, "threads=3", blocks=(0, 2, 1, 2, 0), steps=2)

    assert (ran.code, ran.err) == (0, "")
    *lines, last = ran.out.splitlines()
    arms = [record.extra for record in ran.trainer.of("ARM")]
    changed = [number for number, line in enumerate(lines) if line.startswith("3 ")]
    assert changed == [number + 1 for number, arm in enumerate(arms) if arm == 2]
    assert len(changed) == 6
    assert {line.split()[0] for line in lines} == {"1", "3"}
    assert len({line.split()[1] for line in lines}) == 1
    assert last == "after 1"
    effect = said(ran, "effect")[-1]
    assert effect["effect"] == len(steps_of(ran, 2))
    assert effect["facts"] == {"threads_before": 1, "threads": 3}


def test_as_many_as_there_are_is_no_change(server: Server, tmp_path: Path) -> None:
    ran = run_always(server, tmp_path, COUNTS, "threads=1")

    assert [note["reason"] for note in said(ran, "not applicable")] == ["operations use 1 thread already"]


@pytest.mark.parametrize("text", few(["threads", "threads=0", "threads=-1", "threads=two", "threads=99999"], every=3))
def test_what_is_no_number_of_threads_is_said(server: Server, tmp_path: Path, text: str) -> None:
    ran = run_always(server, tmp_path, COUNTS, text)

    (note,) = said(ran, "failed")
    assert note["reason"].startswith("ValueError: give a number of threads")
    assert {line.split()[0] for line in ran.out.splitlines()} == {"1"}
