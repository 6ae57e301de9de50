"""What runs inside backward and is no part of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_events import Events, at
from made_recordings import ENGINE, LIBRARY, LOOP, SCRIPT, TRAINER_THREAD
from slowstep.analyses.compute.in_backward import InBackward
from slowstep.analyses.measure_recording import measure_recording
from slowstep.record.writing import format as fmt

Place = tuple[str, str, int, int]
HOOK, LAMBDA = (SCRIPT, "History.log_stats", 60, 62), (SCRIPT, "History.__init__.<locals>.<lambda>", 50, 51)
LISTED = (SCRIPT, "History.__init__.<locals>.<lambda>.<locals>.<listcomp>", 51, 51)
NUMPY = ("/usr/lib/python3.11/site-packages/numpy/histograms.py", "histogram", 700, 710)
OF_MODULES = (f"{LIBRARY}/utils/hooks.py", "BackwardHook.setup_output_hook.<locals>.fn", 200, 210)
FUNCTION, ITS_BACKWARD = (f"{LIBRARY}/autograd/function.py", "BackwardCFunction.apply", 290, 300), (SCRIPT, "Swish.backward", 30, 31)
AGAIN, FORWARD = (f"{LIBRARY}/utils/checkpoint.py", "unpack_hook", 1100, 1110), (SCRIPT, "Block.forward", 40, 41)
UPDATE = (f"{LIBRARY}/optim/sgd.py", "SGD.step", 100, 110)


def _found(folder: Path, *called: Place, tenths: int) -> InBackward | None:
    """Of sixty steps of 20 ms, of which backward takes 12, and in so many tenths of them stands in what the engine has called."""
    events = Events(folder)
    events.loader(workers=1)
    plain, inside = (events.trainer.stack([LOOP, ENGINE, *frames]) for frames in ((), called))
    for batch in range(60):
        now = batch * 20.0
        events.fetch(now, now + 1, batch, worker=0, cpu=1)
        events.wait(now + 1, now + 1.5, batch)
        events.backward(now + 6, now + 18)
        stack = inside if batch % 10 < tenths else plain
        events.trainer.event(fmt.STACK, at(now + 9), at(now + 9), stack, 20e6, 0, thread=TRAINER_THREAD)
        events.update(now + 18, now + 20)
    return measure_recording(events.timeline()).compute.in_backward


@pytest.mark.parametrize("called", [(HOOK, NUMPY), (LAMBDA, HOOK), (LAMBDA, LISTED, HOOK), (OF_MODULES, HOOK)])
def test_a_hook_on_gradients_is_named_with_the_time_that_it_holds(tmp_path, called):
    found = _found(tmp_path, *called, tenths=5)

    assert found is not None
    assert (found.name, found.share) == ("History.log_stats (train.py:60)", pytest.approx(0.5 * 12 / 20, abs=0.02))


@pytest.mark.parametrize("called", [(FUNCTION, ITS_BACKWARD), (AGAIN, FORWARD), (LAMBDA, UPDATE)])
def test_what_the_model_or_the_update_does_inside_backward_is_no_hook(tmp_path, called):
    assert _found(tmp_path, *called, tenths=10) is None
