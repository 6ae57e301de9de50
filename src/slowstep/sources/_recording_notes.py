"""The notes of a recorded process: what its .jsonl file says, line by line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slowstep.health import SEVERITIES, Health
from slowstep.record.format import FORMAT_VERSION
from slowstep.timeline.timeline import Frame, ProcessFacts, RunFacts, Session

Note = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Notes:
    """All lines of one file, by kind."""

    lines: dict[str, list[Note]]
    texts: dict[int, str]
    places: dict[int, tuple[str, int]]  # file and line of what some of the texts name
    health: tuple[Health, ...]

    def of(self, kind: str) -> list[Note]:
        """The lines of a kind, in order."""
        return self.lines.get(kind, [])

    def last(self, kind: str) -> Note:
        """The last line of a kind; empty where there is none."""
        return self.of(kind)[-1] if self.of(kind) else {}

    def timed_calls(self) -> list[Note]:
        """The last line of each kind of timed calls: times add up over the stretches."""
        return list({note["of"]: note for note in self.of("calls")}.values())

    @property
    def process(self) -> Note:
        """What the process said of itself; a later line completes an earlier one (a trainer that turns out to be a worker)."""
        return {key: value for line in self.of("process") for key, value in line.items() if value is not None}

    @property
    def role(self) -> str:
        """trainer, worker or launcher."""
        return str(self.process.get("role", "trainer"))

    @property
    def pid(self) -> int:
        """Process id; -1 where the first line is lost."""
        return int(self.process.get("pid", -1))

    @property
    def started_ns(self) -> int:
        """When recording began in it; 0 where the first line is lost."""
        return int(self.process.get("started_ns", 0))

    @property
    def ended(self) -> bool:
        """Whether it closed its recording itself."""
        return bool(self.of("end") or self.of("exit"))


def read_notes(path: Path) -> Notes:
    """Read a .jsonl file; lines that are torn or malformed are counted, not raised. Raises OSError where it cannot be read."""
    lines: dict[str, list[Note]] = {}
    bad = 0
    for raw in path.read_bytes().split(b"\n"):
        note = _parsed(raw)
        if note is not None and _fits(note):
            lines.setdefault(str(note.get("kind")), []).append(note)
        elif raw.strip(b"\0 \r"):
            bad += 1
    health = [_health(row) for row in lines.get("health", [])]
    if bad:
        health.append(Health(name="torn-notes", severity="notice", count=bad, remedy="lines that a process did not finish writing"))
    version = max((int(note.get("format", FORMAT_VERSION)) for note in lines.get("process", [])), default=FORMAT_VERSION)
    if version > FORMAT_VERSION:
        remedy = f"written by a newer slowstep (format {version}, this one reads {FORMAT_VERSION}): upgrade slowstep"
        health.append(Health(name="newer-format", severity="error", count=1, remedy=remedy))
    health += [_off(row) for row in lines.get("hook", []) if row.get("state") == "off"]
    texts = {int(row["id"]): str(row["text"]) for row in lines.get("text", [])}
    places = {int(row["text"]): (str(row["file"]), int(row["line"])) for row in lines.get("place", [])}
    return Notes(lines=lines, texts=texts, places=places, health=tuple(health))


def _parsed(raw: bytes) -> Note | None:
    try:
        note = json.loads(raw)
    except ValueError:
        return None
    return note if isinstance(note, dict) else None


def _fits(note: Note) -> bool:
    """Whether what is read from a line of its kind is there and of its type."""
    kind = str(note.get("kind"))
    if (kind == "calls" and not _calls_fit(note)) or (kind == "builtins" and not _builtins_fit(note)):
        return False
    if kind == "batch" and not (isinstance(note.get("types"), dict) and all(_is(size, int) for size in note["types"].values())):
        return False
    if kind == "cells" and not (isinstance(note.get("cells"), dict) and all(_is(number, int) for number in note["cells"].values())):
        return False
    if kind == "lines" and not _lines_fit(note):
        return False
    needed = all(_is(note.get(key), kinds) for key, kinds in _NEEDED.get(kind, {}).items())
    if kind in ("training_path", "forward_path") and not _path_fits(note):
        return False
    return needed and all(note.get(key) is None or _is(note[key], kinds) for key, kinds in _OPTIONAL.get(kind, {}).items())


def _path_fits(note: Note) -> bool:
    frames = note.get("frames")
    return isinstance(frames, list) and all(
        isinstance(frame, list) and len(frame) == 4 and all(map(_is, frame, (str, str, int, int))) for frame in frames
    )


def _calls_fit(note: Note) -> bool:
    functions = note.get("functions")
    if not isinstance(functions, list) or not all(isinstance(function, dict) for function in functions):
        return False
    numbers = ("line", "total_ns", "own_ns")
    return all(
        all(_is(f.get(key), int) for key in numbers)
        and all(_is(f.get(key), str) for key in ("file", "function"))
        and isinstance(f.get("callees"), list)
        and (f.get("calls") is None or _is(f["calls"], int))
        and all(
            isinstance(edge, list) and len(edge) == 2 and _is(edge, list) and _is(edge[0], int) and _is(edge[1], int)
            for edge in f["callees"]
        )
        for f in functions
    )


def _builtins_fit(note: Note) -> bool:
    rows = note.get("rows")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return False
    return all(
        _is(row.get("function"), str)
        and all(_is(row.get(key), int) for key in ("calls", "total_ns"))
        and (row.get("file") is None or _is(row["file"], str))
        and (row.get("line") is None or _is(row["line"], int))
        and isinstance(row.get("callers"), list)
        and all(isinstance(c, list) and len(c) == 5 and _is(c[0], str) and _is(c[1], str) and _is(c[2], int) for c in row["callers"])
        for row in rows
    )


def _lines_fit(note: Note) -> bool:
    lines = note.get("lines")
    numbers, texts = ("first_line", "line", "count", "ns"), ("file", "function")
    return isinstance(lines, list) and all(
        isinstance(line, dict) and all(_is(line.get(key), int) for key in numbers) and all(_is(line.get(key), str) for key in texts)
        for line in lines
    )


def _is(value: Any, kind: type) -> bool:
    """Whether a value is of a type; a list holds numbers or texts, and a number fits into 64 bits."""
    if kind is list:
        return isinstance(value, list) and all(isinstance(item, (int, str)) for item in value)
    if kind is float:
        return isinstance(value, (int, float))
    return isinstance(value, kind) and not (isinstance(value, int) and abs(value) >= 2**63)


_FRAME: dict[str, type] = {"file": str, "function": str, "line": int, "first_line": int}
_GPU_NUMBERS = (
    "memory_bytes",
    "most_sm_mhz",
    "most_memory_mhz",
    "power_limit_mw",
    "default_power_limit_mw",
    "link_generation",
    "link_lanes",
)
_NEEDED: dict[str, dict[str, type]] = {
    "text": {"id": int, "text": str},
    "place": {"text": int, "file": str, "line": int},
    "frame": {"id": int, **_FRAME},
    "stack": {"id": int, "frames": list},
    "iterator": {"id": int, "num_workers": int},
    "training_frame": _FRAME,
    "forward_frame": _FRAME,
    "calls": {"of": str, "stretches": int},
    "prompt": {"at_ns": int},
    "disk": {"id": int, "name": str},
    "gpu": {"id": int},
    "builtins": {"samples": int, "wall_ns": int},
    "batch": {"tensors": int, "bytes": int, "spare_bytes": int},
    "capture": {"state": str, "begin_ns": int, "end_ns": int},
}
_OPTIONAL: dict[str, dict[str, type]] = {
    "process": {"pid": int, "ppid": int, "started_ns": int, "format": int, "cores_allowed": int, "script": str, "torch": str, "env": dict}
    | {"memory_available_bytes": int},
    "iterator": {"loader": int, "prefetch_factor": int, "batch_size": int, "workers": list, "dataset": str, "collate": str}
    | {"persistent": bool}
    | {"collate_file": str, "collate_line": int, "is_default_collate": bool, "dataset_length": int},
    "facts": {"threads": int, "accelerators": dict, "accelerator_built": bool, "world_size": int, "rank": int},
    "rank": {"rank": int, "world_size": int},
    "capture": {"file": str, "reason": str, "first": int, "last": int},
    "startup": {"import_began_ns": int, "activated_ns": int},
    "optimizer": {"id": int, "params": int, "dtypes": dict, "device": str},
    "calls": {"wall_ns": int, "slowdown": float},
    "graph": {"nodes": int, "elements": int},
    "cost": {"event_ns": float, "events": int, "sampler_cpu_ns": int},
    "health": {"count": int},
    "run": {"name": str, "command": list, "started": str, "started_ns": int, "warmup": int}
    | {"started_in": str, "recorded_from_ns": int, "thread": int}
    | {"host": str, "launcher_rank": int, "launchers": int},
    "gpu": {"name": str, "uuid": str} | dict.fromkeys(_GPU_NUMBERS, int),
    "exit": {"ended_ns": int, "code": int, "by": str, "signals": list},
}


def _health(row: Note) -> Health:
    return Health(
        name=str(row.get("name")),
        severity=row["severity"] if row.get("severity") in SEVERITIES else "notice",
        count=max(int(row.get("count") or 1), 1),
        remedy=str(row.get("remedy", "")),
    )


def _off(row: Note) -> Health:
    return Health(
        name=f"hook-off:{row.get('name')}",
        severity="notice",
        count=1,
        remedy=str(row.get("reason") or "does not fit the installed version"),
    )


def process_facts(notes: Notes) -> ProcessFacts:
    """What the notes of one process say of it."""
    process, facts, cost = notes.process, notes.last("facts"), notes.last("cost")
    return ProcessFacts(
        pid=notes.pid,
        role=notes.role,
        script=process.get("script"),
        cwd=process.get("cwd"),
        python=process.get("python"),
        torch=process.get("torch"),
        cores_allowed=process.get("cores_allowed"),
        cpu_quota=process.get("cpu_quota"),
        threads=facts.get("threads"),
        training_frames={int(note.get("optimizer", 0)): frame for note in notes.of("training_frame") if (frame := _frame(note))},
        forward_frame=_frame(notes.last("forward_frame")),
        training_paths={int(note.get("optimizer", 0)): _path(note) for note in notes.of("training_path")},
        forward_path=_path(notes.last("forward_path")),
        graph_nodes=notes.last("graph").get("nodes"),
        graph_elements=notes.last("graph").get("elements"),
        event_cost_ns=cost.get("event_ns"),
        events=cost.get("events"),
        sampler_cpu_ns=cost.get("sampler_cpu_ns"),
        notes={
            "facts": facts,
            "optimizers": notes.of("optimizer"),
            "captures": notes.of("capture"),
            "env": process.get("env"),
            "startup": notes.last("startup"),
        },
        memory_available_bytes=process.get("memory_available_bytes"),
        **_membership(notes),
    )


def _membership(notes: Notes) -> dict[str, int | None]:
    """Rank and size of the job: as the process group says, else as the environment of a launcher of ranks does; None outside of one."""
    said = notes.last("rank") or notes.last("facts")
    variables = notes.process.get("env")
    given = variables if isinstance(variables, dict) else {}
    world_size, rank = said.get("world_size"), said.get("rank")
    if not world_size:
        world_size, rank = _number(given.get("WORLD_SIZE")), _number(given.get("RANK"))
    if world_size is None or rank is None or world_size < 2:
        return {}
    return {"rank": rank, "world_size": world_size, "local_world_size": _number(given.get("LOCAL_WORLD_SIZE"))}


def _number(text: object) -> int | None:
    return int(text) if isinstance(text, str) and text.isdecimal() else None


def _frame(note: Note) -> Frame | None:
    if not note:
        return None
    return Frame(file=note["file"], function=note["function"], first_line=note.get("first_line", 0), line=note.get("line", 0))


def _path(note: Note) -> tuple[Frame, ...]:
    frames = note.get("frames", ())
    return tuple(Frame(file=file, function=function, first_line=first, line=line) for file, function, first, line in frames)


def run_facts(folder: str, launchers: list[Notes]) -> RunFacts:
    """What the launcher said of the run; a folder without its notes gets its own name and nothing else."""
    notes = launchers[0] if launchers else Notes(lines={}, texts={}, places={}, health=())
    run, ending = notes.last("run"), notes.last("exit")
    command = run.get("command")
    return RunFacts(
        name=str(run.get("name") or folder),
        command=tuple(str(word) for word in command or ()),
        started=run.get("started"),
        started_ns=run.get("started_ns"),
        ended_ns=ending.get("ended_ns"),
        exit_code=ending.get("code"),
        stop_signals=tuple(str(name) for name in ending.get("signals") or ()),
        warmup=run.get("warmup"),
        session=_session(notes),
        host=run.get("host"),
        launcher_rank=run.get("launcher_rank"),
        launchers=run.get("launchers"),
        cores_allowed=notes.process.get("cores_allowed"),
    )


def _session(launcher: Notes) -> Session | None:
    run = launcher.last("run")
    if not {"started_in", "recorded_from_ns", "thread"} <= run.keys():
        return None
    prompts = sorted(note["at_ns"] for note in launcher.of("prompt"))
    return Session(kind=run["started_in"], from_ns=run["recorded_from_ns"], thread=run["thread"], prompts_ns=tuple(prompts))
