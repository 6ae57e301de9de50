from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from few import few
from slowstep.record.framework import control_flags
from slowstep.record.injection.inject import injected_environment, remove_injection, write_injection
from slowstep.record.writing.control import ControlPage

PYTHONS = ["python2", "python3.8", "python3.10", "python3.11", "python3.12", "python3.13", "python3.14"]
REPORT = "import sys; print(sys.path, sorted(set(sys.modules)), 'sitecustomize' in sys.modules)"


def environment(tmp_path: Path, theirs: str | None = None) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | ({"PYTHONPATH": theirs} if theirs else {})
    inject = write_injection(str(tmp_path))
    return injected_environment(plain, folder=str(tmp_path), inject=inject, level=1, steps=None, seconds=None)


def run(code: str, env: dict[str, str], python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    return subprocess.run([python, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=False)


def without_injection(env: dict[str, str], theirs: str | None = None) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != "PYTHONPATH"} | ({"PYTHONPATH": theirs} if theirs else {})


def test_the_injected_folder_is_private_and_holds_one_file(tmp_path: Path) -> None:
    folder = Path(write_injection(str(tmp_path)))

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert os.listdir(folder) == ["sitecustomize.py"]


def test_nothing_is_left_of_it(tmp_path: Path) -> None:
    write_injection(str(tmp_path))
    (tmp_path / "control").touch()

    remove_injection(str(tmp_path))
    remove_injection(str(tmp_path))

    assert os.listdir(tmp_path) == []


def test_an_existing_pythonpath_is_kept_behind() -> None:
    env = injected_environment({"PYTHONPATH": "/a:/b"}, folder="/r", inject="/r/inject", level=2, steps=7, seconds=1.5)

    assert env == {
        "PYTHONPATH": "/r/inject:/a:/b",
        "SLOWSTEP_RECORDING": "/r",
        "SLOWSTEP_LEVEL": "2",
        "SLOWSTEP_STEPS": "7",
        "SLOWSTEP_SECONDS": "1.5",
    }


def test_an_empty_pythonpath_does_not_become_the_current_folder() -> None:
    env = injected_environment({"PYTHONPATH": ""}, folder="/r", inject="/r/inject", level=1, steps=None, seconds=None)

    assert env["PYTHONPATH"] == "/r/inject"


def test_the_limits_of_a_recording_around_this_one_are_not_inherited() -> None:
    outer = {"SLOWSTEP_RECORDING": "/outer", "SLOWSTEP_STEPS": "5"}

    env = injected_environment(outer, folder="/r", inject="/r/inject", level=1, steps=None, seconds=None)

    assert env["SLOWSTEP_RECORDING"] == "/r"
    assert "SLOWSTEP_STEPS" not in env


@pytest.mark.parametrize("python", few(PYTHONS, every=4))
def test_a_process_that_imports_no_framework_sees_no_difference(tmp_path: Path, python: str) -> None:
    found = shutil.which(python)
    if found is None or subprocess.run([found, "-c", "pass"], capture_output=True, timeout=60, check=False).returncode:
        pytest.skip(f"no {python} here")
    env = environment(tmp_path)

    recorded = run(REPORT, env, found)

    plain = run(REPORT, without_injection(env), found)
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("pass", ("python",)),
        ("import torch", ("python", "torch")),
        ("import jax, tensorflow", ("python", "jax", "tensorflow")),
        # Libraries look whether a framework is installed: that is no import.
        ("import importlib.util; importlib.util.find_spec('jax')", ("python",)),
        ("import importlib.util; importlib.util.find_spec('torch')", ("python",)),
        ("import importlib.util; importlib.util.find_spec('torch'); import jax", ("python", "jax")),
        ("import importlib.util; importlib.util.find_spec('jax'); import broken_torch", ("python", "torch")),
        # One whose import fails is none that trains; of torch the attempt counts, as it may be ended in the midst of it.
        ("import broken_torch", ("python", "torch")),
    ],
)
def test_what_a_process_imports_is_told_before_it_trains(tmp_path: Path, code: str, told: tuple[str, ...]) -> None:
    for name in ("torch", "jax", "tensorflow"):
        (tmp_path / f"{name}.py").write_text("import os\nif 'KILLED' in os.environ: os._exit(9)\n")
    (tmp_path / "broken_torch.py").write_text("import os\nos.environ['KILLED'] = '1'\nimport torch\n")
    page = ControlPage(str(tmp_path))
    env = environment(tmp_path, str(tmp_path))

    ended = run(code, env)

    assert ended.stderr == ""
    assert page.told(control_flags()) == told
    page.close()


def test_the_users_own_sitecustomize_is_run_as_if_it_were_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("import sys\nVALUE = 5\nprint('theirs', __file__, __name__, sys.path)\n")
    env = environment(tmp_path, str(theirs))
    code = "import sitecustomize; print(sitecustomize.VALUE, sitecustomize.__file__)"

    recorded = run(code, env)

    plain = run(code, without_injection(env, str(theirs)))
    assert "theirs" in plain.stdout
    assert (recorded.stdout, recorded.stderr) == (plain.stdout, plain.stderr)


def test_an_error_in_the_users_own_sitecustomize_is_told_as_always(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "sitecustomize.py").write_text("1 / 0\n")
    env = environment(tmp_path, str(theirs))

    recorded = run("pass", env)

    plain = run("pass", without_injection(env, str(theirs)))
    assert "ZeroDivisionError" in plain.stderr
    assert (recorded.returncode, recorded.stderr) == (0, plain.stderr)


def test_a_damaged_recorder_does_not_reach_the_training(tmp_path: Path) -> None:
    env = environment(tmp_path)
    script = tmp_path / "inject" / "sitecustomize.py"
    script.write_text(script.read_text().replace("imports.py", "no_such_file.py"))
    (tmp_path / "torch.py").write_text("print('torch')\n")

    recorded = run(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import torch", env)

    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (0, "torch\n", "")
