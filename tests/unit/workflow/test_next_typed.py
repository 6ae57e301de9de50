"""A command is typed from the script's folder where it starts the script, whatever its words."""

from __future__ import annotations

from pathlib import Path

import pytest

from slowstep.document.next_step import NextStep
from slowstep.workflow.next_command.command_lines import from_its_folder, of_script


@pytest.mark.parametrize("starts_script", [True, False])
@pytest.mark.parametrize("command", ["slowstep run train.py", "torchrun train.py"])
def test_only_what_starts_the_script_is_typed_from_its_folder(tmp_path: Path, command: str, starts_script: bool) -> None:
    step = from_its_folder(NextStep(command=command, starts_script=starts_script, folder=str(tmp_path)))

    assert step.command == (f"cd {tmp_path} && {command}" if starts_script else command)


def test_a_command_that_is_not_known_starts_nothing() -> None:
    assert of_script(None, "let it train longer") == NextStep(first="let it train longer")
