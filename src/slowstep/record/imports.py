"""Waits for a module to be imported, without importing anything itself.

The injected `sitecustomize` loads this file by its place, in every Python process of a command: it must stay small, import nothing
that Python has not imported itself, and work without its package.
"""

from __future__ import annotations

import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any


class Finder:
    """A meta path finder that finds nothing itself: it asks the others, and calls back once the module has been executed."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[Callable[[], Any]]] = {}
        self.beginning: dict[str, Callable[[], Any]] = {}  # called before the module is executed
        self.package_folder: str | None = None
        self.began_ns: dict[str, int] = {}  # when the import of what was waited for began

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Called by Python for every import."""
        if name == "slowstep" and self.package_folder is not None:
            return _package_spec(self.package_folder)
        if name not in self.waiting:
            return None
        # Another finder like this one asks back.
        callbacks = self.waiting.pop(name)
        self.began_ns[name] = time.monotonic_ns()
        try:
            spec = _found_by_others(self, name, path, target)
        finally:
            # Libraries look whether a module is there long before anybody imports it: it is waited for until it is executed.
            self.waiting[name] = callbacks
        if spec is None or spec.loader is None:
            return spec
        try:
            _call_after_execution(spec.loader, lambda: self._begin(name), lambda untold: self._failed(name, untold))
        except Exception:
            pass  # a loader that takes no attributes: what waits for this module stays off
        return spec

    def _begin(self, name: str) -> list[Callable[[], Any]]:
        """The module is executed now. Returns who is to be called afterwards."""
        try:
            self.beginning.pop(name, _nothing)()
        except Exception:
            pass  # the import goes on
        return self.waiting.pop(name, [])

    def _failed(self, name: str, untold: list[Callable[[], Any]]) -> None:
        """Executing the module has raised: it is waited for again, for whoever catches that may import it once more."""
        self.waiting[name] = untold + self.waiting.get(name, [])


def _nothing() -> None:
    pass


def _found_by_others(finder: Finder, name: str, path: Any, target: ModuleType | None) -> ModuleSpec | None:
    for other in list(sys.meta_path):
        find_spec = None if other is finder else getattr(other, "find_spec", None)
        spec = None if find_spec is None else find_spec(name, path, target)
        if spec is not None:
            return spec  # type: ignore[no-any-return]
    return None


def _call_after_execution(
    loader: Any, take: Callable[[], list[Callable[[], Any]]], give_back: Callable[[list[Callable[[], Any]]], None]
) -> None:
    """Replace `exec_module` of this one loader object, for one call: no wrapper stays behind. `take` gives who is to be called, once;
    where the module raises, `give_back` gets them.
    """
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        try:
            del loader.exec_module
        except AttributeError:
            pass  # two of us wait for this module (the injected one and the package's): the outer one has taken both away
        callbacks = take()
        try:
            original(module)
        except BaseException:
            give_back(callbacks)
            raise
        for callback in callbacks:
            try:
                callback()
            except Exception:
                pass  # the import itself succeeded

    loader.exec_module = exec_module


def _package_spec(folder: str) -> ModuleSpec | None:
    from importlib.util import spec_from_file_location

    return spec_from_file_location("slowstep", folder + "/__init__.py", submodule_search_locations=[folder])


_FINDER = Finder()


def when_imported(name: str, callback: Callable[[], Any]) -> None:
    """Call back once a module has been imported by somebody. Exceptions of the callback are dropped."""
    _FINDER.waiting.setdefault(name, []).append(callback)
    if _FINDER not in sys.meta_path:
        sys.meta_path.insert(0, _FINDER)


def imported(name: str) -> None:
    """Call back for a module that is complete: its import had begun when somebody began to wait for it."""
    for callback in _FINDER.waiting.pop(name, []):
        callback()


def forget(names: list[str]) -> None:
    """Wait for these modules no more."""
    for name in names:
        _FINDER.waiting.pop(name, None)
    if not _FINDER.waiting and _FINDER.package_folder is None and _FINDER in sys.meta_path:
        sys.meta_path.remove(_FINDER)


def listen(
    package_folder: str,
    activate: Callable[[str, int | None], Any],
    say: Callable[[str], Any],
    modules: tuple[str, ...],
) -> None:
    """Once one of these modules is imported, `activate` recording with its name and when its import began.

    slowstep itself is loaded from `package_folder`. `say` is called with the name of a framework that is used.
    """
    _FINDER.package_folder = package_folder
    for name in modules:
        _activate_after(name, activate)
        # Not when it has been imported: a command may be ended in the midst of that.
        _FINDER.beginning[name] = _named(say, name)


def _named(say: Callable[[str], Any], name: str) -> Callable[[], Any]:
    return lambda: say(name)


def _activate_after(name: str, activate: Callable[[str, int | None], Any]) -> None:
    when_imported(name, lambda: activate(name, _FINDER.began_ns.get(name)))
