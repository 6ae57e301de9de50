"""The parts of a start-up: what each is, and how it is called."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from slowstep.frameworks._known import plain
from slowstep.frameworks._remedies import Remedy


class StartupKind(StrEnum):
    """What a part of the start-up is. Of some kinds there are several, each of something else."""

    BEFORE_IMPORT = "before_import"  # of the framework
    IMPORT = "import"  # of a library; of several that each take little where it names none
    SCRIPT = "script"  # up to the first batch, where nothing divides it
    OTHER_WORK = "other_work"  # of that, what has no name
    FUNCTION = "function"  # one of the script's
    TOP_LEVEL = "top_level"  # of a file of the script's
    COMPILING = "compiling"  # a model
    FUNCTIONS_COMPILED = "functions_compiled"  # of a framework that compiles each function that it runs
    LOADER = "loader"
    VALIDATION = "validation"
    FIRST_BATCHES = "first_batches"
    FIRST_STEP = "first_step"

    @property
    def is_compiling(self) -> bool:
        """Whether something is compiled then, and nothing else."""
        return self in (StartupKind.COMPILING, StartupKind.FUNCTIONS_COMPILED)


_WORDS: Final = {
    StartupKind.BEFORE_IMPORT: "before the import of {}",
    StartupKind.IMPORT: "import of {}",
    StartupKind.SCRIPT: "other imports, data and model",
    StartupKind.OTHER_WORK: "other work before training",
    StartupKind.FUNCTION: "{}",
    StartupKind.TOP_LEVEL: "top level of {}",
    StartupKind.COMPILING: plain().advise(Remedy.COMPILE_FUNCTION),  # said of the compiler whose files are known
    StartupKind.FUNCTIONS_COMPILED: "compiling",
    StartupKind.LOADER: "loader start-up",
    StartupKind.VALIDATION: "validation before training",
    StartupKind.FIRST_BATCHES: "first batches",
    StartupKind.FIRST_STEP: "first step",
}
_OTHER_IMPORTS: Final = "other imports"


@dataclass(frozen=True, kw_only=True, slots=True)
class StartupPart:
    """A span of the start-up; `of` is what its kind is of, as reports show it."""

    kind: StartupKind
    of: str | None = None
    ns: int

    @property
    def name(self) -> str:
        """It in words."""
        if self.kind is StartupKind.IMPORT and self.of is None:
            return _OTHER_IMPORTS
        return _WORDS[self.kind].format(self.of)
