from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slowstep import units
from slowstep.cli.durations import parse_duration_option
from slowstep.errors import BadUsage


@pytest.mark.parametrize(
    "write",
    [units.format_number, units.format_duration, units.format_ratio, units.format_share, units.format_bytes],
)
def test_unknown_is_said_and_never_printed_as_zero(write):
    assert write(None) == "not measured"


def test_an_unknown_rate_is_said_too():
    assert units.format_rate(None, "samples") == "not measured"
    assert units.format_rate(1839.6, "samples") == "1,840 samples/s"


@pytest.mark.parametrize(
    ("duration_ns", "text"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (9_400, "9.40 us"),
        (12_345_678, "12.3 ms"),
        (999_600, "1.00 ms"),
        (59.99e9, "1.0 min"),
        (5.4e12, "1.5 h"),
    ],
)
def test_durations_take_the_unit_that_keeps_them_short(duration_ns, text):
    assert units.format_duration(duration_ns) == text


@pytest.mark.parametrize(("beside_ns", "text"), [(705e3, "690"), (1e6, "0.690"), (2e9, "0.00069"), (300, "690,000")])
def test_a_number_beside_a_duration_is_in_its_unit(beside_ns, text):
    assert units.format_number_in_unit_of(690e3, beside_ns) == text


@pytest.mark.parametrize(("value", "text"), [(1.0, "1.00x"), (1.052, "1.05x"), (1.84, "1.8x"), (9.96, "10x")])
def test_a_factor_near_one_keeps_its_hundredths(value, text):
    assert units.format_ratio(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.31, "1.31 times"), (4.12, "4.1 times"), (46.27, "46 times"), (4626.8, "4,627 times")])
def test_a_factor_in_a_sentence_has_no_digits_beyond_ten(value, text):
    assert units.format_times(value) == text


def test_an_interval_is_as_precise_as_its_factor():
    assert units.format_ratio_interval(1.8, 1.62, 2.04) == "1.8x (1.6-2.0)"
    assert units.format_ratio_interval(2.6, 0.13, 112.6) == "2.6x (0.1-113)"
    assert units.format_ratio_interval(1.4, 0.13, 12.66) == "1.40x (0.13-13)"
    assert units.format_ratio_interval(1.23, 1.14, 1.5) == "1.23x (1.14-1.50)"
    assert units.format_ratio_interval(1.62, 1.58, 1.66) == "1.62x (1.58-1.66)"
    assert units.format_ratio_interval(1.73, 0.66, None) == "1.7x (0.7 or more)"


def test_an_end_of_an_interval_is_not_rounded_to_one():
    assert units.format_ratio_interval(14.0, 1.3, 50.2) == "14x (1.3-50)"
    assert units.format_ratio_interval(2.1, 0.97, 5.9) == "2.1x (0.97-5.9)"
    assert units.format_ratio_interval(2.1, 1.0, 1.004) == "2.10x (1.00-1.00)"


@pytest.mark.parametrize(("share", "text"), [(0, "0 %"), (0.0001, "<0.1 %"), (0.004, "0.4 %"), (0.43, "43 %"), (1.0, "100 %")])
def test_a_share_above_zero_never_prints_as_zero(share, text):
    assert units.format_share(share) == text


@pytest.mark.parametrize(("size_bytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1024, "1.00 KiB"), (12.3 * 2**20, "12.3 MiB")])
def test_bytes_are_counted_in_powers_of_1024(size_bytes, text):
    assert units.format_bytes(size_bytes) == text


@pytest.mark.parametrize(("count", "text"), [(0, "0 workers"), (1, "1 worker"), (2, "2 workers"), (1200, "1,200 workers")])
def test_a_count_takes_the_plural_that_it_needs(count, text):
    assert units.format_count(count, "worker") == text


def test_a_plural_of_its_own_is_given():
    assert [units.format_count(count, "copy", "copies") for count in (1, 2)] == ["1 copy", "2 copies"]


def test_a_count_is_not_rounded():
    assert units.format_number(123_456) == "123,456"
    assert units.format_number(123.456) == "123"


@given(st.floats(min_value=1e-3, max_value=1e14))
def test_a_number_keeps_three_digits(value):
    shown = float(units.format_number(value).replace(",", ""))

    assert shown == pytest.approx(value, rel=0.006)


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("2m", 120), ("1.5h", 5400), ("500ms", 0.5), (" 3 ", 3), ("2 min", 120), (".5s", 0.5)]
)
def test_durations_are_read_as_people_type_them(text, seconds):
    assert parse_duration_option(text, "--budget") == seconds


@pytest.mark.parametrize("text", ["", "x", "0", "0s", "-1", "inf", "nan", "1e3", "3y", "1m30"])
def test_what_is_no_duration_is_refused_with_an_example(text):
    with pytest.raises(BadUsage, match=r"^--budget: .*is no duration.*60s, 2m or 1\.5h"):
        parse_duration_option(text, "--budget")


@pytest.mark.parametrize(
    ("numbers", "count", "text"),
    [
        ((3,), None, "rank 3"),
        ((1, 2), None, "ranks 1, 2"),
        (range(10), None, "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more"),
        (range(64), 98, "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 90 more"),
    ],
)
def test_of_many_ranks_the_first_are_named_and_the_others_counted(numbers, count, text):
    assert units.format_ranks(numbers, count) == text
