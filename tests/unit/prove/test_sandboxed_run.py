"""Making ready a sandboxed training, where that fails."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from slowstep.errors import BadUsage, CommandNotStarted, NoSandbox
from slowstep.prove.sandboxed_run import SandboxedRun, sandboxed_run
from slowstep.record.launching.command import resolve_command

PLACE = {"allow_writes": True, "kind": "none"}


@pytest.mark.parametrize(
    ("words", "changes", "error"),
    [
        (("nothere.py",), {}, BadUsage),
        ((sys.executable,), {"allow_writes": False}, NoSandbox),
    ],
)
def test_nothing_is_left_where_it_cannot_be_made_ready(tmp_path: Path, words: tuple[str, ...], changes: dict[str, Any], error: Any) -> None:
    with pytest.raises(error), sandboxed_run(words, os.environ, out=str(tmp_path / "runs"), **(PLACE | changes)):
        pytest.fail("it was made ready")

    assert list(tmp_path.rglob("*-*")) == []


def test_a_command_that_cannot_be_started_inside_is_a_mistake_and_its_sandbox_is_closed(tmp_path: Path) -> None:
    opened: list[SandboxedRun] = []

    def start() -> None:
        with sandboxed_run((sys.executable,), os.environ, out=str(tmp_path / "runs"), **PLACE) as place:
            opened.append(place)
            assert Path(place.sandbox.places[0]).is_dir()
            raise CommandNotStarted("it is not executable", exit_code=126)

    with pytest.raises(BadUsage, match="it is not executable"):
        start()

    (place,) = opened
    assert not Path(place.sandbox.places[0]).exists()
    assert place.folder.is_dir()


@pytest.mark.parametrize(
    ("kind", "where"), [("overlay", "in an overlay"), ("copy", "in a copy of the working folder"), ("none", "without a sandbox")]
)
def test_where_it_runs_is_said_before_it_begins(kind: str, where: str, tmp_path: Path) -> None:
    sandbox: Any = SimpleNamespace(kind=kind, claims="no file changed")
    place = SandboxedRun(command=resolve_command((sys.executable,), os.environ), folder=tmp_path, sandbox=sandbox, opened=lambda _: sandbox)

    assert place.announced == f"Runs the training {where} and discards its results: no file changed"
