"""Enters a sandbox for a trial, in a process of its own, before anything of the user's runs in it."""

from __future__ import annotations

import os
import subprocess
from typing import Any, Final

from slowstep.prove.sandbox.helper import helper
from slowstep.prove.sandbox.opened import Impossible
from slowstep.prove.sandbox.spec import EntrySpec
from slowstep.record.launching.isolated import printed_answer

LIMIT_S: Final = 30.0


def try_out(spec: EntrySpec) -> dict[str, Any]:
    """`closed` and `write_mb_per_s`, as seen inside. Raises Impossible with what the kernel said."""
    path = os.path.join(spec.scratch, "trial.json")
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(spec.dumps())
        words = helper("slowstep.prove.sandbox.inside", path)
        ended = subprocess.run(words, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except OSError as error:
        raise Impossible(f"the trial cannot be started: {error}") from error
    except subprocess.TimeoutExpired:
        raise Impossible(f"the trial took longer than {LIMIT_S:.0f} s") from None
    try:
        answer = printed_answer(ended)
    except ValueError as last:
        raise Impossible(f"the trial failed ({last})") from None
    if "error" in answer:
        raise Impossible(answer["error"])
    return answer
