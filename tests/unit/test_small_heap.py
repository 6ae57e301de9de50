"""The tests that search all objects of their process, in one that holds few."""

from __future__ import annotations

from pathlib import Path

import pytest

from own_process import pass_by_themselves
from small_heap import FILES

LIMIT_S = 280


@pytest.mark.timeout(LIMIT_S + 20)
def test_searches_among_few_objects() -> None:
    assert pass_by_themselves([Path(__file__).parent / file for file in FILES], limit_s=LIMIT_S)
