from __future__ import annotations

import pytest

from slowstep.record.launching.overdue import RECORDER_S, START_UP_S, is_overdue
from slowstep.record.writing.control import ControlPage
from slowstep.record.writing.page import Page

S = 1_000_000_000
STARTED_NS = 5 * S


@pytest.fixture
def pages(tmp_path):
    launcher = ControlPage(str(tmp_path))
    yield launcher, Page(str(tmp_path))
    launcher.close()


def after(seconds: float) -> int:
    return STARTED_NS + int(seconds * S)


def test_without_a_time_nothing_is_overdue(pages):
    launcher, recorded = pages
    recorded.publish(1, STARTED_NS)

    assert not is_overdue(launcher, None, after(10**6), waiting_since_ns=STARTED_NS)


def test_the_time_counts_from_the_first_update_and_not_from_a_backward_before_it(pages):
    launcher, recorded = pages
    recorded.publish_backward(STARTED_NS)
    recorded.publish(1, after(30))

    assert not is_overdue(launcher, 40, after(30 + 40), waiting_since_ns=STARTED_NS)
    assert is_overdue(launcher, 40, after(30 + 41 + RECORDER_S), waiting_since_ns=STARTED_NS)


def test_where_no_update_is_seen_it_counts_from_the_first_backward(pages):
    launcher, recorded = pages
    recorded.publish_backward(after(300))
    recorded.publish_backward(after(330))

    assert not is_overdue(launcher, 40, after(300 + 40))
    assert is_overdue(launcher, 40, after(300 + 41 + RECORDER_S))


def test_where_nothing_is_seen_only_a_command_that_is_to_be_ended_is_given_up(pages):
    launcher, _ = pages

    assert not is_overdue(launcher, 40, after(10**6))
    assert not is_overdue(launcher, 40, after(40 + START_UP_S), waiting_since_ns=STARTED_NS)
    assert is_overdue(launcher, 40, after(41 + START_UP_S), waiting_since_ns=STARTED_NS)
