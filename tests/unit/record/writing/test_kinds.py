"""The kinds of records: each has a number of its own, in the range of who writes it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from slowstep.record.writing import format as fmt

KINDS = re.compile(r"^# Kinds\..*?^PRESSURES", re.MULTILINE | re.DOTALL)


def kinds() -> dict[str, int]:
    """Name and number of each, as they are declared one below the other."""
    (block,) = KINDS.findall(Path(fmt.__file__).read_text(encoding="utf-8"))
    return {name: getattr(fmt, name) for name in re.findall(r"^([A-Z_]+): Final = ", block, re.MULTILINE)}


def test_no_number_is_given_twice():
    assert {number: times for number, times in Counter(kinds().values()).items() if times > 1} == {}


def test_readings_of_the_launcher_are_told_from_all_others_by_their_number():
    found = kinds()

    assert len(found) > 40
    assert {name for name, number in found.items() if number >= 32} == {name for name in found if name.startswith("READING_")}
    assert max(found.values()) <= 255
