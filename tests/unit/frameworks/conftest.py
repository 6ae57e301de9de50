"""What the tests of frameworks share."""

from __future__ import annotations

from pathlib import Path

import pytest

# They import TensorFlow, which takes ten seconds and 700 MB of each process, and are slow: where only quick tests run, nobody imports it.
WITH_TENSORFLOW = ("keras/test_fit.py", "tensorflow/test_results.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_quick = "not slow" in (config.getoption("markexpr") or "")
    return True if is_quick and collection_path.as_posix().endswith(WITH_TENSORFLOW) else None
