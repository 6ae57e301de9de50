"""What processes of a command tell the launcher of themselves before they train, or though they never do: by a byte of the control page."""

from __future__ import annotations

import os

from slowstep.record import format as contract


def tell(what: str) -> None:
    """Tell the launcher of this process's recording, of one of the names in format.CONTROL_TOLD. Raises nothing."""
    try:
        page = os.open(os.path.join(os.environ[contract.ENV_RECORDING], contract.CONTROL_FILE), os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.pwrite(page, b"\1", contract.CONTROL_TOLD[what])
        finally:
            os.close(page)
    except (OSError, KeyError):
        pass  # no recording is under way here, and nobody asks
