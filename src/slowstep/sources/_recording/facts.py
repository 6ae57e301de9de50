"""What the notes of a recording say of its processes."""

from __future__ import annotations

from typing import Any

from slowstep.frameworks._known import DEFAULT
from slowstep.sources._recording.by_hand import place_of, stand_ins, users_of_gradients
from slowstep.sources._recording.damage import RecordCounts
from slowstep.sources._recording.fit import NoteLine
from slowstep.sources._recording.notes import NoteLines
from slowstep.sources._recording.records import WrittenRecords
from slowstep.timeline.timeline import CallOperations, CallWork, Frame, FrameworkFacts, Loops, ProcessFacts, call_in


def process_facts(notes: NoteLines, written: WrittenRecords | None = None, kept: RecordCounts | None = None) -> ProcessFacts:
    """What the notes of one process say of it, and how many events it has written. Of a part that is `kept`, what that part cost."""
    process, facts, cost = notes.process, notes.last("facts"), notes.last("cost")
    share = 1.0 if kept is None else kept.share
    framework = str(facts.get("framework") or DEFAULT)
    return ProcessFacts(
        pid=notes.pid,
        role=notes.role,
        script=process.get("script"),
        cwd=process.get("cwd"),
        python=process.get("python"),
        framework=framework,
        framework_version=process.get(framework),
        frameworks=_frameworks(notes),
        framework_of=_framework_of(notes),
        cores_allowed=process.get("cores_allowed"),
        physical_cores=process.get("physical_cores"),
        cpu_flags=None if process.get("cpu_flags") is None else frozenset(process["cpu_flags"]),
        cpu_quota=process.get("cpu_quota"),
        threads=facts.get("threads"),
        training_frames={int(note.get("optimizer", 0)): frame for note in notes.of("training_frame") if (frame := _frame(note))},
        forward_frame=_frame(notes.last("forward_frame")),
        training_paths={int(note.get("optimizer", 0)): _path(note) for note in notes.of("training_path")},
        forward_path=_path(notes.last("forward_path")),
        inner_loops={int(note["optimizer"]): _loops(note) for note in notes.of("loops")},
        loops_around={int(note["optimizer"]): _loops(note) for note in notes.of("loops_around")},
        by_hand=stand_ins(notes),
        uses_gradients=users_of_gradients(notes),
        hands_over=frozenset(place_of(row) for row in notes.of("frame") if row.get("hands_over") is True),
        graph_nodes=notes.last("graph").get("nodes"),
        graph_elements=notes.last("graph").get("elements"),
        operations=_operations(notes),
        event_cost_ns=cost.get("event_ns"),
        # A process that was killed has counted some seconds ago, and one under experiment before it began.
        events=_events(cost.get("events"), written, share),
        spent_ns=int((cost.get("spent_ns") or 0) * share),
        sampler_cpu_ns=None if (sampler_ns := cost.get("sampler_cpu_ns")) is None else int(sampler_ns * share),
        once_cpu_ns=cost.get("once_cpu_ns"),
        sampling=tuple(point for note in notes.of("cost") if (point := _sampling(note)) is not None),
        notes=_as_they_are(notes),
        memory_available_bytes=process.get("memory_available_bytes"),
        left_ns=_left_ns(notes),
        level=process.get("level"),
        lost_notes=notes.malformed,
        raised=notes.last("end").get("raised") or notes.last("interrupted").get("by"),
        import_path=tuple(str(entry) for entry in process.get("import_path") or ()),
        **_membership(notes),
    )


def _frameworks(notes: NoteLines) -> dict[str, FrameworkFacts]:
    """Those that have said of themselves what they use; of one that has done so twice, as in a forked process, the last word counts."""
    said = {str(note.get("framework") or ""): note for note in notes.of("facts")}
    return {name: FrameworkFacts(version=notes.process.get(name), facts=note) for name, note in said.items() if name}


def _framework_of(notes: NoteLines) -> dict[int, str]:
    """The framework of each optimizer that has said it."""
    return {note["id"]: note["framework"] for note in notes.of("optimizer") if note.get("id") is not None and note.get("framework")}


