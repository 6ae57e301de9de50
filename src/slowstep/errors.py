"""Every error that slowstep raises on purpose, as one tree.

SlowstepError                 exit code 2
├── BadUsage                  2    an option or argument that cannot be meant
├── UnreadableInput           2    a path that is no recording or cannot be read
│   ├── NoRecording           2    the path holds no recording
│   └── NothingRecorded       2    a recording in which no training was seen
├── UnwritableOutput          2    a report or recording that cannot be written
├── NoSandbox                 2    an experiment could change the user's files
├── DiscoveryError            2    a rule, hook or other plug-in file that is broken
└── CommandNotStarted         125, 126 or 127    the user's command could not be started

A message says what happened, with which value, what was expected, and what to do next. The command line catches
`SlowstepError` in one place, prints the message without a traceback and exits with `exit_code`.
"""

from __future__ import annotations

from typing import ClassVar, Final, Literal

# What a command ends with that somebody ended by Ctrl-C: 128 + SIGINT, as in a shell.
INTERRUPTED_CODE: Final = 130
# What `prove` and `bench` end with where the script ended before anything was tried: there is a diagnosis at most.
UNTRIED_CODE: Final = 3


class SlowstepError(Exception):
    """Something that slowstep can explain; `exit_code` is what the command line ends with."""

    exit_code: int = 2


class BadUsage(SlowstepError):
    """An option or argument cannot be meant as it was given."""


class UnreadableInput(SlowstepError):
    """A path is missing, cannot be read, or is not what it should be."""


class NoRecording(UnreadableInput):
    """The path holds no recording of slowstep."""


class NothingRecorded(UnreadableInput):
    """A recording exists, but no training was seen in it."""


class UnwritableOutput(SlowstepError):
    """A report or a recording cannot be written where it was asked for."""


class NoSandbox(SlowstepError):
    """The script cannot be kept from changing the user's files here, and that was not allowed."""


class DiscoveryError(SlowstepError):
    """A plug-in file (rule, hook, monitor, source, lever) cannot be imported or lacks what makes it one."""


class CommandNotStarted(SlowstepError):
    """The user's command could not be started: 125 by a fault of slowstep, 126 not executable, 127 not found."""

    OWN_FAILURE: ClassVar[Literal[125]] = 125
    NOT_EXECUTABLE: ClassVar[Literal[126]] = 126
    NOT_FOUND: ClassVar[Literal[127]] = 127

    def __init__(self, message: str, *, exit_code: Literal[125, 126, 127] = 125) -> None:
        super().__init__(message)
        self.exit_code = exit_code
