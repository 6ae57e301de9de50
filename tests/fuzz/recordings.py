"""Recordings: their records changed field by field, their notes value by value, their files damaged, emptied or taken away."""

from __future__ import annotations

import json
import random
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from fuzz.case import Target
from fuzz.odd import INT64, cut, odd, places, put_odd, scribbled, shown
from made_events import Events
from made_experiments import add_experiment, made_experiment
from made_machine import MadeMachine, make_machine_recording
from made_ranks import make_job
from made_recordings import START_NS, Training, make_recording
from slowstep.prove.choose import Choice
from slowstep.record.experiment.lever_text import parse_spec
from slowstep.record.writing import format as fmt

REAL = sorted((Path(__file__).parents[1] / "data/recordings").glob("*-problem.tar.xz"))
KINDS = sorted(value for name, value in vars(fmt).items() if name.isupper() and isinstance(value, int) and 0 < value < 60)
STEPS = 60


@dataclass
class Document:
    """A recording: the records of each process, its notes (texts stand in the file as they are), and other files."""

    records: dict[str, list[list[int]]] = field(default_factory=dict)
    notes: dict[str, list[Any]] = field(default_factory=dict)
    others: dict[str, bytes] = field(default_factory=dict)
    late: list[Callable[[Path], None]] = field(default_factory=list)


