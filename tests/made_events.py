"""Recordings written event by event, for what no simulation makes: times are ms since the start of the recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from made_recordings import DATA, LOOP, MS, SCRIPT, START_NS, TRAINER_PID, TRAINER_THREAD, Writer
from slowstep.record.writing import format as fmt
from slowstep.sources._source import PLAIN
from slowstep.sources.recording import SOURCE
from slowstep.stages import STAGES
from slowstep.timeline.timeline import Timeline


def at(ms: float) -> int:
    """An instant of the recording in ns."""
    return START_NS + round(ms * MS)


class Events:
    """One training process, its loader's workers and the launcher."""

    def __init__(self, folder: Path, *, cores: int = 4, pid: int = TRAINER_PID, rank: tuple[int, int] | None = None) -> None:
        """`rank` is the process's rank and of how many; several with different `pid` may share a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.trainer = Writer(folder, f"{pid}-1")
        self.launcher = Writer(folder, "launcher")
        self.workers: dict[int, Writer] = {}
        self.trainer.lines += [
            {**_process(pid, "trainer"), "script": SCRIPT, "cores_allowed": cores},
            {"kind": "training_frame", "optimizer": 0, **dict(zip(("file", "function", "first_line", "line"), LOOP, strict=True))},
        ]
        if rank is not None:
            self.trainer.lines.append({"kind": "rank", "rank": rank[0], "world_size": rank[1], "backend": "gloo"})
        self.launcher.lines += [_process(50, "launcher"), {"kind": "run", "name": "train.py", "command": ["train.py"]}]

    def loader(self, *, iterator: int = 0, loader: int = 0, workers: int = 0, begin: float = 0.0, end: float = 0.0, **said: Any) -> None:
        """One more iterator of a loader; `said` is what else its note says."""
        pids = [200 + i for i in range(workers)]
        self.trainer.lines.append({"kind": "iterator", "id": iterator, "loader": loader, "num_workers": workers, "workers": pids, **said})
        self._event(fmt.START, begin, end, iterator, loader, workers)

    def wait(self, begin: float, end: float, batch: int = 0, *, iterator: int = 0, samples: int = 16, flags: int = 0) -> None:
        """A request for a batch, of which -1 samples are unknown."""
        self._event(fmt.WAIT, begin, end, iterator, batch, samples, flags=flags, extra=fmt.READY_UNKNOWN)

    def shutdown(self, begin: float, end: float, *, iterator: int) -> None:
        """The end of an iterator's workers, or of what it holds."""
        self._event(fmt.SHUTDOWN, begin, end, iterator)

    def collection(self, begin: float, end: float, *, generation: int = 2) -> None:
        """Of garbage, on the training thread."""
        self._event(fmt.COLLECTION, begin, end, generation, 0)

    def update(self, begin: float, end: float, optimizer: int = 0, *, thread: int = TRAINER_THREAD) -> None:
        self._event(fmt.UPDATE, begin, end, optimizer, thread=thread)

    def backward(self, begin: float, end: float) -> None:
        self._event(fmt.BACKWARD, begin, end)

    def backward_cpu(self, begin: float, end: float, *, cpu: float, delay: float = 0.0, sync: int = fmt.SYNC_UNKNOWN) -> None:
        """What a backward cost its thread, ms, and whether it shared gradients; a negative delay is unknown."""
        self._event(fmt.BACKWARD_CPU, begin, end, cpu * MS, delay * MS if delay >= 0 else -1, extra=sync)

    def collective(self, begin: float, end: float, name: str = "all_reduce") -> None:
        text = {"kind": "text", "id": 7, "text": name}
        if text not in self.trainer.lines:
            self.trainer.lines.append(text)
        self._event(fmt.SPAN, begin, end, 7, STAGES.index("gradient_sharing"))

    def span(self, begin: float, end: float, name: str, stage: str = "output", *, line: int | None = None) -> None:
        """What a framework names, or the script; with the line at which its code begins where that is the user's own."""
        text = self._text(name)
        if line is not None:
            self.trainer.lines.append({"kind": "place", "text": text, "file": SCRIPT, "line": line})
        self._event(fmt.SPAN, begin, end, text, STAGES.index(stage))

    def forward(self, begin: float, end: float, samples: int = 16, *, module: int = 0, flags: int = 0) -> None:
        self._event(fmt.FORWARD, begin, end, samples, module, flags=flags)

    def save(self, begin: float, end: float, written: int = 1000, *, function: str = "torch.save", line: int | None = None) -> None:
        """A checkpoint write, asked for by that line of the script where one is named."""
        where = 0 if line is None else self._text(f"{SCRIPT}:{line}")
        self._event(fmt.SAVE, begin, end, written, self._text(function), where, extra=int(line is not None))

    def _text(self, text: str) -> int:
        known = {row["text"]: row["id"] for row in self.trainer.lines if row["kind"] == "text"}
        if text not in known:
            # Numbers that no other helper of this class uses.
            known[text] = 1000 + len(known)
            self.trainer.lines.append({"kind": "text", "id": known[text], "text": text})
        return int(known[text])

    def mark(self, when: float, cpu_ms: float, delay_ms: float) -> None:
        self._event(fmt.CPU, when, when, cpu_ms * MS, delay_ms * MS)

    def reading(self, when: float, tree_ms: float, busy_ms: float, stolen_ms: float = 0.0) -> None:
        self.launcher.event(fmt.READING_CPU, at(when), at(when), tree_ms * MS, busy_ms * MS, stolen_ms * MS, thread=1)

    def step(self, begin: float, *, batch: int = 0, iterator: int = 0, wait: float = 1.0, length: float = 10.0) -> float:
        """A plain step: a wait, then a body whose last tenth is the optimizer. Returns when it ended."""
        end = begin + length
        self.wait(begin, begin + wait, batch, iterator=iterator)
        self.backward(begin + wait + 1, end - length / 10)
        self.update(end - length / 10, end)
        return end

    def fetch(
        self, begin: float, end: float, batch: int, *, worker: int | None = None, cpu: float, other: float = 0.0, delay: float = 0.0,
        storage: int = 0, collate: float = 0.0, iterator: int = 0, samples: int = 16
    ) -> None:  # fmt: skip
        """A batch made by a worker, or by the training thread itself. Times in ms; `collate` is CPU time at its end."""
        writer, thread = (self.trainer, TRAINER_THREAD) if worker is None else (self._worker(worker), 200 + worker)
        t0, t1 = at(begin), at(end)
        writer.event(fmt.FETCH, t0, t1, batch, samples, cpu * MS, thread=thread)
        writer.event(fmt.FETCH_DELAY, t0, t1, other * MS, delay * MS, iterator if worker is None else -1, thread=thread)
        writer.event(fmt.FETCH_IO, t0, t1, 1000, storage, 1, thread=thread)
        if collate:
            writer.event(fmt.COLLATE, at(end - collate), t1, collate * MS, 1000, thread=thread)

    def _worker(self, number: int) -> Writer:
        if number not in self.workers:
            self.workers[number] = Writer(self.folder, f"{200 + number}-1")
            self.workers[number].lines.append({**_process(200 + number, "worker"), "worker": number})
        return self.workers[number]

    def _event(self, kind: int, begin: float, end: float, *values: float, thread: int = TRAINER_THREAD, **more: Any) -> None:
        self.trainer.event(kind, at(begin), at(end), *values, thread=thread, **more)

    def close(self) -> Path:
        """Write the files."""
        for writer in (self.trainer, self.launcher, *self.workers.values()):
            writer.close()
        return self.folder

    def timeline(self) -> Timeline:
        """Write the files and read them again."""
        return SOURCE.read(self.close(), PLAIN)


def _process(pid: int, role: str) -> dict[str, Any]:
    return {
        "kind": "process",
        "format": 1,
        "pid": pid,
        "ppid": 1,
        "started_ns": START_NS,
        "role": role,
        "torch": None if role == "launcher" else "2.13.0",
        "cwd": str(Path(DATA).parent),
    }
