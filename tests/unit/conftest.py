"""What unit tests share."""

from __future__ import annotations

from own_process import left_out
from small_heap import FILES

collect_ignore = left_out(FILES)
