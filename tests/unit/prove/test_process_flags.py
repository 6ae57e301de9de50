"""What of a sandboxed command is known by what its processes told of themselves."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.prove.executor import LiveExecutor
from slowstep.record.launching.command import Command

NOBODY: Any = None


@pytest.mark.parametrize(
    ("program", "flags", "told"),
    [
        ("true", (), ()),
        ("/usr/bin/python3.12", ("python",), ("python",)),
        ("bash", ("python",), None),
        ("bash", ("python", "jax"), ("python", "jax")),
        ("bash", ("python", "torch"), ("python", "torch")),
    ],
    ids=["no Python", "Python without a framework", "a shell that may have started another Python", "JAX", "PyTorch"],
)
def test_that_nothing_trained_is_told_where_nobody_else_can_have(tmp_path: Path, program: str, flags: tuple[str, ...], told: Any) -> None:
    command = Command(words=(program,), path=program, argv=(program,), stem="run")
    executor = LiveExecutor(command, tmp_path, NOBODY, {}, limit_s=1.0)
    executor._page = SimpleNamespace(told=lambda _: flags)  # type: ignore[assignment]

    assert executor._process_flags() == told
