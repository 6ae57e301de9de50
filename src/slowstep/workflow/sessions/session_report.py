"""The report of a session: it shows itself in a notebook, at a prompt and in a script."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from slowstep.errors import NothingRecorded, SlowstepError
from slowstep.harmless import harmless
from slowstep.record.launching.folder import analyze_words, kept_words
from slowstep.workflow.sessions.diagnose_isolated import diagnose_in_subprocess

if TYPE_CHECKING:
    from slowstep.workflow.sessions.place import SessionPlace


class SessionReport:
    """`document` is the report as in report.json, None where there is none; `message` then says why. `folder` is the recording.
    `verbose` is whether all that was measured is shown.

    As the value of a cell or at a prompt it is the whole report, and printed (`str()`) too, until it has been shown: then one line.
    """

    def __init__(
        self,
        *,
        place: SessionPlace,
        document: dict[str, Any] | None = None,
        message: str | None = None,
        folder: Path | None = None,
        verbose: bool = False,
    ) -> None:
        self.document, self.folder, self.verbose = document, folder, verbose
        self.message = None if message is None else harmless(message, lines=True)
        self._place, self._was_shown = place, False

    @classmethod
    def of(cls, folder: str, *, warmup: int | None, place: SessionPlace, verbose: bool = False) -> Self:
        """Diagnose a recording and keep report.json in it. What goes wrong becomes the message: the training has run, and is kept."""
        later = kept_words(folder)
        path, document, message = Path(folder), None, None
        try:
            document = diagnose_in_subprocess(path, warmup=warmup)
        except NothingRecorded as error:
            message = f"slowstep: {error}"
        except SlowstepError as error:
            message = f"slowstep: {error} {later}"
        except KeyboardInterrupt:
            message = f"slowstep: the report was interrupted. {later}"
        except Exception as error:  # noqa: BLE001 - the border: the training around it goes on
            message = _of_fault(error, "the diagnosis", path)
        return cls(document=document, message=message, folder=path, place=place, verbose=verbose)

    def show(self, *, verbose: bool | None = None) -> None:
        """Show the report here and now: as a cell's output in IPython, on standard error elsewhere; `verbose` shows all of it."""
        self._was_shown = True
        self.verbose = self.verbose if verbose is None else verbose
        try:
            self._show()
        except Exception as error:  # noqa: BLE001 - the border: the training around it goes on
            print(_of_fault(error, "showing the report", self.folder), file=sys.stderr)

    def _show(self) -> None:
        shell = getattr(self._place, "shell", None)
        if shell is not None:
            sys.modules["IPython"].display.display(self)
        elif self.document is None:
            print(self.message, file=sys.stderr)
        else:
            from slowstep.report.terminal import show

            show(self.document, sys.stderr, verbose=self.verbose)

    def __repr__(self) -> str:
        if self.document is None:
            return str(self.message)
        from slowstep.report.terminal import text_for

        return text_for(self.document, sys.stdout, verbose=self.verbose, prompt=self._prompt)

    def __str__(self) -> str:
        # `print(slowstep.stop())` in a script: stop() has shown the report already.
        if not self._was_shown:
            return repr(self)
        if self.document is None or self.folder is None:
            return "slowstep: there is no report (.message says why)"
        from slowstep.report.terminal import verdict_line

        again = f"the whole report: .show(), or {analyze_words(str(self.folder))}; as a dict: .document"
        return f"{verdict_line(self.document, sys.stdout)} ({again})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What IPython shows: HTML with colours in a notebook, text elsewhere."""
        if self.document is None:
            return {"text/plain": str(self.message)}
        from slowstep.report.html import render_block
        from slowstep.report.terminal import render

        if not getattr(self._place, "is_notebook", False):
            return {"text/plain": repr(self)}
        how: dict[str, Any] = {"width": 100, "verbose": self.verbose, "prompt": self._prompt}
        return {"text/plain": render(self.document, color=False, **how), "text/html": render_block(self.document, **how)}

    @property
    def _prompt(self) -> str:
        """What stands before a command of a shell: in IPython a cell is Python."""
        return "" if getattr(self._place, "shell", None) is None else "!"


def _of_fault(error: Exception, doing: str, folder: Path | None) -> str:
    """A line on an error of slowstep's own. Raises nothing."""
    from slowstep.report.fault_log import describe

    kept = "" if folder is None else f" {kept_words(str(folder))}"
    return harmless(f"slowstep: {describe(error, doing, folder)}{kept}")
