"""The report at the end of `slowstep run`: whatever goes wrong in it, the exit code stays the command's."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from slowstep.cli.border import say
from slowstep.errors import NothingRecorded, SlowstepError
from slowstep.faults import is_fault
from slowstep.harmless import harmless
from slowstep.record.launching.folder import holds_nothing, kept_words

if TYPE_CHECKING:
    from pathlib import Path

    from slowstep.record.launching.witness import SeenProcess


@dataclass(kw_only=True)
class RunReport:
    """Diagnoses a recording, and puts the report where it was asked for: standard error, report.json, `--json`.

    `found_nothing`: there was nothing to diagnose.
    """

    warmup: int | None
    json_target: str | None
    found_nothing: bool = False
    verbose: bool = False
    quiet: bool = False  # another launcher of the same job speaks: only the files in the recording are written

    def show(self, folder: Path, seen: tuple[SeenProcess, ...] = ()) -> None:
        """Diagnose and print; a failure prints one line that says how to get the report later."""
        later = kept_words(str(folder))
        try:
            self._show(folder, seen)
        except BrokenPipeError:
            # What nobody reads is discarded in the end (main.py).
            pass
        except KeyboardInterrupt:
            self._say(f"slowstep: the report was interrupted. {later}")
        except SlowstepError as error:
            self._say(f"slowstep: {error} {later}")
        except BaseException as error:
            if not is_fault(error):
                raise
            # The user's exit code matters more than our report.
            from slowstep.report.fault_log import describe

            self._say(f"slowstep: {describe(error, 'the diagnosis', folder)} {later}")

    def _show(self, folder: Path, seen: tuple[SeenProcess, ...]) -> None:
        # Imported here, once the command has ended: these take a third of a second that a training would wait for.
        if holds_nothing(str(folder)):
            from slowstep.workflow.nothing_recorded import describe_nothing

            self._say_nothing(describe_nothing(folder), seen)
            return
        from slowstep.report.json import write
        from slowstep.workflow.diagnose_recordings import diagnose_all

        try:
            diagnosed = diagnose_all(folder, warmup=self.warmup)
        except NothingRecorded as error:
            self._say_nothing(str(error), seen)
            return
        # What others read comes first: a terminal may have gone away.
        for name, each in diagnosed.files.items():
            write(each, folder / name)
        if not self.quiet:
            self._print(diagnosed.reports[diagnosed.first])

    def _say_nothing(self, why: str, seen: tuple[SeenProcess, ...]) -> None:
        self.found_nothing = True
        self._say(f"slowstep: {why}{_describe(seen)}")

    def _print(self, report: dict[str, Any]) -> None:
        from slowstep.report.json import dumps, show_and_write

        if self.json_target == "-" and sys.stdout is not None:
            sys.stdout.write(dumps(report))
            sys.stdout.flush()
        show_and_write(lambda: self._print_page(report), report, None if self.json_target == "-" else self.json_target)

    def _print_page(self, report: dict[str, Any]) -> None:
        from slowstep.report.terminal import show

        if sys.stderr is not None:
            # What the script wrote last may be a progress bar that ends no line.
            sys.stderr.write("\n")
            show(report, sys.stderr, verbose=self.verbose)

    def _say(self, text: str) -> None:
        if self.quiet:
            return
        say(text)


def _describe(seen: tuple[SeenProcess, ...]) -> str:
    lines = ["", "Processes seen:"] if seen else []
    for process in seen:
        why = f"   <- {process.unreachable}" if process.unreachable else ""
        lines.append(f"  {'  ' * process.depth}{harmless(shlex.join(process.argv))}{why}")
    return "\n".join(lines)
