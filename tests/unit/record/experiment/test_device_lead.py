"""When the device's updates are waited for by a thread, and when at once."""

from __future__ import annotations

import threading

from slowstep.record.experiment.device_lead import DeviceLead


class Update:
    """What an update gave: it notes which thread asks it, and is there or gone."""

    def __init__(self, *, is_there: bool) -> None:
        self.is_there, self.asked_by = is_there, list[bool]()

    def wait(self) -> bool:
        self.asked_by.append(threading.current_thread() is threading.main_thread())
        return self.is_there


def first_asked_here(lead: DeviceLead, update: Update) -> bool:
    """Whether the thread that begins a block is the first to ask."""
    lead.updated(update.wait)
    lead.watch_begin()
    lead.watch_end()
    lead.edges_ns()
    return update.asked_by[0]


def test_the_training_thread_does_not_wait_where_a_block_begins() -> None:
    lead = DeviceLead()

    assert [first_asked_here(lead, Update(is_there=True)) for _ in range(2)] == [False, False]


def test_once_an_update_was_given_away_the_next_ones_are_asked_at_once() -> None:
    lead = DeviceLead()

    assert [first_asked_here(lead, Update(is_there=False)), first_asked_here(lead, Update(is_there=True))] == [False, True]
    assert lead.edges_ns() is not None
