"""How a process finds its recording, and what it loads."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

import slowstep
from few import few
from recorded import make_folder
from slowstep import frameworks
from slowstep.record.hook import Hook
from slowstep.record.injection import install_hooks
from slowstep.record.patch import Unfit, find, replace
from slowstep.record.recorder import Recorder
from slowstep.record.writing.format import ENV_DISABLE, ENV_LEVEL, ENV_RECORDING, ENV_STEPS

pytestmark = pytest.mark.usefixtures("small_heap")
SOURCES = str(Path(slowstep.__file__).parents[1])


def python(code: str, *, wrapper: tuple[str, ...] = (), **variables: str) -> str:
    """What a fresh interpreter prints."""
    # Recorders of other tests may not have been collected, and this process is an ancestor.
    gc.collect()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLOWSTEP")} | {"PYTHONPATH": SOURCES}
    command = [*wrapper, sys.executable, "-c", code]
    done = subprocess.run(command, env=environment | variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


ACTIVE = "import slowstep.auto; from slowstep.record.active import active; a = active(); print(a and (a.folder, a.level, a.steps))"


def test_the_environment_names_the_recording(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "recording")

    assert python(ACTIVE, **{ENV_RECORDING: folder, ENV_LEVEL: "2", ENV_STEPS: "7"}) == str((folder, 2, 7))


@pytest.mark.parametrize("change", few(["no variable", "no folder", "disabled", "stopped", "nonsense"], every=3))
def test_anything_else_is_no_recording(change: str, tmp_path: Path) -> None:
    variables = {ENV_RECORDING: make_folder(tmp_path / "recording")}
    if change == "no variable":
        variables = {}
    elif change == "no folder":
        variables[ENV_RECORDING] += "-gone"
    elif change == "disabled":
        variables[ENV_DISABLE] = "1"
    elif change == "stopped":
        (tmp_path / "recording" / "control").write_bytes(bytes(4096))
    else:
        variables[ENV_LEVEL] = "high"

    assert python(ACTIVE, **variables) == "None"
    assert not list(tmp_path.glob("recording/*.rec"))


def test_a_wiped_environment_is_found_again_in_an_ancestors(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "recording")
    wiped = f"import os, subprocess, sys; print(subprocess.run([sys.executable, '-c', {ACTIVE!r}], env={{'PYTHONPATH': {SOURCES!r}}}, "
    wiped += "capture_output=True, text=True).stdout)"

    assert python(wiped, **{ENV_RECORDING: folder, ENV_LEVEL: "2"}) == str((folder, 2, None))


def test_a_wiped_environment_is_found_again_by_the_launchers_open_files(tmp_path: Path) -> None:
    folder = make_folder(tmp_path / "recording")
    launcher = f"import subprocess, sys; kept = open({folder + '/control'!r}); "
    launcher += f"print(subprocess.run([sys.executable, '-c', {ACTIVE!r}], capture_output=True, text=True).stdout)"

    assert python(launcher) == str((folder, 1, None))


def test_what_no_ancestor_knows_is_no_recording() -> None:
    assert python(ACTIVE) == "None"


def test_recording_loads_nothing_but_the_standard_library(tmp_path: Path) -> None:
    code = "import slowstep.auto, sys, json; print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))"

    loaded = set(json.loads(python(code, **{ENV_RECORDING: make_folder(tmp_path / "recording")})))

    assert {name for name in loaded - sys.stdlib_module_names if not name.startswith("_")} <= {"slowstep", "sitecustomize", "usercustomize"}


def test_importing_the_package_alone_loads_none_of_its_modules() -> None:
    code = "import slowstep, sys; print([name for name in sys.modules if name.startswith('slowstep.')])"

    assert python(code) == "[]"


def test_the_public_names_are_these() -> None:
    assert slowstep.__all__ == ["__version__", "data", "record", "span", "start", "steps", "stop"]
    assert all(getattr(slowstep, name) for name in slowstep.__all__)
    with pytest.raises(AttributeError, match="no_such_name"):
        slowstep.no_such_name  # noqa: B018


def test_every_hook_has_its_own_name_and_a_docstring(tmp_path: Path) -> None:
    notes = list[object]()
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.introduce = notes.append  # type: ignore[method-assign, assignment]

    hooks = install_hooks.discovered(recorder)

    assert notes == []
    assert len({hook.name for hook in hooks}) == len(hooks) >= 8
    assert all(sys.modules[hook.install.__module__].__doc__ for hook in hooks)


def test_a_hook_whose_file_is_broken_is_off_and_the_others_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder := tmp_path / "frameworks" / "another" / "inside").mkdir(parents=True)
    for package in (folder.parent, folder):
        (package / "__init__.py").touch()
    (folder / "half_done.py").write_text("1 / 0")
    monkeypatch.setattr(frameworks, "__path__", [*frameworks.__path__, str(tmp_path / "frameworks")])
    notes = list[dict[str, str]]()
    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    recorder.introduce = notes.append  # type: ignore[method-assign, assignment]

    hooks = install_hooks.discovered(recorder)

    assert "torch_optimizer" in {hook.name for hook in hooks}
    assert [(note["name"], note["state"]) for note in notes] == [("another.inside.half_done", "off")]


def test_a_hook_that_does_not_fit_is_off_and_the_next_is_on(tmp_path: Path) -> None:
    def unfit(recorder: Recorder) -> install_hooks.Undo:
        raise Unfit("torch has no such thing")

    def broken(recorder: Recorder) -> install_hooks.Undo:
        raise KeyError("surprise")

    def fit(recorder: Recorder) -> install_hooks.Undo:
        return lambda: None

    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    for name, install in (("one", unfit), ("two", broken), ("three", fit)):
        install_hooks.install_one(recorder, Hook(name=name, module="sys", install=install))
    recorder.ensure_open()
    recorder.stop("exit")

    notes = [json.loads(line) for line in next((tmp_path / "recording").glob("*-*.jsonl")).read_text().splitlines()]
    assert [(note["name"], note["state"], note["reason"]) for note in notes if note["kind"] == "hook"] == [
        ("one", "off", "torch has no such thing"),
        ("two", "off", "KeyError: 'surprise'"),
        ("three", "on", None),
    ]


@pytest.mark.parametrize("kind", [Unfit, KeyError, KeyboardInterrupt])
def test_a_hook_that_fails_half_way_leaves_no_patch(tmp_path: Path, kind: type[BaseException]) -> None:
    owner = SimpleNamespace(first=1, second=2, kept=3)

    def half(recorder: Recorder) -> install_hooks.Undo:
        replace(owner, "first", None)
        replace(owner, "second", None)
        raise kind

    recorder = Recorder(make_folder(tmp_path / "recording"), level=0)
    undo = replace(owner, "kept", None)
    with suppress(KeyboardInterrupt):
        install_hooks.install_one(recorder, Hook(name="half", module="sys", install=half))

    assert vars(owner) == {"first": 1, "second": 2, "kept": None}
    undo()
    assert owner.kept == 3


class Base:
    value = 1


class Derived(Base):
    own = 2


def test_a_replaced_attribute_comes_back() -> None:
    before = dict(vars(Derived))

    undos = [replace(Derived, "own", 3), replace(Derived, "value", 4)]
    assert (Derived.own, Derived.value) == (3, 4)
    for undo in undos:
        undo()

    assert dict(vars(Derived)) == before


def test_what_somebody_else_has_put_there_since_is_left_alone() -> None:
    undo = replace(Derived, "own", 3)
    Derived.own = 5

    undo()

    assert Derived.own == 5
    Derived.own = 2


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1), (0, 2, 1), (1, 2, 0), (2, 1, 0)])
def test_replacements_of_one_thing_are_undone_in_any_order(order: tuple[int, ...]) -> None:
    undos = [replace(Derived, "own", [number]) for number in range(3)]

    for number in order[:2]:
        undos[number]()

    assert Derived.own == [order[2]]
    undos[order[2]]()
    assert Derived.own == 2


def test_a_missing_part_of_a_framework_is_named() -> None:
    with pytest.raises(Unfit, match=r"Derived has no other\.deep"):
        find(Derived, "other.deep")
