"""`slowstep run` through what people start their trainings with: uv, poetry, pipx, conda; and in other environments.

The environments here have the torch of `small_torch`; the real one is imported by `test_a_real_torch_in_another_environment`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from launching import Ended, Workplace
from small_torch import write_small_torch

STEPS = 20
TRAINING = f"""
import importlib.util, sys
import torch
optimizer = torch.optim.Optimizer()
for _ in range({STEPS}):
    optimizer.step()
found = [name for name in ("polars", "numpy", "rich", "typer") if importlib.util.find_spec(name)]
print(sys.prefix, "%d.%d" % sys.version_info[:2], found, sys.argv[1:])
"""


def make_environment(folder: Path, python: str = sys.executable) -> Path:
    """A virtual environment with the small torch and nothing else; not even pip."""
    subprocess.run([python, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=60)
    (site,) = (folder / "lib").glob("python*/site-packages")
    write_small_torch(site)
    return folder


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_environment(tmp_path_factory.mktemp("launchers") / "env")


@pytest.fixture
def work(work: Workplace) -> Workplace:
    work.write("train.py", TRAINING)
    return work


def assert_recorded(work: Workplace, ended: Ended, environment: Path, *arguments: str) -> None:
    """The training ran in its own environment, found nothing of ours in it, and every update is recorded."""
    assert ended.code == 0, ended.err
    assert ended.out.splitlines()[-1].startswith(f"{environment} ")
    assert ended.out.splitlines()[-1].endswith(f"[] {list(arguments)}")
    assert work.updates() == STEPS
    assert "steps" in ended.err


def tool(name: str) -> str:
    """The path of a program, or skip."""
    found = shutil.which(name) or shutil.which(name, path=os.path.dirname(sys.executable))
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


@pytest.mark.slow
def test_slowstep_in_another_environment_than_the_script(work: Workplace, environment: Path) -> None:
    ended = work.run(str(environment / "bin" / "python"), "train.py", "--epochs", "3")

    assert_recorded(work, ended, environment, "--epochs", "3")


@pytest.mark.slow
@pytest.mark.parametrize("variable", ["CONDA_PREFIX", "VIRTUAL_ENV"])
def test_a_script_alone_runs_in_the_active_environment(work: Workplace, environment: Path, variable: str) -> None:
    path = f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"

    ended = work.run("train.py", env=work.environment(**{variable: str(environment), "PATH": path}))

    assert_recorded(work, ended, environment)


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["import", pytest.param("exec", marks=pytest.mark.slow)])
def test_an_entry_point_such_as_pipx_installs(work: Workplace, environment: Path, shape: str) -> None:
    # What pip writes for a console script, and pipx links to from a folder on PATH.
    (site,) = (environment / "lib").glob("python*/site-packages")
    (site / "trainer.py").write_text("def main():\n" + "".join(f"    {line}\n" for line in TRAINING.strip().splitlines()))
    first = f"#!{environment / 'bin' / 'python'}"
    if shape == "exec":
        # For paths too long, or with a space in them.
        first = f"#!/bin/sh\n'''exec' \"{environment / 'bin' / 'python'}\" \"$0\" \"$@\"\n' '''"
    work.write("train-it", f"{first}\nimport sys\nfrom trainer import main\nsys.exit(main())\n", 0o755)
    folder = work.folder / "local-bin"
    folder.mkdir()
    (folder / "train-it").symlink_to(work.folder / "train-it")

    ended = work.run("train-it", "--fast", env=work.environment(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}"))

    assert_recorded(work, ended, environment, "--fast")


@pytest.mark.slow
def test_conda_run_by_a_stand_in(work: Workplace, environment: Path) -> None:
    # conda is not on PyPI. `conda run` writes a script that activates the environment and runs the command, and starts a shell with it.
    work.write(
        "conda",
        f"""#!/bin/sh
