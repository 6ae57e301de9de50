"""Options of a session that is not valid."""

from __future__ import annotations

import pytest

from slowstep.errors import BadUsage
from slowstep.workflow.sessions.session import start


@pytest.mark.parametrize(
    "options",
    [
        *({"steps": steps} for steps in ("a", 0, -1, 1.5)),
        *({"warmup": warmup} for warmup in ("a", -1, [1])),
        *({"seconds": seconds} for seconds in ("a", 0, -1.0, float("nan"))),
        *({"level": level} for level in ("a", 3, None)),
        {"out": 5},
    ],
    ids=str,
)
def test_what_cannot_be_meant_is_said_by_name_whatever_its_type(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (name,) = options

    with pytest.raises(BadUsage, match=rf"^{name}=.* is not valid"):
        start(**options)

    assert not list(tmp_path.iterdir())


def test_a_warm_up_as_long_as_the_recording_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    with pytest.raises(BadUsage, match="leave no step to look at"):
        start(steps=20, warmup=20)

    assert not list(tmp_path.iterdir())
