"""What was seen of the training's own loader: how it gives its batches where nobody changes anything."""

from __future__ import annotations

import statistics
from collections import deque
from typing import Any, Final

from slowstep.frameworks.torch.inside.levers._input.stream import READINGS, Usual
from slowstep.record.recorder import now
from slowstep.record.timing.batches import bytes_in

# Batches that are looked at before anything is changed.
ENOUGH: Final = 16


class SeenBatches:
    """`received` counts its batches. `batch_bytes` is the size of the first one, None before it; `slowest_ns` the longest request."""

    def __init__(self) -> None:
        self.usual = Usual()
        self.received = 0
        self.slowest_ns = 0
        self.batch_bytes: int | None = None
        self.receipts_ns: deque[int] = deque(maxlen=READINGS)
        self._requests_ns: deque[int] = deque(maxlen=READINGS)
        self._undisturbed = 0

    def look(self, batch: Any, ready: int | None, spent_ns: int, *, is_settled: bool) -> None:
        """A batch was given after so long, where so many lay ready; `is_settled`: nothing of ours had an influence on it."""
        self.received += 1
        if self.batch_bytes is None:
            self.batch_bytes = max(bytes_in(batch), 0)
        if is_settled:
            self._undisturbed += 1
            self.usual.add(ready, now(), spent_ns)
            self.slowest_ns = max(self.slowest_ns, spent_ns)
            self._requests_ns.append(spent_ns)

    def is_enough(self) -> bool:
        """Whether it is known how the loader does."""
        return self._undisturbed >= ENOUGH

    @property
    def request_ns(self) -> int | None:
        """What a request for a batch usually takes: without workers, the making of it. None before the first."""
        return int(statistics.median(self._requests_ns)) if self._requests_ns else None

    @property
    def receipt_ns(self) -> int | None:
        """What the receipt of a batch takes that lies ready; None where none was seen to lie ready."""
        # A mean, as gains are, but of a dozen one may have met something else: the longest tenth is left out.
        lengths = sorted(self.receipts_ns)[: max(len(self.receipts_ns) * 9 // 10, 1)]
        return int(statistics.mean(lengths)) if lengths else None
