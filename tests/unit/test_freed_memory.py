from __future__ import annotations

import os
import subprocess
import sys

import pytest

from slowstep.cli import freed_memory
from slowstep.cli.freed_memory import AT_ONCE, LATER, POLARS, give_back_freed_memory


def test_polars_is_told_before_analyze_imports_it():
    program = (
        "import os, sys; from slowstep.cli.main import main; assert 'polars' not in sys.modules\n"
        "try: main()\n"
        f"except SystemExit: print(os.environ[{POLARS!r}])"
    )
    environment = {name: value for name, value in os.environ.items() if name != POLARS}
    done = subprocess.run(
        [sys.executable, "-c", program, "analyze", "/absent"], capture_output=True, text=True, check=True, env=environment
    )

    assert done.stdout.strip().endswith(AT_ONCE.polars)


def test_what_the_user_told_an_allocator_stays(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(POLARS, "dirty_decay_ms:70")

    give_back_freed_memory()

    assert os.environ[POLARS] == "dirty_decay_ms:70"


@pytest.mark.parametrize(
    ("begin", "size", "told"),
    [
        (b'{"', 1000, LATER),
        (b'{"', 999, AT_ONCE),
        (b"\x1f\x8b", 125, LATER),
        (b"\x1f\x8b", 124, AT_ONCE),
        (b"SQLite format 3", 5000, AT_ONCE),
        (b"", 0, AT_ONCE),
    ],
)
def test_only_beside_a_large_trace_freed_memory_may_stay_for_a_while(monkeypatch, tmp_path, begin, size, told):
    monkeypatch.setattr(freed_memory, "LARGE_BYTES", 1000)
    # Set first, so that what is set then is undone.
    monkeypatch.setenv(POLARS, "")
    monkeypatch.delenv(POLARS)
    path = tmp_path / "trace"
    path.write_bytes(begin.ljust(size, b" "))

    give_back_freed_memory(["--json", str(tmp_path), "absent", "\0", str(path)])

    assert os.environ[POLARS] == told.polars
