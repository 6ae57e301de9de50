"""The lever `anomaly-off` on real trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

from levered import TRAINING, run_planned, said, steps_of
from recorded import Server

pytest.importorskip("torch")

# What each forward sees, and what holds after the loop.
SEES = (
    TRAINING
    + """
class Looks(Model):
    def forward(self, inputs):
        print(int(torch._C.is_anomaly_enabled()), int(torch._C.is_anomaly_check_nan_enabled()))
        return super().forward(inputs)

"""
)
ONCE = "torch.autograd.set_detect_anomaly(True, check_nan=False)\ntrain(lambda *_: None, model=Looks())\n"
EACH = """
class Within(Looks):
    def forward(self, inputs):
        with torch.autograd.set_detect_anomaly(True):
            return super().forward(inputs)

train(lambda *_: None, model=Within())
"""
# One block within another, the outer one around the whole training.
AROUND = """
class Without(Looks):
    def forward(self, inputs):
        with torch.autograd.set_detect_anomaly(False):
            hidden = inputs * 1.0
        return super().forward(hidden)

with torch.autograd.set_detect_anomaly(True):
    train(lambda *_: None, model=Without())
    print("within", int(torch.is_anomaly_enabled()))
"""
AFTER = "print('after', int(torch.is_anomaly_enabled()), torch.set_anomaly_enabled.__module__)\n"


@pytest.mark.parametrize(
    ("script", "wanted", "after"),
    [(ONCE, "1 0", "1"), pytest.param(EACH, "1 1", "0", marks=pytest.mark.slow), (AROUND, "1 1", "0")],
    ids=["turned on once", "in each step", "around it, and off for a part of each step"],
)
def test_detection_is_off_in_its_blocks_and_as_the_script_wants_it_in_all_others(
    server: Server, tmp_path: Path, script: str, wanted: str, after: str
) -> None:
    ran = run_planned(server, tmp_path, SEES + script + AFTER, "anomaly-off", blocks=(0, 2, 1, 2, 0), steps=2)

    assert ran.code == 0
    *seen, last = (line for line in ran.out.splitlines() if line != "within 1")
    assert (script is AROUND) is ("within 1" in ran.out)
    arms = [record.extra for record in ran.trainer.of("ARM")]
    off = [number for number, line in enumerate(seen) if line.startswith("0 ")]
    assert off == [number + 1 for number, arm in enumerate(arms) if arm == 2]
    assert {line for number, line in enumerate(seen) if number not in off} == {wanted}
    assert last == f"after {after} torch"
    assert said(ran, "effect")[-1]["effect"] == len(steps_of(ran, 2))


@pytest.mark.slow
def test_of_a_script_that_does_not_want_it_there_is_no_effect(server: Server, tmp_path: Path) -> None:
    ran = run_planned(server, tmp_path, SEES + "train(lambda *_: None)\n" + AFTER, "anomaly-off", blocks=(0, 2, 0), steps=2)

    assert (ran.code, ran.err) == (0, "")
    assert said(ran, "effect")[-1]["effect"] == 0
