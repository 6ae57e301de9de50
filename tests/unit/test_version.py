from importlib.metadata import version

from typer.testing import CliRunner

from slowstep.cli.main import app


def test_the_version_is_the_installed_one() -> None:
    said = CliRunner().invoke(app, ["--version"])

    assert (said.exit_code, said.output) == (0, f"slowstep {version('slowstep')}\n")
