"""The options of `slowstep prove`."""

from __future__ import annotations

import pytest

from slowstep.cli.prove import parse_precision
from slowstep.errors import BadUsage


@pytest.mark.parametrize(("text", "share"), [("5%", 0.05), ("5 %", 0.05), ("5", 0.05), ("2.5", 0.025), ("0.05%", 0.0005), (".5%", 0.005)])
def test_precision_is_in_percent_with_the_sign_or_without(text, share):
    assert parse_precision(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["0.05", ".05"])
def test_a_share_is_not_guessed_at(text):
    with pytest.raises(BadUsage, match=r"this may be 5% or 0.05%; say which, with the % sign"):
        parse_precision(text)


@pytest.mark.parametrize("text", ["0", "0%", "100%", "100", "-5%", "five", "", "%"])
def test_a_precision_that_cannot_be_meant_is_refused(text):
    with pytest.raises(BadUsage, match="give percent between 0 and 100, such as 5%"):
        parse_precision(text)
