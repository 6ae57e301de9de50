"""The tests that import TensorFlow, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from with_tensorflow import FILES, IN_OWN_PROCESS

HERE = Path(__file__).parent
LIMIT_S = 280


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("file", FILES)
def test_hooks_on_tensorflow_as_installed(file: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", str(HERE / file)]
    ran = subprocess.run(
        words,
        env=environment | {IN_OWN_PROCESS: "1"},
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    if ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED and find_spec("tensorflow") is None:
        pytest.skip("needs keras and tensorflow-cpu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
