"""Discovery: one file in a package is one plug-in (a rule, a hook, a monitor, a source, an exporter)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from slowstep.errors import DiscoveryError

if TYPE_CHECKING:
    from types import ModuleType

P = TypeVar("P")


def discover(package_name: str, attribute: str, *, inside: str = "") -> dict[str, object]:
    """The plug-ins of a package, sorted by name: each module's attribute (`RULE`, `HOOK`, ...) by its own `name`, else by the module's.

    Modules whose name begins with an underscore are no plug-ins. Where plug-ins are folders, `inside` is the module of theirs that has the
    attribute (`outside.words`). Raises DiscoveryError, naming the file, for a module that cannot be imported, one without the attribute,
    and two of the same name: a plug-in left out silently would look like one that found nothing.
    """
    return {name: plugin for name, plugin, _ in _discovered(package_name, attribute, inside, _folders(package_name))}


def discover_of(kind: type[P], package_name: str, attribute: str, *, inside: str = "") -> dict[str, P]:
    """The same, where every plug-in has to be of a class. Raises DiscoveryError, naming the file, for one that is of another."""
    found: dict[str, P] = {}
    for name, plugin, path in _discovered(package_name, attribute, inside, _folders(package_name)):
        if not isinstance(plugin, kind):
            raise DiscoveryError(f"The {attribute} of {path} is a {type(plugin).__name__}. Make it a {kind.__name__}.")
        found[name] = plugin
    return found


def _folders(package_name: str) -> tuple[str, ...]:
    return tuple(importlib.import_module(package_name).__path__)


@cache
def _discovered(package_name: str, attribute: str, inside: str, folders: tuple[str, ...]) -> tuple[tuple[str, object, str], ...]:
    """Name, plug-in and file of each, for the package in these `folders`. Kept: of a folder of traces each file asks for all sources."""
    found: dict[str, tuple[object, str]] = {}
    for module in _modules(package_name, inside):
        path = module.__file__ or module.__name__
        if not hasattr(module, attribute):
            raise DiscoveryError(f"{path} has no {attribute}. Define it, or begin the file's name with an underscore if it is no plug-in.")
        plugin = getattr(module, attribute)
        name = str(getattr(plugin, "name", module.__name__.rpartition(".")[2]))
        if name in found:
            raise DiscoveryError(f"{path} and {found[name][1]} both define {attribute} {name!r}. Rename one of them.")
        found[name] = plugin, path
    return tuple((name, *found[name]) for name in sorted(found))


def _modules(package_name: str, inside: str) -> list[ModuleType]:
    package = importlib.import_module(package_name)
    names = sorted(info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))
    return [_imported(package, f"{name}.{inside}" if inside else name) for name in names]


def _imported(package: ModuleType, name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    except Exception as error:  # importing runs the file, and that may raise anything; all of it means the same to the user
        where = f"{next(iter(package.__path__))}/{name.replace('.', '/')}.py"
        raise DiscoveryError(f"{where} cannot be imported: {type(error).__name__}: {error}. Repair or remove the file.") from error
