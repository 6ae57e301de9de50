"""The tests that import TensorFlow, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest

from with_tensorflow import FILES, IN_OWN_PROCESS

HERE = Path(__file__).parent
# Of a minute of work on a quiet machine.
LIMIT_S = 880
# One process for each folder.
TOGETHER = {name: [str(HERE / file) for file in files] for name, files in groupby(FILES, lambda file: file.partition("/")[0])}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("files", TOGETHER.values(), ids=TOGETHER)
def test_hooks_on_tensorflow_as_installed(files: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not nightly", *files]
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
