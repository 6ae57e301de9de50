"""Which steps keep their details once a recording grows big: all, then blocks of 256 steps out of ever more, at random distances."""

from __future__ import annotations

from typing import Final

BLOCK_STEPS: Final = 256


def one_in(used_bytes: int, limit_bytes: int) -> int:
    """Keep the details of one block in so many: 1 below half the limit, 2 up to three quarters, 4 up to seven eighths ..."""
    left = max(limit_bytes - used_bytes, 1)
    return max(1 << ((limit_bytes // left).bit_length() - 1), 1)


class Totals:
    """What is known of steps whose details are left out."""

    __slots__ = ("begin_ns", "first_step", "samples", "unknown")

    def __init__(self, begin_ns: int, first_step: int) -> None:
        self.begin_ns = begin_ns
        self.first_step = first_step
        self.samples = 0
        self.unknown = False

    def add_batch(self, samples: int) -> None:
        """Count one batch of so many samples (-1: unknown)."""
        if samples < 0:
            self.unknown = True
        else:
            self.samples += samples

    @property
    def samples_or_unknown(self) -> int:
        """Samples so far, -1 when some batch did not tell."""
        return -1 if self.unknown else self.samples
