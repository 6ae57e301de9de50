"""What is known of time that is not in every step, by the names that the report has for it."""

from __future__ import annotations

from enum import StrEnum


class EventName(StrEnum):
    """What an event is."""

    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    EPOCH_CHANGE = "epoch change"
    LOADER_START = "start of the loader"  # the first: it changes no epoch
    TURN = "another optimizer's turn"
    LARGER = "more to compute"
