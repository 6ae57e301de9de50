from __future__ import annotations

import subprocess
import sys

import pytest

TOLD = "import atexit; from slowstep.record.timing.tracebacks import uncaught; atexit.register(lambda: print(uncaught()))\n"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("pass", None),
        ("raise SystemExit(1)", None),
        ("raise ValueError", "ValueError"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGINT)", "KeyboardInterrupt"),
        ("try:\n    raise ValueError\nexcept ValueError:\n    pass", None),
    ],
    ids=["well", "left", "an error", "interrupted", "caught"],
)
def test_at_its_end_a_process_knows_what_nobody_caught(code: str, kind: str | None) -> None:
    ran = subprocess.run([sys.executable, "-c", TOLD + code], capture_output=True, text=True, check=False)

    assert ran.stdout == f"{kind}\n"
