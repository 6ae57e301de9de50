"""When a failed test is tried once more, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

import busy_retry
from busy_retry import BusyRetry, Load, processors, waiting

pytest_plugins = ["pytester"]

BEFORE = Load(at_s=100.0, cores=2, used_s=50.0, own_s=10.0, waited_s=7.0)
# Ten seconds later: of twenty seconds of the cores others used eight, and something waited in three seconds.
BUSY = Load(at_s=110.0, cores=2, used_s=60.0, own_s=12.0, waited_s=10.0)

FAILS = """
from pathlib import Path
TRIES = Path("tries")
def tried():
    TRIES.write_text((TRIES.read_text() if TRIES.exists() else "") + ".")
    return len(TRIES.read_text())
def test_it():
    {first}
    assert tried() > {failures}
def test_the_next():
    pass
"""


def test_others_that_use_the_cores_while_something_waits_for_one_make_a_machine_busy() -> None:
    assert BUSY.busy_since(BEFORE) == "others used 40% of the cores, and for 30% of the time something waited for one"


@pytest.mark.parametrize(
    "quiet",
    [
        replace(BUSY, own_s=17.0),  # Others used 3 of 20 seconds.
        replace(BUSY, waited_s=8.0),
        replace(BUSY, cores=8),
    ],
    ids=["it is the test's own load", "nothing waits", "there are cores enough"],
)
def test_a_machine_is_quiet_where_others_take_nothing_from_a_test(quiet: Load) -> None:
    assert quiet.busy_since(BEFORE) is None


def test_without_pressure_the_use_of_the_cores_decides() -> None:
    assert replace(BUSY, waited_s=None).busy_since(BEFORE) == "others used 40% of the cores"


def test_the_kernel_s_files_are_read() -> None:
    stat = "cpu  100 20 30 4000 500 6 7 8 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\ncpu1 1 1 1 1 1 1 1 1 0 0\nintr 5\n"

    assert processors(stat) == (2, 1.71)
    assert waiting("some avg10=1.00 avg60=1.00 avg300=1.00 total=2500000\nfull avg10=0.00 total=9\n") == 2.5
    assert Load.now().busy_since(replace(Load.now(), at_s=0.0)) is None


@pytest.fixture
def outcome(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Runs a test that fails so many times, on a machine with that load."""

    def run(failures: int, after: Load, first: str = "pass") -> pytest.RunResult:
        moments = iter([BEFORE, after, BEFORE])
        monkeypatch.setattr(busy_retry.Load, "now", classmethod(lambda _: next(moments)))
        pytester.makepyfile(FAILS.format(failures=failures, first=first))
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-W", "error", plugins=[BusyRetry()])

    return run


def test_on_a_busy_machine_a_failed_test_is_tried_once_more_and_told(outcome: Callable[..., pytest.RunResult]) -> None:
    result = outcome(1, BUSY)

    assert result.ret == 0
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["RETRIED *::test_it (call): others used 40% of the cores, and for 30% *; *assert 1 > 1*"])


def test_what_the_first_try_left_open_is_no_fault_of_the_second(outcome: Callable[..., pytest.RunResult]) -> None:
    result = outcome(1, BUSY, first="kept = open(__file__) if not TRIES.exists() else None")

    assert result.ret == 0
    result.assert_outcomes(passed=2)


def test_on_a_busy_machine_it_may_fail_twice_and_not_three_times(outcome: Callable[..., pytest.RunResult]) -> None:
    result = outcome(2, BUSY)

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["RETRIED *assert 1 > 2", "FAILED *::test_it*"])


def test_on_a_quiet_machine_it_fails_at_once(outcome: Callable[..., pytest.RunResult]) -> None:
    result = outcome(1, replace(BUSY, waited_s=7.5))

    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=1)
    assert "RETRIED" not in result.stdout.str()
