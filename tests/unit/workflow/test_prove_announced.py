"""What `slowstep prove` says before it begins."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.errors import DiscoveryError
from slowstep.prove.lead_in import LeadLimits
from slowstep.record.experiment.implementations import known_levers
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.workflow import prove
from slowstep.workflow.prove import _announced
from slowstep.workflow.prove_request import ProveRequest

PLACE: Any = SimpleNamespace(announced="in an overlay", sandbox=SimpleNamespace(warnings=("the network is not held back",)))


@pytest.mark.parametrize(
    ("levers", "everything", "named"),
    [
        ((), False, None),
        (("workers=2", "batch-size=8", "mock-loader"), False, None),
        (("workers=2", "autocast=bf16"), False, "autocast"),
        (("swap=a:f=a:g", "autocast=bf16", "swap=a:f=a:h"), False, "swap, autocast"),
        ((), True, "autocast, fused, jit-compile, mixed-precision, run-eagerly-off"),
    ],
)
def test_the_time_for_comparing_losses_is_said_where_levers_change_numbers_alone(levers: Any, everything: bool, named: str | None) -> None:
    asked = ProveRequest(words=("train.py",), levers=tuple(map(parse_spec, levers)), everything=everything, budget_s=35.0)

    lines = _announced(asked, known_levers(), PLACE, LeadLimits(), 400.0)

    said = [line for line in lines if line.startswith("Then compares the losses")]
    assert said == (
        [] if named is None else [f"Then compares the losses with and without {named}, where it may gain (each for 1.2 min at most)"]
    )
    claims = [line for line in lines if line.startswith("Then compares input and losses")]
    assert len(claims) == (everything or not levers or "workers=2" in levers)
    # All of it is said before anything begins: how long at most, and for which precision.
    assert ("6.7 min at the latest" in lines[2], "known to 5 %" in lines[2]) == (True, True)
    assert lines[-1] == "the network is not held back"


def test_a_lever_whose_file_is_broken_is_said_to_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prove, "broken_levers", lambda: {"half-done": DiscoveryError("half_done.py cannot be imported")})

    lines = prove._announced(ProveRequest(words=("train.py",), levers=()), known_levers(), PLACE, LeadLimits(), 400.0)

    assert [line for line in lines if "half-done" in line and "half_done.py" in line]
