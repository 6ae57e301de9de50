"""Whether what was named can be looked at: found out before what reads it is imported, which takes a second."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slowstep.errors import UnreadableInput

if TYPE_CHECKING:
    from pathlib import Path

EXPECTED: Final = "Give the folder that `slowstep run` made (slowstep_runs/<time>-<script>), a profiler's trace, or a folder of traces."


def require(path: Path) -> None:
    """Raises UnreadableInput for a path that does not exist, or may not be looked at."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise UnreadableInput(f"{path} does not exist. {EXPECTED}") from None
    except OSError as error:
        raise UnreadableInput(f"{path} {refusal(error)}.") from error


def refusal(error: OSError) -> str:
    """Why something was not read, as the end of a sentence that begins with its name."""
    return f"cannot be read: {error.strerror or error}"