test "$1 $2 $3" = "run -n training" || exit 64
shift 3
script=$(mktemp)
printf '. "%s"\\n"$@"\\n' "{work.folder}/activate" > "$script"
bash "$script" "$@"
code=$?
rm "$script"
exit $code
""",
        0o755,
    )
    work.write("activate", f'export CONDA_PREFIX="{environment}" CONDA_DEFAULT_ENV=training PATH="{environment}/bin:$PATH"\n')

    ended = work.run("./conda", "run", "-n", "training", "python", "train.py", "-x")

    assert_recorded(work, ended, environment, "-x")


@pytest.mark.slow
def test_uv_run(work: Workplace, environment: Path) -> None:
    words = [tool("uv"), "run", "--offline", "--no-project", "--python", str(environment / "bin" / "python"), "train.py", "-x"]

    ended = work.run(*words, env=work.environment(UV_CACHE_DIR=str(work.temp / "uv"), UV_NO_CACHE="1"))

    assert_recorded(work, ended, environment, "-x")


@pytest.mark.slow
def test_poetry_run(work: Workplace, environment: Path) -> None:
    poetry = tool("poetry")
    work.write("pyproject.toml", '[tool.poetry]\nname = "training"\nversion = "1"\ndescription = ""\nauthors = []\npackage-mode = false\n')
    variables = {"VIRTUAL_ENV": str(environment), "PATH": f"{environment / 'bin'}{os.pathsep}{os.environ['PATH']}"}
    caches = {name: str(work.temp / "poetry") for name in ("POETRY_CACHE_DIR", "POETRY_CONFIG_DIR", "POETRY_DATA_DIR")}

    ended = work.run(poetry, "run", "python", "train.py", "-x", env=work.environment(**variables, **caches))

    assert_recorded(work, ended, environment, "-x")


def other_pythons() -> list[str]:
    """Interpreters of other minor versions that this machine has, one of each."""
    found: dict[str, str] = {}
    for minor in range(11, 15):
        if minor == sys.version_info.minor:
            continue
        candidates = [shutil.which(f"python3.{minor}"), *sorted(map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")))]
        for candidate in filter(None, candidates):
            # A shim of pyenv is there for versions that are not chosen.
            probe = subprocess.run([candidate, "-c", "import venv"], capture_output=True, timeout=30, check=False)
            if probe.returncode == 0:
                found.setdefault(f"3.{minor}", candidate)
    return list(found.values())


@pytest.mark.slow
def test_a_script_whose_environment_has_another_python(work: Workplace, tmp_path: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("this machine has no Python >= 3.11 of another minor version")
    for python in pythons:
        version = subprocess.run(
            [python, "-c", "import sys; print('3.%d' % sys.version_info[1])"], capture_output=True, text=True, check=True
        )
        environment = make_environment(tmp_path / f"env{version.stdout.strip()}", python)

        ended = work.run(str(environment / "bin" / "python"), "train.py")

        assert_recorded(work, ended, environment)
        assert f" {version.stdout.strip()} " in ended.out
        shutil.rmtree(work.runs)


@pytest.mark.slow
def test_a_real_torch_in_another_environment(work: Workplace, tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    environment = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True, timeout=60)
    (site,) = (environment / "lib").glob("python*/site-packages")
    # torch and what it imports, without a second installation and without what slowstep needs.
    ours = Path(torch.__file__).parents[1]
    needed = [
        "torch",
        "torchgen",
        "functorch",
        "typing_extensions.py",
        "sympy",
        "mpmath",
        "filelock",
        "fsspec",
        "jinja2",
        "markupsafe",
        "networkx",
    ]
    for name in needed:
        if (ours / name).exists():
            (site / name).symlink_to(ours / name)
    work.write(
        "train.py",
        f"""
import importlib.util, sys
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.utils.data.TensorDataset(torch.zeros({4 * STEPS}, 8), torch.zeros({4 * STEPS}, 1))
for inputs, targets in torch.utils.data.DataLoader(data, batch_size=4, num_workers=1):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(inputs), targets).backward()
    optimizer.step()
found = [name for name in ("polars", "numpy", "rich", "typer") if importlib.util.find_spec(name)]
print(sys.prefix, "%d.%d" % sys.version_info[:2], found, sys.argv[1:])
""",
    )

    ended = work.run(str(environment / "bin" / "python"), "train.py")

    assert_recorded(work, ended, environment)
