"""What of a step was its input, from the records of a training: its own iterators, and no validation's."""

from __future__ import annotations

import numpy as np

from slowstep.prove.stats.readings import input_times
from slowstep.record.writing import format as fmt
from slowstep.sources._recording.records import DTYPE

TRAINS, VALIDATES, NEXT = 1, 2, 3
THREAD, OTHER = 10, 11


def records(*rows):
    """Of rows: kind, t0, t1, iterator, flags, thread."""
    found = np.zeros(len(rows), DTYPE)
    for at, (kind, t0, t1, a, flags, thread) in enumerate(rows):
        found[at] = (t0, t1, a, 0, 0, thread, flags, 0, kind)
    return found


def wait(t0, t1, iterator, flags=0, thread=THREAD):
    return (fmt.WAIT, t0, t1, iterator, flags, thread)


# Three steps of 100 ns; the second ends an epoch, and a validation lies in it.
ARMS = records(*((fmt.ARM, at, at + 100, 0, 0, THREAD) for at in (1000, 1100, 1200)))


def test_what_the_training_waited_for_is_told_by_step():
    found = input_times(ARMS, records(wait(1000, 1007, TRAINS), wait(1100, 1120, TRAINS), wait(1210, 1215, TRAINS)))

    assert found.tolist() == [7, 20, 5]


def test_the_change_of_an_epoch_is_input_and_the_validation_in_it_is_not():
    spans = records(
        wait(1000, 1001, TRAINS),
        wait(1100, 1102, TRAINS, fmt.END),
        (fmt.SHUTDOWN, 1102, 1106, fmt.NO_ITERATOR, 0, THREAD),
        (fmt.START, 1106, 1110, VALIDATES, 0, THREAD),
        wait(1110, 1130, VALIDATES),
        wait(1130, 1150, VALIDATES),
        wait(1150, 1160, VALIDATES, fmt.END),
        (fmt.START, 1160, 1168, NEXT, 0, THREAD),
        wait(1168, 1184, NEXT),
        wait(1200, 1203, NEXT),
        wait(1300, 1400, NEXT),
    )

    # The iterator of the first epoch gave one batch here: what it took then is not known to be the training's.
    assert input_times(ARMS, spans).tolist() == [0, 4 + 8 + 16, 3]


def test_other_threads_do_not_keep_the_training():
    assert input_times(ARMS, records(*(wait(at, at + 50, TRAINS, thread=OTHER) for at in (1000, 1100)))).tolist() == [0, 0, 0]


def test_only_what_lies_in_a_step_counts():
    spans = records(wait(900, 1010, TRAINS), wait(1100, 1101, TRAINS))

    assert input_times(ARMS, spans).tolist() == [10, 1, 0]


def test_without_steps_or_input_there_is_nothing():
    assert input_times(ARMS[:0], records(wait(1, 2, TRAINS))).tolist() == []
    assert input_times(ARMS, records()).tolist() == [0, 0, 0]
