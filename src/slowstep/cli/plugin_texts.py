"""The documentation of rules and levers, read from their files: importing a rule brings all analyses along."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from pathlib import Path
from typing import Final

from slowstep.errors import DiscoveryError

RULES: Final = "slowstep.diagnosis.rules"
LEVERS: Final = "slowstep.levers"


def names_of_rules() -> list[str]:
    """The names of all rules."""
    return [_name(module) for module in _modules(RULES)]


def names_of_levers() -> list[str]:
    """The names of all levers."""
    return [_name(module) for module in _modules(LEVERS)]


def rule_text(name: str) -> str:
    """The docstring of a rule, by its name. Raises DiscoveryError for a broken file."""
    return _docstring(RULES, name)


def lever_text(name: str) -> str:
    """The docstring of a lever, by its name. Raises DiscoveryError for a broken file."""
    return _docstring(LEVERS, name)


def _modules(package: str) -> list[str]:
    # A plug-in's name is that of its file: tests/unit/test_explain.py holds all of them to it.
    return sorted(info.name for info in pkgutil.iter_modules([str(_folder(package))]) if not info.name.startswith("_"))


def _folder(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    return Path(next(iter(spec.submodule_search_locations or ()))) if spec is not None else Path()


def _docstring(package: str, name: str) -> str:
    file = _folder(package) / f"{name.replace('-', '_')}.py"
    try:
        return ast.get_docstring(ast.parse(file.read_bytes())) or "There is no description."
    except (OSError, SyntaxError, ValueError) as error:
        raise DiscoveryError(f"{file} cannot be read: {error}. Repair or remove the file.") from error


def _name(module: str) -> str:
    return module.replace("_", "-")
