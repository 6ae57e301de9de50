"""How the command ended, where the reader of a report has to know it: by --stop, by an error of its own, by a signal."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowstep.timeline.timeline import RunFacts

# Signals that a process gets for what its own code did; others are sent to it.
FAULTS = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")


def ending_note(run: RunFacts) -> str | None:
    """A sentence for the report; None where the command ended well, still runs, or was ended by an experiment."""
    if run.stop_signals and not run.was_thrown_away:
        return _stopped(run.stop_signals)
    if not run.exit_code or run.was_thrown_away:
        return None
    return f"the command ended with {_name(run)}: the report is of the steps that were recorded"


def ended_by_an_error(run: RunFacts) -> bool:
    """Whether the script failed by its own code: not by a signal that was sent to it, nor by slowstep."""
    is_own = run.killer is None or run.killer in FAULTS
    return bool(run.exit_code) and not run.stop_signals and is_own and run.session is None


def own_error(run: RunFacts) -> str:
    """What is to be done first after such an end."""
    return f"mend the script's own error: it ended with {_name(run)}"


def _stopped(sent: tuple[str, ...]) -> str:
    if sent[-1].upper().endswith("KILL"):
        return f"the training was ended by --stop and did not heed it: after {', '.join(sent)} its own clean-up may not have run"
    return f"the training was ended by --stop with {', '.join(sent)}, as by Ctrl-C: the script's own clean-up ran"


def _name(run: RunFacts) -> str:
    if run.killer is None:
        return f"exit code {run.exit_code}"
    # https://docs.kernel.org/admin-guide/mm/concepts.html#oom-killer
    why = ", as where memory runs out" if run.killer == "SIGKILL" else ""
    return f"exit code {run.exit_code} ({run.killer}{why})"
