"""The tests that import TensorFlow, in processes of their own."""

from __future__ import annotations

from importlib.util import find_spec
from itertools import groupby
from pathlib import Path

import pytest

from own_process import pass_by_themselves
from with_tensorflow import FILES

HERE = Path(__file__).parent
# Of a minute of work on a quiet machine.
LIMIT_S = 880
# One process for each folder.
TOGETHER = {name: [HERE / file for file in files] for name, files in groupby(FILES, lambda file: file.partition("/")[0])}


@pytest.mark.slow
@pytest.mark.timeout(LIMIT_S + 20)
@pytest.mark.parametrize("files", TOGETHER.values(), ids=TOGETHER)
def test_hooks_on_tensorflow_as_installed(files: list[Path]) -> None:
    are_any = pass_by_themselves(files, limit_s=LIMIT_S)

    if not are_any and find_spec("tensorflow") is None:
        pytest.skip("needs keras and tensorflow-cpu")
    assert are_any
