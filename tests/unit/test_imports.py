"""What runs inside a training must stay light: a fresh interpreter imports it and looks at what came along."""

from __future__ import annotations

import inspect
import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import slowstep
from slowstep.workflow.sessions import session

HEAVY = [
    "polars",
    "numpy",
    "torch",
    "rich",
    "typer",
    "msgspec",
    "slowstep.document",
    "slowstep.report",
    "slowstep.timeline",
    "slowstep.analyses",
    "slowstep.cli",
]
INSIDE = ["slowstep.record", "slowstep.levers"]
FRAMEWORKS = Path(slowstep.__path__[0], "frameworks")
INSIDE += sorted(f"slowstep.frameworks.{folder.parent.name}.inside" for folder in FRAMEWORKS.glob("*/inside"))

PROBE = """
import importlib, json, sys
names, heavy = json.loads(sys.argv[1])
for name in names:
    importlib.import_module(name)
    print(json.dumps([name, [module for module in heavy if module in sys.modules]]))
"""


def _inside_the_training() -> list[str]:
    root = Path(slowstep.__path__[0])
    names = ["slowstep"]
    for package in INSIDE:
        folder = root.joinpath(*package.split(".")[1:])
        assert folder.is_dir(), f"{package} is not there any more, and nothing of it would be looked at"
        names += [package, *(info.name for info in pkgutil.walk_packages([str(folder)], f"{package}."))]
    assert (root / "auto.py").exists()
    return [*names, "slowstep.auto"]


def _fresh(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SLOWSTEP", "PYTHON"))}
    environment["PYTHONPATH"] = str(Path(slowstep.__path__[0]).parent)
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_nothing_that_runs_inside_a_training_brings_anything_heavy_along():
    names = _inside_the_training()

    done = _fresh("-c", PROBE, json.dumps([names, HEAVY]))

    assert done.returncode == 0, done.stderr
    brought = dict(json.loads(line) for line in done.stdout.splitlines())
    assert list(brought) == names
    assert {name: modules for name, modules in brought.items() if modules} == {}


def test_what_begins_a_recording_in_a_process_brings_nothing_of_its_launcher_along():
    names = ["slowstep.auto", "slowstep.record.injection.install_hooks"]

    done = _fresh("-c", PROBE, json.dumps([names, ["slowstep.record.launching", "slowstep.record.monitors", "subprocess"]]))

    assert [json.loads(line) for line in done.stdout.splitlines()] == [[name, []] for name in names], done.stderr


def test_a_command_in_which_nothing_trained_waits_for_none_of_what_trainings_are_measured_with():
    names = ["slowstep.cli.run", "slowstep.workflow.nothing_recorded"]

    done = _fresh("-c", PROBE, json.dumps([names, ["polars", "numpy", "slowstep.analyses.measurements", "slowstep.document"]]))

    assert [json.loads(line) for line in done.stdout.splitlines()] == [[name, []] for name in names], done.stderr


def test_the_probe_sees_what_is_heavy():
    done = _fresh("-c", PROBE, json.dumps([["slowstep.report.terminal"], HEAVY]))

    assert json.loads(done.stdout) == ["slowstep.report.terminal", ["rich", "slowstep.document", "slowstep.report"]]


def test_importing_slowstep_reads_no_other_module_of_it():
    done = _fresh("-c", "import sys, slowstep; print([name for name in sys.modules if name.startswith('slowstep.')])")

    assert done.stdout.strip() == "[]", done.stderr


def test_the_public_names_are_these_and_all_of_them_resolve():
    assert sorted(slowstep.__all__) == ["__version__", "data", "record", "span", "start", "steps", "stop"]
    assert [name for name in slowstep.__all__ if not hasattr(slowstep, name)] == []


CALLED = (slowstep.record, session.record)


def test_what_is_called_as_record_shows_its_options():
    shown, own = ([(each.name, each.kind, each.default) for each in inspect.signature(call).parameters.values()] for call in CALLED)

    assert shown == own


def test_the_public_names_are_listed_before_any_of_them_is_imported():
    done = _fresh("-c", "import sys, slowstep; print(set(slowstep.__all__) <= set(dir(slowstep)), 'slowstep.data' in sys.modules)")

    assert done.stdout.split() == ["True", "False"], done.stderr


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = slowstep.no_such_name
