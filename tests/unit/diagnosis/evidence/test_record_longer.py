"""What is to be recorded longer is said in the words of how it was recorded."""

from __future__ import annotations

import pytest

from made_measurements import measurements
from slowstep.diagnosis.evidence.record_longer import record_longer
from slowstep.reason_words import sentence


@pytest.mark.parametrize(
    ("level", "from_within", "said"),
    [
        (0, False, "record longer, at --level 1 or more"),
        (None, False, "record longer, at --level 1 or more"),
        (0, True, "record longer, with level=1 or more"),
        (1, False, "record longer"),
        (2, True, "record longer"),
    ],
)
def test_a_level_is_asked_for_where_it_was_lower_as_it_was_given(level: int | None, from_within: bool, said: str) -> None:
    assert sentence(record_longer(measurements(training={"level": level, "from_within": from_within}))) == said
