"""Discovery: one file in a package is one plug-in (a rule, a monitor, a source, an exporter), or a few that belong together (hooks)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from slowstep.errors import DiscoveryError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

Plugin = TypeVar("Plugin")


@overload
def discover(package_name: str, attribute: str, *, inside: str = "", in_folders: bool = False) -> dict[str, object]: ...


@overload
def discover(package_name: str, attribute: str, kind: type[Plugin], *, inside: str = "", in_folders: bool = False) -> dict[str, Plugin]: ...


def discover(package_name: str, attribute: str, kind: type[Any] = object, *, inside: str = "", in_folders: bool = False) -> dict[str, Any]:
    """The plug-ins of a package, sorted by name: each module's attribute (`RULE`, `HOOK`, ...) by its own `name`, else by the module's.

    A module with several has a tuple of them under the attribute's plural (`HOOKS`). Modules whose name begins with an underscore are no
    plug-ins. Where plug-ins are folders, `inside` is the module of theirs that has the attribute (`outside.words`); a folder without it has
    none. Where they are sorted into folders, they are the files `in_folders`.

    Raises DiscoveryError, naming the file, for a module that cannot be imported, one without the attribute or with one that is not of its
    `kind`, one that lies beside the folders, and two of the same name: a plug-in left out silently would look like one that found nothing.
    """
    folders = _folders(package_name)
    return dict(_discovered(package_name, attribute, kind, inside, in_folders, folders))  # type: ignore[arg-type]  # a class is hashable


def discover_whole(
    package_name: str, attribute: str, kind: type[Plugin], *, in_each: str = ""
) -> tuple[dict[str, Plugin], dict[str, DiscoveryError]]:
    """The plug-ins of all files that are of use, sorted by name, and what is wrong with each other file or folder, by its name in the
    package: where a broken one is to cost no other. `in_each` is the folder of each sub-package in which they are, without which it has
    none.
    """
    package = importlib.import_module(package_name)
    found: dict[str, Plugin] = {}
    broken: dict[str, DiscoveryError] = {}
    holders = [package]
    if in_each:
        holders, broken = _whole_holders(package, in_each)
    for holder, file in ((each, file) for each in holders for file in _files(each)):
        try:
            plugins = _named([_imported(holder, file)], attribute, kind)
            if twice := plugins.keys() & found.keys():
                raise DiscoveryError(
                    f"{holder.__name__}.{file} and another file both define {attribute} {min(twice)!r}. Rename one of them."
                )
        except DiscoveryError as error:
            broken[f"{holder.__name__}.{file}".removeprefix(f"{package_name}.")] = error
        else:
            found |= plugins
    return dict(sorted(found.items())), broken


def names_by_file(package_name: str) -> set[str]:
    """What the plug-ins of a package are called where each is called as its file is, with hyphens. None of them is imported."""
    return {name.replace("_", "-") for name in _files(importlib.import_module(package_name))}


def names_by_folder(package_name: str, folder: str) -> set[str]:
    """The same of the folders of that name of all sub-packages."""
    package = importlib.import_module(package_name)
    return {name.replace("_", "-") for owner in _folders_of(package) for name in _files(package, f"{owner}.{folder}")}


def find_by_file(package_name: str, name: str, attribute: str, kind: type[Plugin]) -> Plugin | None:
    """The plug-in of that name, from the file that is called so; None where there is none. No other is imported: a broken one costs nobody
    else. Raises as `discover`.
    """
    return _of_file(importlib.import_module(package_name), "", name, attribute, kind)


def find_by_folder(package_name: str, folder: str, name: str, attribute: str, kind: type[Plugin]) -> dict[str, Plugin]:
    """The same in the folder of that name of each sub-package, by sub-package: two of these may have one of the same name. A broken folder
    costs only what it has files of.
    """
    package = importlib.import_module(package_name)
    found = {owner: _of_file(package, f"{owner}.{folder}", name, attribute, kind) for owner in _folders_of(package)}
    return {owner: plugin for owner, plugin in found.items() if plugin is not None}


@cache
def _discovered(
    package_name: str, attribute: str, kind: type[Any], inside: str, in_folders: bool, folders: tuple[str, ...]
) -> dict[str, Any]:
    """Those of the package in these `folders`. Kept: of a folder of traces each file asks for all sources."""
    package = importlib.import_module(package_name)
    if inside:
        names = [f"{folder}.{inside}" for folder in _folders_of(package) if _is_there(package, f"{folder}.{inside}")]
    elif in_folders:
        names = _names_in_folders(package)
    else:
        names = _names(package)
    return _named((_imported(package, name) for name in names), attribute, kind)


def _folders(package_name: str) -> tuple[str, ...]:
    return tuple(importlib.import_module(package_name).__path__)


def _whole_holders(package: ModuleType, folder: str) -> tuple[list[ModuleType], dict[str, DiscoveryError]]:
    """The folders of that name of sub-packages that can be imported, and what is wrong with each other one."""
    found, broken = [], {}
    for name in (f"{owner}.{folder}" for owner in _folders_of(package)):
        try:
            if _is_there(package, name):
                found.append(_imported(package, name))
        except DiscoveryError as error:
            broken[name] = error
    return found, broken


def _is_there(package: ModuleType, name: str) -> bool:
    """Whether a package has a module, by its name within it. Nothing is imported."""
    above, _, last = name.rpartition(".")
    return any(info.name == last for info in _modules(package, above))


def _modules(package: ModuleType, folder: str = "") -> list[pkgutil.ModuleInfo]:
    """What lies in a package, or in a folder within it. Nothing is imported."""
    return list(pkgutil.iter_modules([str(Path(path, *folder.split("."))) for path in package.__path__]))


def _folders_of(package: ModuleType) -> list[str]:
    """Where plug-ins are folders: a file that lies beside them is none."""
    return sorted(info.name for info in _modules(package) if info.ispkg and not info.name.startswith("_"))


def _names(package: ModuleType) -> list[str]:
    return sorted(info.name for info in _modules(package) if not info.name.startswith("_"))


def _names_in_folders(package: ModuleType) -> list[str]:
    """Raises DiscoveryError for a file beside the folders."""
    if beside := _files(package):
        where = Path(next(iter(package.__path__)))
        raise DiscoveryError(
            f"{where / beside[0]}.py lies next to the folders that such files are sorted into. Move it into one of"
            f" {', '.join(_folders_of(package))}, or begin its name with an underscore if it is no plug-in."
        )
    return [f"{folder}.{file}" for folder in _folders_of(package) for file in _files(package, folder)]


def _files(package: ModuleType, folder: str = "") -> list[str]:
    """Of a folder of plug-ins that are files: what they have in common, or folders of other plug-ins, may lie beside them."""
    return sorted(info.name for info in _modules(package, folder) if not (info.ispkg or info.name.startswith("_")))


def _named(modules: Iterable[ModuleType], attribute: str, kind: type[Plugin]) -> dict[str, Plugin]:
    found: dict[str, Plugin] = {}
    origin: dict[str, str] = {}
    for module in modules:
        path = module.__file__ or module.__name__
        for plugin in _plugins(module, attribute):
            if not isinstance(plugin, kind):
                raise DiscoveryError(f"{path}: {attribute} is a {type(plugin).__name__}, not a {kind.__name__}. Repair or remove the file.")
            name = str(getattr(plugin, "name", module.__name__.rpartition(".")[2]))
            if name in found:
                raise DiscoveryError(f"{path} and {origin[name]} both define {attribute} {name!r}. Rename one of them.")
            found[name], origin[name] = plugin, path
    return dict(sorted(found.items()))


def _of_file(package: ModuleType, folder: str, name: str, attribute: str, kind: type[Plugin]) -> Plugin | None:
    file = name.replace("-", "_")
    if file not in _files(package, folder):
        return None
    module = _imported(package, f"{folder}.{file}" if folder else file)
    found = _named([module], attribute, kind)
    if not found.keys() <= {file, file.replace("_", "-")}:
        called = " and ".join(map(repr, found))
        raise DiscoveryError(f"{module.__file__}: {attribute} is called {called}, and its file is not. Rename one of them.")
    return found.get(name)


def _plugins(module: ModuleType, attribute: str) -> tuple[Any, ...]:
    if hasattr(module, attribute):
        return (getattr(module, attribute),)
    several = getattr(module, f"{attribute}S", None)
    if isinstance(several, tuple):
        return several
    path = module.__file__ or module.__name__
    raise DiscoveryError(f"{path} has no {attribute}. Define it, or begin the file's name with an underscore if it is no plug-in.")


def _imported(package: ModuleType, name: str) -> ModuleType:
    """A module by its name within a package, after those above it one by one: the error names the file that is broken."""
    if above := name.rpartition(".")[0]:
        _imported(package, above)
    try:
        return importlib.import_module(f"{package.__name__}.{name}")
    except Exception as error:  # importing runs the file, and that may raise anything; all of it means the same to the user
        where = Path(next(iter(package.__path__)), *name.split("."))
        file = where / "__init__.py" if where.is_dir() else where.with_suffix(".py")
        raise DiscoveryError(f"{file} cannot be imported: {type(error).__name__}: {error}. Repair or remove the file.") from error
