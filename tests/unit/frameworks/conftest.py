"""What the tests of frameworks share."""

from __future__ import annotations

from own_process import left_out
from with_tensorflow import FILES

collect_ignore = left_out(FILES)
