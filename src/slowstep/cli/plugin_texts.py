"""The names, terms and documentation of rules, levers and exporters, read from their files.

Importing a rule brings all analyses along, and a file that cannot be imported costs no other one its description.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import pkgutil
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import slowstep.frameworks
from slowstep.errors import DiscoveryError

RULES: Final = "slowstep.diagnosis.rules"
_LEVERS: Final = "slowstep.levers"
_EXPORTERS: Final = "slowstep.exporters"
# Where each framework has levers: how it makes those of all, and those that it alone has.
_OF_FRAMEWORKS: Final = "*/inside/levers"
# Of a hundred files only these parts are read: parsing them whole takes longer than all the rest of a command.
_DOCSTRING: Final = re.compile(r'"""(.*?)"""', re.DOTALL)
# What a plug-in is defined by, up to its arguments; it stands last in its file.
_RULE: Final = "\nRULE = Rule("
_EXPORTER: Final = "\nEXPORTER = Exporter("


def names_of_rules() -> list[str]:
    """The names of all rules."""
    return _names_in(_folders_of_rules())


def names_of_levers() -> list[str]:
    """The names of all levers."""
    return _names_in(_folders_of_levers())


def rule_text(name: str) -> str:
    """The docstring of a rule, by its name. Raises DiscoveryError for a broken file."""
    return _docstring(_that_has(_folders_of_rules(), name), name)


def folder_of_rule(name: str) -> str:
    """What the folder is called that a rule's file is in."""
    return _that_has(_folders_of_rules(), name).name


class Terms(NamedTuple):
    """The stages that a rule may blame (None: all of them), and the topics that it reads."""

    stages: Sequence[str] | None
    topics: frozenset[str]


def rule_terms(name: str) -> Terms:
    """As its file has them. Raises DiscoveryError for one that has none that can be read."""
    file = _file(_that_has(_folders_of_rules(), name), name)
    before, _, terms = _read(file).rpartition(_RULE)
    try:
        given = _arguments(terms)
        stages = given["stages"]
        if isinstance(stages, ast.Name):
            # A tuple of its own, or all stages, which it imports.
            own = re.search(rf"^{stages.id} = (\(.*?\))$", before, re.MULTILINE)
            stages = ast.parse(own[1] if own is not None else "None", mode="eval").body
        return Terms(ast.literal_eval(stages), frozenset(ast.literal_eval(given["topics"])))
    except (KeyError, ValueError, SyntaxError) as error:
        raise DiscoveryError(f"{file} has no RULE whose stages and topics can be read: {error}. Repair or remove the file.") from error


class ExporterTerms(NamedTuple):
    """What an exporter adds to the name of what it exports, and what it writes."""

    suffix: str
    writes: str


def exporter_terms() -> dict[str, ExporterTerms]:
    """Those of all exporters, by name. Raises DiscoveryError for one whose file has none that can be read."""
    folder = _folder(_EXPORTERS)
    return {name: _exporter_terms(_file(folder, name)) for name in _names(folder)}


def _exporter_terms(file: Path) -> ExporterTerms:
    try:
        given = _arguments(_read(file).rpartition(_EXPORTER)[2])
        return ExporterTerms(*(ast.literal_eval(given[field]) for field in ExporterTerms._fields))
    except (KeyError, ValueError, SyntaxError) as error:
        raise DiscoveryError(f"{file} has no EXPORTER whose suffix can be read: {error}. Repair or remove the file.") from error


def _arguments(text: str) -> dict[str | None, ast.expr]:
    """The named arguments of a call, of which the text is all behind its opening bracket."""
    call = ast.parse(f"_({text}", mode="eval").body
    return {keyword.arg: keyword.value for keyword in call.keywords} if isinstance(call, ast.Call) else {}


def measured_topics(module: str) -> frozenset[str]:
    """The topics that a module's `MAKERS` makes. Raises DiscoveryError where it has none."""
    spec = importlib.util.find_spec(module)
    file = Path(spec.origin if spec is not None and spec.origin else module)
    for node in ast.parse(_read(file)).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict) and ast.unparse(node.target) == "MAKERS":
            return frozenset(key.value for key in node.value.keys if isinstance(key, ast.Constant) and isinstance(key.value, str))
    raise DiscoveryError(f"{file} has no MAKERS.")


def lever_text(name: str) -> str:
    """The docstring of a lever, by its name. Raises DiscoveryError for a broken file."""
    return _docstring(_that_has(_folders_of_levers(), name), name)


def _folders_of_rules() -> list[Path]:
    """Rules are sorted into folders by what they are about."""
    return sorted(path for path in _folder(RULES).iterdir() if (path / "__init__.py").exists())


def _folders_of_levers() -> list[Path]:
    """That of what levers are, and each framework's."""
    of_frameworks = [folder for root in slowstep.frameworks.__path__ for folder in sorted(Path(root).glob(_OF_FRAMEWORKS))]
    return [_folder(_LEVERS), *of_frameworks]


def _that_has(folders: Sequence[Path], name: str) -> Path:
    """The folder that has the plug-in's file; the first where none has."""
    return next((folder for folder in folders if _file(folder, name).exists()), folders[0])


def _names_in(folders: Sequence[Path]) -> list[str]:
    return sorted({name for folder in folders for name in _names(folder)})


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
    text = _read(file)
    found = _DOCSTRING.match(text)
    if found is None and text.startswith('"""'):
        raise DiscoveryError(f"{file} cannot be read: its docstring does not end. Repair or remove the file.")
    return inspect.cleandoc(found[1]) if found is not None else "There is no description."


def _read(file: Path) -> str:
    """Raises DiscoveryError for a file that cannot be read."""
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DiscoveryError(f"{file} cannot be read: {error}. Repair or remove the file.") from error