@cache
def _files(make: Callable[[Path], Any]) -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name:
        make(Path(name) / "made")
        folder = next(path for path in sorted(Path(name).rglob("launcher.jsonl"))).parent
        return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _opened(make: Callable[[Path], Any]) -> Document:
    document = Document()
    for name, raw in _files(make).items():
        if name.endswith(".rec"):
            whole = raw[: len(raw) // fmt.RECORD_BYTES * fmt.RECORD_BYTES]
            document.records[name] = [list(record) for record in fmt.RECORD.iter_unpack(whole) if record[-1]]
        elif name.endswith(".jsonl"):
            document.notes[name] = [json.loads(line) for line in raw.decode().splitlines()]
        else:
            document.others[name] = raw
    return document


def _write(document: Document, folder: Path) -> Path:
    path = folder / "recording"
    path.mkdir()
    for name, records in document.records.items():
        (path / name).write_bytes(b"".join(_packed(record) for record in records))
    for name, notes in document.notes.items():
        lines = (note if isinstance(note, str) else json.dumps(note) for note in notes)
        (path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", errors="surrogatepass")
    for name, raw in document.others.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(raw)
    for change in document.late:
        change(path)
    return path


_BITS = {"Q": (0, 64), "q": (63, 63), "I": (0, 32), "H": (0, 16), "B": (0, 8)}


def _packed(record: list[int]) -> bytes:
    """A record whose fields are what fits of them."""
    fitting = []
    for value, letter in zip(record, fmt.RECORD.format.lstrip("<"), strict=True):
        below, above = _BITS[letter]
        fitting.append(min(max(value, -(2**below) if below else 0), 2**above - 1))
    return fmt.RECORD.pack(*fitting)


# Records.


def _record_kind(document: Document, rng: random.Random) -> tuple[str, int] | None:
    """A file, and a kind of records in it: each as likely as another, however many there are."""
    found = sorted({(name, record[-1]) for name, records in document.records.items() for record in records})
    return rng.choice(found) if found else None


def _some(document: Document, rng: random.Random) -> tuple[str, list[list[int]]] | None:
    """One record of a kind, or half, or all of them, and what they are."""
    found = _record_kind(document, rng)
    if found is None:
        return None
    name, kind = found
    records = [record for record in document.records[name] if record[-1] == kind]
    share = rng.choice((0.0, 0.5, 1.0))
    chosen = [record for record in records if rng.random() < share] or [rng.choice(records)]
    return f"{len(chosen)} records of kind {kind} in {name}", chosen


def _record_field(document: Document, rng: random.Random) -> str | None:
    if (found := _some(document, rng)) is None:
        return None
    words, records = found
    at, value, relative = rng.randrange(2, 8), rng.choice(INT64), rng.random() < 0.2
    for record in records:
        record[at] = record[at] + value if relative else value
    return f"{fmt.FIELDS[at]} {'+' if relative else '->'} {value} of {words}"


def _record_times(document: Document, rng: random.Random) -> str | None:
    if (found := _some(document, rng)) is None:
        return None
    words, records = found
    first, by = records[0], rng.choice(INT64)
    ways: dict[str, Callable[[int, int], tuple[int, int]]] = {
        "no length": lambda t0, t1: (t1, t1),
        "no length, at the begin": lambda t0, t1: (t0, t0),
        "all alike": lambda t0, t1: (first[0], first[1]),
        "swapped": lambda t0, t1: (t1, t0),
        "moved": lambda t0, t1: (t0 + by, t1 + by),
        "begins with all": lambda t0, t1: (START_NS, t1),
        "at zero": lambda t0, t1: (0, t1 - t0),
        "longer": lambda t0, t1: (t0, t1 + abs(by)),
        "at the end of time": lambda t0, t1: (2**63 - 1, 2**63 - 1),
    }
    how = rng.choice(sorted(ways))
    for record in records:
        record[0], record[1] = ways[how](record[0], record[1])
    return f"times {how}{f' by {by}' if how in ('moved', 'longer') else ''} of {words}"


def _record_other_kind(document: Document, rng: random.Random) -> str | None:
    if (found := _some(document, rng)) is None:
        return None
    words, records = found
    kind = rng.choice(KINDS)
    for record in records:
        record[-1] = kind
    return f"kind -> {kind} of {words}"


def _records_gone(document: Document, rng: random.Random) -> str | None:
    if (found := _some(document, rng)) is None:
        return None
    words, gone = found
    for name, records in document.records.items():
        document.records[name] = [record for record in records if not any(record is each for each in gone)]
    return f"without {words}"


def _records_kept(document: Document, rng: random.Random) -> str | None:
    """The begin of what each process wrote, or the end."""
    share, end = rng.choice((0.0, 0.01, 0.02, 0.05, 0.1, 0.5)), rng.random() < 0.3
    for name, records in document.records.items():
        count = int(len(records) * share)
        document.records[name] = records[len(records) - count :] if end else records[:count]
    return f"{'the last' if end else 'the first'} {share:.0%} of all records"


def _records_twice(document: Document, rng: random.Random) -> str | None:
    if (found := _some(document, rng)) is None:
        return None
    words, records = found
    target = rng.choice(sorted(document.records))
    document.records[target] += [list(record) for record in records]
    return f"once more in {target}: {words}"


def _records_shuffled(document: Document, rng: random.Random) -> str | None:
    name = rng.choice(sorted(document.records) or [""])
    rng.shuffle(document.records.get(name, []))
    return f"{name} in another order"


def _few_updates(document: Document, rng: random.Random) -> str | None:
    kept = rng.choice((0, 1, 2, 3, 4, 6, 10))
    for name, records in document.records.items():
        updates = sorted(record[1] for record in records if record[-1] in (fmt.UPDATE, fmt.STEP))
        if len(updates) > kept:
            document.records[name] = [record for record in records if record[1] <= (updates[kept - 1] if kept else START_NS)]
    return f"{kept} updates"


def _no_stacks(document: Document, rng: random.Random) -> str | None:
    left = rng.choice((0, 1, 2, 5))
    for name, records in document.records.items():
        stacks = [record for record in records if record[-1] == fmt.STACK]
        kept = rng.sample(stacks, min(left, len(stacks)))
        document.records[name] = [record for record in records if record[-1] != fmt.STACK or any(record is each for each in kept)]
    return f"{left} stacks"


def _records_clock(document: Document, rng: random.Random) -> str | None:
    name, by = rng.choice(sorted(document.records) or [""]), rng.choice((10**6, 10**9, -(10**9), 10**15, -(10**8), 3_600 * 10**9))
    for record in document.records.get(name, []):
        record[0], record[1] = record[0] + by, record[1] + by
    return f"{name}: a clock that differs by {by} ns"


# Notes.


def _note(document: Document, rng: random.Random) -> tuple[list[Any], int] | None:
    """A note, and the list in which it stands: of each kind as likely as of another."""
    found: dict[tuple[str, str], list[int]] = {}
    for name, notes in document.notes.items():
        for at, note in enumerate(notes):
            if isinstance(note, dict):
                found.setdefault((name, str(note.get("kind"))), []).append(at)
    if not found:
        return None
    chosen = rng.choice(sorted(found))
    return document.notes[chosen[0]], rng.choice(found[chosen])


def _note_value(document: Document, rng: random.Random) -> str | None:
    found = _note(document, rng)
    inside = list(places(found[0][found[1]])) if found else []
    inside = [(holder, key) for holder, key in inside if key != "kind"]
    # What stands at the top is as likely as all that is nested.
    top = [place for place in inside if found and place[0] is found[0][found[1]]]
    chosen = rng.choice(rng.choice((top, inside))) if inside else None
    return f"note {found[0][found[1]].get('kind')}: {put_odd(*chosen, rng)}" if chosen and found else None


def _note_values(document: Document, rng: random.Random) -> str | None:
    """One key of all notes of a kind."""
    found = _note(document, rng)
    if found is None:
        return None
    kind = found[0][found[1]].get("kind")
    key = rng.choice(sorted(found[0][found[1]]))
    value = odd(rng, found[0][found[1]][key])
    for note in found[0]:
        if isinstance(note, dict) and note.get("kind") == kind and key in note:
            note[key] = value
    return f"all notes {kind}: {key!r} -> {shown(value)}"


def _note_missing(document: Document, rng: random.Random) -> str | None:
    found = _note(document, rng)
    if found is None:
        return None
    note = found[0][found[1]]
    key = rng.choice(sorted(note))
    del note[key]
    return f"a note {note.get('kind')} without {key!r}"


def _note_more(document: Document, rng: random.Random) -> str | None:
    """A key that notes of other kinds have."""
    found, other = _note(document, rng), _note(document, rng)
    if found is None or other is None:
        return None
    note, keys = found[0][found[1]], sorted(other[0][other[1]])
    key = rng.choice(keys)
    note[key] = odd(rng, other[0][other[1]][key])
    return f"a note {note.get('kind')} with {key!r}: {shown(note[key])}"


def _note_other_kind(document: Document, rng: random.Random) -> str | None:
    found, other = _note(document, rng), _note(document, rng)
    if found is None or other is None:
        return None
    note, kind = found[0][found[1]], other[0][other[1]].get("kind")
    before, note["kind"] = note.get("kind"), kind
    return f"a note {before} is of kind {kind}"


def _note_gone(document: Document, rng: random.Random) -> str | None:
    found = _note(document, rng)
    if found is None:
        return None
    notes, kind = found[0], found[0][found[1]].get("kind")
    if rng.random() < 0.5:
        del notes[found[1]]
        return f"without a note {kind}"
    notes[:] = [note for note in notes if not (isinstance(note, dict) and note.get("kind") == kind)]
    return f"without all notes {kind}"


def _note_twice(document: Document, rng: random.Random) -> str | None:
    found = _note(document, rng)
    if found is None:
        return None
    notes, note = found[0], json.loads(json.dumps(found[0][found[1]]))
    inside = [place for place in places(note) if place[1] != "kind"]
    said = put_odd(*rng.choice(inside), rng) if inside and rng.random() < 0.5 else "as it is"
    notes.insert(rng.randrange(len(notes) + 1), note)
    return f"a note {note.get('kind')} once more, {said}"


def _note_elsewhere(document: Document, rng: random.Random) -> str | None:
    found = _note(document, rng)
    if found is None:
        return None
    target = rng.choice(sorted(document.notes))
    note = found[0].pop(found[1])
    document.notes[target].append(note)
    return f"a note {note.get('kind')} stands in {target}"


def _notes_shuffled(document: Document, rng: random.Random) -> str | None:
    name = rng.choice(sorted(document.notes))
    rng.shuffle(document.notes[name])
    return f"{name} in another order"


def _line(document: Document, rng: random.Random) -> str | None:
    notes = document.notes[rng.choice(sorted(document.notes))]
    value = odd(rng)
    text = rng.choice((json.dumps(value), "[]", "{", '{"kind": ', "\x00\x00", '{"kind": "text", "id": 5', "[" * 3000))
    notes.insert(rng.randrange(len(notes) + 1), text.replace("\n", " "))
    return f"a line {shown(text)}"


# Files.


def _file(document: Document, rng: random.Random) -> str | None:
    names = sorted([*document.records, *document.notes, *document.others])
    name, how = rng.choice(names), rng.choice(("gone", "empty", "cut", "scribbled", "garbage", "another's"))
    seed, other = rng.randrange(2**32), rng.choice(names)
    document.late.append(partial(_damage, name, how, seed, other))
    return f"{name}: {how}{f' ({other})' if how == chr(39) else ''}"


def _damage(name: str, how: str, seed: int, other: str, folder: Path) -> None:
    rng, file = random.Random(seed), folder / name
    if not file.exists():
        return
    if how == "gone":
        file.unlink()
        return
    raw, others = file.read_bytes(), (folder / other).read_bytes() if (folder / other).exists() else b""
    ways = {"empty": b"", "cut": cut(raw, rng), "scribbled": scribbled(raw, rng), "garbage": rng.randbytes(3000), "another's": others}
    file.write_bytes(ways[how])


def _other_value(document: Document, rng: random.Random) -> str | None:
    """A value in a file of JSON beside the recording's own: the plan of an experiment, and what became of it."""
    names = sorted(name for name in document.others if name.endswith(".json"))
    if not names:
        return None
    name = rng.choice(names)
    try:
        value = json.loads(document.others[name])
    except ValueError:
        return None
    inside = list(places(value))
    if not inside:
        return None
    said = put_odd(*rng.choice(inside), rng)
    document.others[name] = json.dumps(value).encode()
    return f"{name}: {said}"


# Bases.


def _training(**changes: Any) -> Callable[[Path], Any]:
    return lambda folder: make_recording(folder, Training(**{"steps": STEPS, "epoch_steps": 20, **changes}))


def _machine(folder: Path) -> None:
    device = {"busy": 40, "tenants": (1, 1, 1 << 30)}
    machine = MadeMachine(
        resident=lambda share: 1e9 * (1 + share), limit_bytes=4 << 30, group_bytes=lambda share: 3e9, available=lambda share: 5e9,
        swap_in_per_s=1e6, throttled=0.2, quota=2.0, affinity=(2, 1), idle_cores=1.0, queueing=2.0, pressure=0.3, disk=(1e8, 0.9),
        network_per_s=1e6, device=device, cuda=True,
    )  # fmt: skip
    make_machine_recording(folder, Training(steps=200), machine)


def _serial(folder: Path) -> None:
    events = Events(folder)
    events.loader()
    for k in range(STEPS):
        begin = 20.0 * k
        events.fetch(begin, begin + 8, k, cpu=6, other=1, storage=1000, collate=2)
        events.step(begin, batch=k, wait=8.5, length=20)
        events.mark(begin + 19, 15.0 * k, 0.1 * k)
        events.forward(begin + 9, begin + 12)
        events.span(begin + 18.5, begin + 19.0, "on_train_batch_end", line=40)
        if k % 10 == 9:
            events.save(begin + 19.2, begin + 19.8, line=44)
            events.collection(begin + 19.8, begin + 19.9)
    events.close()


def _experiment(folder: Path) -> None:
    make_recording(folder, Training(steps=STEPS, epoch_steps=20))
    end = max(record[1] for record in fmt.RECORD.iter_unpack((folder / "100-1.rec").read_bytes()) if record[-1])
    choices = tuple(Choice(spec=parse_spec(text)) for text in ("stub=__main__:after", "workers=4"))
    add_experiment(folder, made_experiment(choices, until_ns=end), {1: 1.5})


def _real(path: Path, folder: Path) -> None:
    with tarfile.open(path) as packed:
        packed.extractall(folder, filter="data")


def _alike(folder: Path) -> None:
    make_job(folder, (10.0, 14.0))


MADE: dict[str, Callable[[Path], Any]] = {
    "workers": _training(after_ms=5, saves=(10, 5), validation=(20, 10), jitter=0.1),
    "serial": _training(workers=0, getitem_ms=12, collects=(7, 4), transform=("augment", 0.7), stragglers=(9, 80)),
    "no-loader": _training(loader=False, input_ms=5, by_hand=True),
    "closures": _training(nested=True, critics=2, micro_batches=2, epoch_sizes=(8, 16, 32), last_batch=3),
    "growing": _training(optimizer_growth_ms=5, after_ms=3, after_growth_ms=4, more_kept=30, more_parameters=(500, 3), beside=(0.5, 2.0)),
    "events": _serial,
    "ranks": _alike,
    "machine": _machine,
    "experiment": _experiment,
}
TARGET = Target(
    name="recordings",
    bases={name: partial(_opened, make) for name, make in MADE.items()}
    | {path.name.removesuffix(".tar.xz"): partial(_opened, partial(_real, path)) for path in REAL},
    changes={
        "record-field": _record_field,
        "record-times": _record_times,
        "record-kind": _record_other_kind,
        "records-gone": _records_gone,
        "records-kept": _records_kept,
        "records-twice": _records_twice,
        "records-shuffled": _records_shuffled,
        "records-clock": _records_clock,
        "few-updates": _few_updates,
        "no-stacks": _no_stacks,
        "note-value": _note_value,
        "note-values": _note_values,
        "note-missing": _note_missing,
        "note-more": _note_more,
        "note-kind": _note_other_kind,
        "note-gone": _note_gone,
        "note-twice": _note_twice,
        "note-elsewhere": _note_elsewhere,
        "notes-shuffled": _notes_shuffled,
        "line": _line,
        "file": _file,
        "other-value": _other_value,
    },
    write=_write,
)
