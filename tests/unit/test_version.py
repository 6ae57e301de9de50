import subprocess
import sys
from importlib.metadata import version

from typer.testing import CliRunner

from slowstep.cli.main import app


def test_the_version_is_the_installed_one() -> None:
    said = CliRunner().invoke(app, ["--version"])

    assert (said.exit_code, said.output) == (0, f"slowstep {version('slowstep')}\n")


def test_the_package_can_be_run_where_the_command_is_not_on_the_path() -> None:
    ended = subprocess.run([sys.executable, "-m", "slowstep", "--version"], capture_output=True, text=True, timeout=60, check=False)

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"slowstep {version('slowstep')}\n", "")
