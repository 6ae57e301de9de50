import subprocess
import sys
from importlib.metadata import version

import pytest
from typer.testing import CliRunner

from slowstep.cli.commands import app


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_the_installed_one(option: str) -> None:
    said = CliRunner().invoke(app, [option])

    assert (said.exit_code, said.output) == (0, f"slowstep {version('slowstep')}\n")


def test_the_package_can_be_run_where_the_command_is_not_on_the_path() -> None:
    ended = subprocess.run([sys.executable, "-m", "slowstep", "--version"], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"slowstep {version('slowstep')}\n", "")
