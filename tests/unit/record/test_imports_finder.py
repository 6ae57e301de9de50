"""The finder that waits for imports: it calls back once, leaves nothing behind, and harms no import."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from slowstep.record import imports


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that can be imported, and is not yet."""
    name = "waited_for_module"
    (tmp_path / f"{name}.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)
    imports.forget([name])


def test_the_callback_comes_when_the_module_is_whole(module: str) -> None:
    seen: list[int] = []

    imports.when_imported(module, lambda: seen.append(sys.modules[module].value))
    assert seen == []
    importlib.import_module(module)

    assert seen == [1]


def test_no_trace_of_the_finder_stays_on_the_module(module: str) -> None:
    imports.when_imported(module, lambda: None)

    imported = importlib.import_module(module)

    assert vars(imported.__spec__.loader).keys() == {"name", "path"}
    assert type(imported.__spec__.loader).__module__ == "_frozen_importlib_external"


def test_all_who_wait_are_called(module: str) -> None:
    seen: list[str] = []

    imports.when_imported(module, lambda: seen.append("one"))
    imports.when_imported(module, lambda: seen.append("two"))
    importlib.import_module(module)

    assert seen == ["one", "two"]


def test_a_failing_callback_does_not_fail_the_import(module: str) -> None:
    imports.when_imported(module, lambda: 1 / 0)

    assert importlib.import_module(module).value == 1


def test_an_import_that_fails_fails_as_ever_and_is_waited_for_again(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("raise LookupError('broken')\n")
    seen: list[int] = []
    imports.when_imported(module, lambda: seen.append(sys.modules[module].value))

    for _ in range(2):
        with pytest.raises(LookupError, match="broken"):
            importlib.import_module(module)
    assert seen == []
    (tmp_path / f"{module}.py").write_text("value = 1\n")
    importlib.invalidate_caches()
    importlib.import_module(module)

    assert seen == [1]


def test_a_module_that_is_not_there_is_not_found_and_still_waited_for(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").rename(tmp_path / "elsewhere.txt")
    seen: list[None] = []
    imports.when_imported(module, lambda: seen.append(None))

    with pytest.raises(ModuleNotFoundError):
        importlib.import_module(module)
    (tmp_path / "elsewhere.txt").rename(tmp_path / f"{module}.py")
    importlib.invalidate_caches()
    importlib.import_module(module)

    assert seen == [None]


def test_a_module_that_was_only_looked_for_is_still_waited_for(module: str) -> None:
    # As transformers and accelerate look whether torch is installed.
    seen: list[int] = []
    imports.when_imported(module, lambda: seen.append(sys.modules[module].value))

    for _ in range(2):
        assert importlib.util.find_spec(module) is not None
    assert seen == []
    importlib.import_module(module)

    assert seen == [1]
    assert "exec_module" not in vars(sys.modules[module].__loader__)


def test_the_finder_leaves_when_nothing_is_waited_for(module: str) -> None:
    imports.when_imported(module, lambda: None)
    assert any(isinstance(finder, imports.Finder) for finder in sys.meta_path)

    imports.forget([module])

    assert not any(isinstance(finder, imports.Finder) for finder in sys.meta_path)


def test_two_finders_that_wait_for_one_module_are_both_called(module: str) -> None:
    # The injected one and the package's, in a script that imports slowstep.auto under `slowstep run`.
    other, called = imports.Finder(), []
    imports.when_imported(module, lambda: called.append("ours"))
    other.waiting[module] = [lambda: called.append("the other's")]
    sys.meta_path.insert(1, other)
    try:
        importlib.import_module(module)
    finally:
        sys.meta_path.remove(other)

    assert called == ["the other's", "ours"]
    assert "exec_module" not in vars(sys.modules[module].__loader__)
