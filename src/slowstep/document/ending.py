"""How the command ended, where the reader of a report has to know it: by --stop, by an error of its own, by a signal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slowstep.analyses.measurements import Measurements
    from slowstep.timeline.run_facts import RunFacts
    from slowstep.timeline.timeline import ProcessFacts, Timeline

# Signals that a process gets for what its own code did; others are sent to it.
FAULTS = ("SIGSEGV", "SIGBUS", "SIGABRT", "SIGFPE", "SIGILL")


def ending_note(timeline: Timeline) -> str | None:
    """A sentence for the report; None where the command ended well, still runs, or was ended by an experiment."""
    run = timeline.run
    if run.stop_signals and not run.was_sandboxed:
        return _stopped(run.stop_signals)
    if not run.exit_code or run.was_sandboxed:
        return None
    by = _interrupted_by(timeline) if run.killer is None else None
    how = "ended" if by is None else f"was interrupted ({by}) and ended"
    return f"the command {how} with {_name(run)}: the report is of the steps that were recorded"


def without_updates_ns(timeline: Timeline, m: Measurements) -> int:
    """How long recording went on after the last update of a training that it ended in, as in an evaluation; 0 where that is no longer than
    a step, not known, or the training was over.
    """
    run, ends_ns = timeline.run, m.trainer.update_end_ns
    limit_ns = math.inf if run.asked_seconds is None else ends_ns[0] + run.asked_seconds * 1e9
    ended_ns = min(run.ended_ns or 0, limit_ns)
    if run.session is not None or m.trainer.elsewhere is not None or m.trainer.facts.notes.get("end") == "exit":
        return 0
    if run.asked_steps is not None and len(ends_ns) >= run.asked_steps:
        # It ended with the last one that was asked for.
        return 0
    left_ns = int(ended_ns - ends_ns[-1])
    return left_ns if left_ns > m.step_ns.max() else 0


def ended_by_an_error(timeline: Timeline) -> bool:
    """Whether the script failed by its own code: not by a signal that was sent to it or to slowstep, nor by slowstep."""
    run = timeline.run
    is_own = (run.killer is None or run.killer in FAULTS) and _interrupted_by(timeline) is None
    return bool(run.exit_code) and not run.stop_signals and is_own and run.session is None


def first_after_error(timeline: Timeline) -> str:
    """What is to be done first after such an end."""
    ranks, name = _ranks(timeline), _name(timeline.run)
    if len(ranks) < 2:
        return f"fix the script's own error: it ended with {name}"
    # The exit code is that of what started the ranks, whether one of them failed or was killed.
    left = sorted((facts.left_ns, facts.rank, facts.raised) for facts in ranks if facts.left_ns is not None and facts.rank is not None)
    if len(left) == len(ranks) and left[0][2] is not None:
        return f"fix the script's own error: {left[0][2]} in rank {left[0][1]} ended the job, with {name}"
    raised = [f"rank {rank} raised {kind}" for _, rank, kind in left if kind is not None]
    seen = f" ({', '.join(raised)}; another one may have been killed before)" if raised else ""
    return f"find out what ended the job with {name}{seen}"


def _ranks(timeline: Timeline) -> list[ProcessFacts]:
    return [facts for facts in timeline.processes if facts.role == "trainer" and facts.rank is not None]


def _interrupted_by(timeline: Timeline) -> str | None:
    """What somebody ended it by; None where nobody is known to have.

    A script may catch it, as Lightning does, and leave with the exit code of an error. What ended the first rank ends the others, too,
    by errors that are no script's.
    """
    if timeline.run.received:
        return ", ".join(timeline.run.received)
    told = [facts for facts in timeline.processes if facts.left_ns is not None and facts.raised is not None]
    first = min(told, key=lambda facts: facts.left_ns or 0, default=None)
    return first.raised if first is not None and first.raised == KeyboardInterrupt.__name__ else None


def _stopped(sent: tuple[str, ...]) -> str:
    if len(sent) > 1:
        late = "its own clean-up may not have run, or not to its end"
        return f"the training did not end at the first signal of --stop: after {', '.join(sent)} {late}"
    return f"the training was ended by --stop with {sent[0]}, as by Ctrl-C: the script's own clean-up ran"


def _name(run: RunFacts) -> str:
    if run.killer is None:
        return f"exit code {run.exit_code}"
    # https://docs.kernel.org/admin-guide/mm/concepts.html#oom-killer
    why = ", as where memory runs out" if run.killer == "SIGKILL" else ""
    return f"exit code {run.exit_code} ({run.killer}{why})"
