from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slowstep.cli.freed_memory import POLARS, give_back_freed_memory


def test_polars_is_told_before_analyze_imports_it():
    program = (
        "import os, sys; from slowstep.cli.main import main; assert 'polars' not in sys.modules\n"
        "try: main()\n"
        f"except SystemExit: print(os.environ[{POLARS[0]!r}])"
    )
    environment = {name: value for name, value in os.environ.items() if name != POLARS[0]}
    done = subprocess.run(
        [sys.executable, "-c", program, "analyze", "/absent"], capture_output=True, text=True, check=True, env=environment
    )

    assert done.stdout.strip().endswith(POLARS[1])


def test_what_the_user_told_an_allocator_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(POLARS[0], "dirty_decay_ms:70")

    give_back_freed_memory()

    assert os.environ[POLARS[0]] == "dirty_decay_ms:70"
