"""Discovery: one file in a package is one plug-in (a rule, a monitor, a source, an exporter), or a few that belong together (hooks)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeVar, overload

from slowstep.errors import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

Plugin = TypeVar("Plugin")


@overload
def discover(package_name: str, attribute: str, *, inside: str = "", by_file: bool = False) -> dict[str, object]: ...


@overload
def discover(package_name: str, attribute: str, kind: type[Plugin], *, inside: str = "", by_file: bool = False) -> dict[str, Plugin]: ...


def discover(package_name: str, attribute: str, kind: type[Any] = object, *, inside: str = "", by_file: bool = False) -> dict[str, Any]:
    """The plug-ins of a package, sorted by name: each module's attribute (`RULE`, `HOOK`, ...) by its own `name`, else by the module's.

    A module with several has a tuple of them under the attribute's plural (`HOOKS`). Modules whose name begins with an underscore are no
    plug-ins. Where plug-ins are folders, `inside` is the module of theirs that has the attribute (`outside.words`); a folder without it has
    none. With `by_file` a plug-in has to be called as its file is, with hyphens.

    Raises DiscoveryError, naming the file, for a module that cannot be imported, one without the attribute or with one that is not of its
    `kind` or that is called otherwise, and two of the same name: a plug-in left out silently would look like one that found nothing.
    """
    folders = _folders(package_name)
    return dict(_discovered(package_name, attribute, kind, inside, folders, by_file))  # type: ignore[arg-type]  # a class is hashable


def discover_in_each(package_name: str, folder: str, attribute: str, kind: type[Plugin]) -> dict[str, Plugin]:
    """The plug-ins in the folder of that name of each sub-package, sorted by name; without the folder it has none. Raises as `discover`."""
    holders = _holders(package_name, folder).values()
    return _named((_imported(holder, name) for holder in holders for name in _files(holder)), attribute, kind)


def discover_by_folder(
    package_name: str, folder: str, attribute: str, kind: type[Plugin], *, by_file: bool = False
) -> dict[str, dict[str, Plugin]]:
    """The same by sub-package: two of these may have plug-ins of one name. `by_file` as of `discover`."""
    holders = _holders(package_name, folder).items()
    return {owner: _named((_imported(holder, name) for name in _files(holder)), attribute, kind, by_file) for owner, holder in holders}


def find(package_name: str, file: str, attribute: str, kind: type[Plugin]) -> Plugin | None:
    """The one plug-in of a file in a package, found without its neighbours; None where there is no such package or file.

    Raises DiscoveryError as `discover`.
    """
    root, _, inside = f"{package_name}.{file}".partition(".")
    if not _is_there(root, inside):
        return None
    return next(iter(_named([_imported(importlib.import_module(package_name), file)], attribute, kind).values()))


@cache
def _discovered(package_name: str, attribute: str, kind: type[Any], inside: str, folders: tuple[str, ...], by_file: bool) -> dict[str, Any]:
    """Those of the package in these `folders`. Kept: of a folder of traces each file asks for all sources."""
    package = importlib.import_module(package_name)
    names = [f"{name}.{inside}" for name in _names(package) if _is_there(f"{package_name}.{name}", inside)] if inside else _names(package)
    return _named((_imported(package, name) for name in names), attribute, kind, by_file)


def _folders(package_name: str) -> tuple[str, ...]:
    return tuple(importlib.import_module(package_name).__path__)


def _holders(package_name: str, folder: str) -> dict[str, ModuleType]:
    """The folder of that name of each sub-package that has it."""
    package = importlib.import_module(package_name)
    there = [name for name in _names(package) if _is_there(f"{package_name}.{name}", folder)]
    return {name: importlib.import_module(f"{package_name}.{name}.{folder}") for name in there}


def _is_there(package_name: str, inside: str) -> bool:
    """Whether a package has a module, by its name within it. To ask for one raises where a folder on the way is missing."""
    words = inside.split(".")
    return all(find_spec(".".join((package_name, *words[: end + 1]))) is not None for end in range(len(words)))


def _names(package: ModuleType) -> list[str]:
    return sorted(info.name for info in pkgutil.iter_modules(package.__path__) if not info.name.startswith("_"))


def _files(package: ModuleType) -> list[str]:
    """Of a folder of plug-ins that are files: what they have in common, or folders of other plug-ins, may lie beside them."""
    return sorted(info.name for info in pkgutil.iter_modules(package.__path__) if not (info.ispkg or info.name.startswith("_")))


def _named(modules: Iterable[ModuleType], attribute: str, kind: type[Plugin], by_file: bool = False) -> dict[str, Plugin]:
    found: dict[str, Plugin] = {}
    origin: dict[str, str] = {}
    for module in modules:
        path = module.__file__ or module.__name__
        for plugin in _plugins(module, attribute):
            if not isinstance(plugin, kind):
                raise DiscoveryError(f"{path}: {attribute} is a {type(plugin).__name__}, not a {kind.__name__}. Repair or remove the file.")
            of_file = module.__name__.rpartition(".")[2]
            name = str(getattr(plugin, "name", of_file))
            if by_file and name != of_file.replace("_", "-"):
                raise DiscoveryError(f"{path}: {attribute} is called {name!r}, and its file is not. Rename one of them.")
            if name in found:
                raise DiscoveryError(f"{path} and {origin[name]} both define {attribute} {name!r}. Rename one of them.")
            found[name], origin[name] = plugin, path
    return dict(sorted(found.items()))


def _plugins(module: ModuleType, attribute: str) -> tuple[Any, ...]:
    if hasattr(module, attribute):
        return (getattr(module, attribute),)
    several = getattr(module, f"{attribute}S", None)
    if isinstance(several, tuple):
        return several
    path = module.__file__ or module.__name__
    raise DiscoveryError(f"{path} has no {attribute}. Define it, or begin the file's name with an underscore if it is no plug-in.")


def _imported(package: ModuleType, name: str) -> ModuleType:
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    except Exception as error:  # importing runs the file, and that may raise anything; all of it means the same to the user
        where = f"{next(iter(package.__path__))}/{name.replace('.', '/')}.py"
        raise DiscoveryError(f"{where} cannot be imported: {type(error).__name__}: {error}. Repair or remove the file.") from error
