"""`slowstep demo` puts its script where nobody's is, and says what is missing."""

from __future__ import annotations

import sys

import pytest

from slowstep.cli import commands, demo
from slowstep.errors import BadUsage


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """The command lines that were obeyed, in a folder of its own, with a Python that has PyTorch."""
    lines: list[list[str]] = []

    def obey(words):
        lines.append(words)
        return 7

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(commands, "obey", obey)
    monkeypatch.setattr(demo, "find_python", lambda environ: sys.executable)
    return lines


def test_the_script_is_written_and_recorded_as_any_other(recorded, tmp_path):
    with pytest.raises(demo.typer.Exit) as ended:
        demo.demo()

    assert [(words[0], words[-1]) for words in recorded] == [("run", demo.SCRIPT)]
    assert ended.value.exit_code == 7
    compile((tmp_path / demo.SCRIPT).read_text(), demo.SCRIPT, "exec")


def test_a_script_that_is_there_is_recorded_and_never_written_over(recorded, tmp_path, capsys):
    (tmp_path / demo.SCRIPT).write_text("mended")

    with pytest.raises(demo.typer.Exit):
        demo.demo()

    assert (tmp_path / demo.SCRIPT).read_text() == "mended"
    assert len(recorded) == 1


def test_a_python_without_pytorch_is_named(recorded, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "find_python", lambda environ: str(tmp_path / "no-python"))

    with pytest.raises(BadUsage, match="no-python"):
        demo.demo()

    assert recorded == []
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said(recorded, monkeypatch):
    class Refused(type(demo.Path())):
        def open(self, *arguments, **options):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(demo, "Path", Refused)

    with pytest.raises(BadUsage, match="Permission denied"):
        demo.demo()

    assert recorded == []
