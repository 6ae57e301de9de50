"""Tests that search all objects of their process: 0.1 s each in one that holds little, seconds in one that has imported every framework and
collected every test. They are run in a process of their own, by `unit/test_small_heap.py`.
"""

from __future__ import annotations

from typing import Final

# Below `unit`.
FILES: Final = ("levers/calls/test_intercept.py", "levers/calls/test_targets.py", "record/test_living.py")
