"""What a sandboxed training needs: its command found, a folder for its recording, a sandbox around it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slowstep.errors import BadUsage, CommandNotStarted
from slowstep.faults import of_recording
from slowstep.prove.sandbox.sandbox import Sandbox, open_sandbox
from slowstep.record.launching.command import Command, resolve_command
from slowstep.record.launching.folder import create_folder, remove_folder


@dataclass(frozen=True, kw_only=True, slots=True)
class SandboxedRun:
    """A command that may be run in `sandbox` and recorded into `folder`; `opened` makes another such sandbox for another folder."""

    command: Command
    folder: Path
    sandbox: Sandbox
    opened: Callable[[Path], Sandbox]

    @property
    def announced(self) -> str:
        """Where it runs, and what that does to the user's files: said before it begins."""
        where = {"overlay": "in an overlay", "copy": "in a copy of the working folder"}.get(self.sandbox.kind, "without a sandbox")
        return f"Runs the training {where} and discards its results: {self.sandbox.claims}"


@contextmanager
def sandboxed_run(
    words: tuple[str, ...], environ: Mapping[str, str], *, out: str | None, allow_writes: bool, kind: str | None
) -> Iterator[SandboxedRun]:
    """Make all of it ready, and close the sandbox at the end; the recording stays, in `out`. `kind` is that of the sandbox, None: any.

    Raises BadUsage where the command is not found, or cannot be started inside, and NoSandbox where the user's files could not be kept
    from harm: nothing is left then.
    """

    def opened(place: Path) -> Sandbox:
        return open_sandbox(place, Path.cwd(), allow_writes=allow_writes, kind=kind)

    try:
        command = resolve_command(words, environ)
        folder = Path(create_folder(parent=out, stem=command.stem))
        with _opened_or_removed(folder, opened) as sandbox, of_recording(str(folder)):
            yield SandboxedRun(command=command, folder=folder, sandbox=sandbox, opened=opened)
    except CommandNotStarted as error:
        # Only of `run` the exit code is the command's.
        raise BadUsage(str(error)) from error


def _opened_or_removed(folder: Path, opened: Callable[[Path], Sandbox]) -> Sandbox:
    try:
        return opened(folder)
    except BaseException:
        # Ctrl-C too: an empty recording would be taken for one of a training that left nothing.
        remove_folder(str(folder))
        raise
