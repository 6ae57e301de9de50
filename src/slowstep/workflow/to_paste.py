"""The user's command as it can be typed again: quoted for the shell, and with a mark where a secret was not recorded."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from slowstep.record.system.redact import HIDDEN

# A word that needs no quotes, and with which no service lets anybody in.
FILL_IN: Final = "FILL_IN"


def to_paste(words: Sequence[str]) -> str:
    """The words of a recorded command for a shell; each secret that is left out of recordings is to be filled in."""
    return shlex.join(word.replace(HIDDEN, FILL_IN) for word in words)


def filled_in(command: str | None, first: str | None) -> str | None:
    """What is to be done before a command, with the secrets that are to be filled in; None where nothing is."""
    if command is None or FILL_IN not in command:
        return first
    return ", and ".join(filter(None, (first, f"put the secret in place of {FILL_IN}: it was not recorded")))
