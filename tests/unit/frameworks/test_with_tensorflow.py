"""The tests that import TensorFlow, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMIT_S = 280


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize(
    "file", ["keras/test_fit.py", "tensorflow/test_pipelines.py", "tensorflow/test_results.py", "test_missing_names.py"]
)
def test_hooks_on_tensorflow_as_installed(file: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", str(HERE / file)]
    ran = subprocess.run(
        words,
        env=environment | {"SLOWSTEP_TESTS_WITH_TENSORFLOW": "1"},
        cwd=HERE.parents[2],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    if ran.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip("needs keras and tensorflow-cpu")
    assert ran.returncode == 0, ran.stdout + ran.stderr