def _as_they_are(notes: NoteLines) -> dict[str, Any]:
    """The notes that analyses read themselves, each by what it tells."""
    return {
        "facts": notes.last("facts"),
        "optimizers": notes.of("optimizer"),
        "tables": notes.last("tables"),
        "captures": notes.of("capture"),
        "gap_lines": notes.last("gap_lines"),
        "levers": notes.of("lever"),
        "hooks": notes.of("hook"),
        "env": notes.process.get("env"),
        "startup": notes.last("startup"),
        "dispatched": notes.of("dispatched"),
        "untimed": [note["why"] for note in notes.of("untimed")],
        "end": notes.last("end").get("reason"),
    }


def _operations(notes: NoteLines) -> dict[str, CallOperations]:
    """Of each framework that has traced one function that trains; where there are several nothing shows which one a step is a call of."""
    traced: dict[str, list[NoteLine]] = {}
    for note in notes.of("operations"):
        traced.setdefault(note["framework"], []).append(note)
    return {name: _of_all(found) for name, found in traced.items() if len({note["function"] for note in found}) == 1}


def _of_all(traces: list[NoteLine]) -> CallOperations:
    """Bounds for all of a function's traces, as for other shapes."""
    return CallOperations(
        fewest=min(note["fewest"] for note in traces),
        most=_largest([note.get("most") for note in traces]),
        elements=_largest([note.get("elements") for note in traces]),
        work=_work_of_all(traces),
    )


def _work_of_all(traces: list[NoteLine]) -> CallWork | None:
    """The least that all operations multiply, and the most that single ones compute; None where a trace does not tell all of it."""
    single = ("most_products", "sorted", "scattered", "given")
    if any(note.get(name) is None for note in traces for name in ("products", *single)):
        return None
    most = {name: max(note[name] for note in traces) for name in single}
    return CallWork(products=min(note["products"] for note in traces), **most)


def _largest(values: list[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return max(known) if len(known) == len(values) else None


def _left_ns(notes: NoteLines) -> int | None:
    end = notes.last("end")
    return end.get("ended_ns") if end.get("reason") == "exit" else None


def _sampling(note: NoteLine) -> tuple[int, int] | None:
    at_ns, cpu_ns = note.get("at_ns"), note.get("sampler_cpu_ns")
    return None if at_ns is None or cpu_ns is None else (at_ns, max(cpu_ns - (note.get("once_cpu_ns") or 0), 0))


def _events(counted: int | None, written: WrittenRecords | None, kept_share: float) -> int | None:
    if counted is None or written is None:
        return counted
    return max(int(counted * kept_share) + written.uncounted, len(written.records))


def _membership(notes: NoteLines) -> dict[str, int | None]:
    """Rank and size of the job: as the process group says, else as the environment of a launcher of ranks does; None outside of one."""
    said = notes.last("rank") or next((note for note in notes.of("facts") if note.get("world_size")), {})
    variables = notes.process.get("env")
    given = variables if isinstance(variables, dict) else {}
    world_size, rank = said.get("world_size"), said.get("rank")
    if not world_size:
        world_size, rank = _number(given.get("WORLD_SIZE")), _number(given.get("RANK"))
    if world_size is None or rank is None or world_size < 2 or not 0 <= rank < world_size:
        return {}
    return {"rank": rank, "world_size": world_size, "local_world_size": _number(given.get("LOCAL_WORLD_SIZE"))}


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _frame(note: NoteLine) -> Frame | None:
    if not note:
        return None
    return Frame(file=note["file"], function=note["function"], first_line=note.get("first_line", 0), line=note.get("line", 0))


def _path(note: NoteLine) -> tuple[Frame, ...]:
    frames = note.get("frames", ())
    calls = note.get("calls") or [None] * len(frames)
    rows = zip(frames, calls, strict=True)
    return tuple(
        Frame(file=file, function=name, first_line=first, line=line, call=call_in(call)) for (file, name, first, line), call in rows
    )


def _loops(note: NoteLine) -> Loops:
    return {(file, function, first): spans for file, function, first, spans in note["functions"]}
