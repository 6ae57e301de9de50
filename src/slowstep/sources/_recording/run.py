"""What the notes of a recording's launcher say of the run as a whole."""

from __future__ import annotations

from slowstep.sources._recording.fit import NoteLine
from slowstep.sources._recording.notes import NoteLines
from slowstep.timeline.run_facts import RunFacts, Session


def run_facts(folder: str, launchers: list[NoteLines], cut_ns: int | None = None) -> RunFacts:
    """What the launcher said of the run; a folder without its notes gets its own name and nothing else.

    A recording that was cut for an experiment ends there, and what became of the command then is the experiment's.
    """
    notes = launchers[0] if launchers else NoteLines(lines={}, texts={}, places={}, health=())
    run = notes.last("run")
    ending: NoteLine = notes.last("exit") if cut_ns is None else {"ended_ns": cut_ns}
    command = run.get("command")
    return RunFacts(
        name=str(run.get("name") or folder),
        command=tuple(str(word) for word in command or ()),
        started=run.get("started"),
        started_ns=run.get("started_ns"),
        ended_ns=ending.get("ended_ns"),
        experiment_ns=cut_ns,
        exit_code=ending.get("code"),
        stop_signals=tuple(str(name) for name in ending.get("signals") or ()),
        received=tuple(str(name) for name in ending.get("received") or ()),
        told=None if ending.get("told") is None else tuple(str(name) for name in ending["told"]),
        warmup=run.get("warmup"),
        # An experiment ends its script whatever was asked for.
        stops=bool(run.get("stop")) and not (run.get("steps") is None and run.get("seconds") is None),
        asked_steps=run.get("steps"),
        asked_seconds=run.get("seconds"),
        asked_capture=tuple(run.get("capture") or ()) or None,
        session=_session(notes),
        folder=notes.process.get("cwd"),
        host=run.get("host"),
        launcher_rank=run.get("launcher_rank"),
        launchers=run.get("launchers"),
        levers=tuple(str(name) for name in run.get("levers") or ()),
        cores_allowed=notes.process.get("cores_allowed"),
        not_read=tuple((str(note["monitor"]), str(note.get("reason") or "")) for note in notes.of("absent") if "monitor" in note),
    )


def _session(launcher: NoteLines) -> Session | None:
    run = launcher.last("run")
    if None in (run.get("started_in"), run.get("recorded_from_ns"), run.get("thread")):
        return None
    prompts = sorted(note["at_ns"] for note in launcher.of("prompt"))
    return Session(kind=run["started_in"], from_ns=run["recorded_from_ns"], thread=run["thread"], prompts_ns=tuple(prompts))
