"""The names and the documentation of rules and levers, read from their files.

Importing a rule brings all analyses along, and a file that cannot be imported costs no other one its description.
"""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from pathlib import Path
from typing import Final

import slowstep.frameworks
from slowstep.errors import DiscoveryError

RULES: Final = "slowstep.diagnosis.rules"
_LEVERS: Final = "slowstep.levers"
# Where each framework has levers: how it makes those of all, and those that it alone has.
_OF_FRAMEWORKS: Final = "*/inside/levers"


def names_of_rules() -> list[str]:
    """The names of all rules."""
    return _names(_folder(RULES))


def names_of_levers() -> list[str]:
    """The names of all levers."""
    return sorted({name for folder in _folders_of_levers() for name in _names(folder)})


def rule_text(name: str) -> str:
    """The docstring of a rule, by its name. Raises DiscoveryError for a broken file."""
    return _docstring(_folder(RULES), name)


def lever_text(name: str) -> str:
    """The docstring of a lever, by its name. Raises DiscoveryError for a broken file."""
    folders = _folders_of_levers()
    return _docstring(next((folder for folder in folders if _file(folder, name).exists()), folders[0]), name)


def _folders_of_levers() -> list[Path]:
    """That of what levers are, and each framework's."""
    of_frameworks = [folder for root in slowstep.frameworks.__path__ for folder in sorted(Path(root).glob(_OF_FRAMEWORKS))]
    return [_folder(_LEVERS), *of_frameworks]


def _names(folder: Path) -> list[str]:
    # A plug-in's name is that of its file: tests/unit/test_explain.py holds all of them to it.
    files = (info.name for info in pkgutil.iter_modules([str(folder)]) if not (info.ispkg or info.name.startswith("_")))
    return sorted(name.replace("_", "-") for name in files)


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or ()))) if spec is not None else Path()


def _file(folder: Path, name: str) -> Path:
    return folder / f"{name.replace('-', '_')}.py"


def _docstring(folder: Path, name: str) -> str:
    file = _file(folder, name)
    try:
        return ast.get_docstring(ast.parse(file.read_bytes())) or "There is no description."
    except (OSError, SyntaxError, ValueError) as error:
        raise DiscoveryError(f"{file} cannot be read: {error}. Repair or remove the file.") from error
