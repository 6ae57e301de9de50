"""A machine made of files: a /proc and a /sys in a folder, in which processes come, count and end."""

from __future__ import annotations

from pathlib import Path

from slowstep.record.monitors import MonitoredCommand

MS = 1_000_000


class FakeMachine:
    def __init__(self, folder: Path) -> None:
        self.proc, self.sys = folder / "proc", folder / "sys"
        self.proc.mkdir()
        self.sys.mkdir()
        self.write("proc/stat", "cpu  100 10 20 5000 70 3 4 9 50 0\ncpu0 1 2\n")
        self._children: dict[int, list[int]] = {}

    def place(self, root: int) -> MonitoredCommand:
        return MonitoredCommand(root, proc=str(self.proc), sys=str(self.sys))

    def write(self, path: str, text: str) -> Path:
        """In place, so that whoever has the file open sees it."""
        file = self.proc.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def process(self, pid: int, parent: int = 1, **counters: int) -> None:
        """Start a process, or let it count on; `waited` are ticks of children, `file` the pages that are a file's."""
        c = {
            "ticks": 0,
            "waited": 0,
            "minor": 0,
            "major": 0,
            "pages": 10,
            "threads": 1,
            "file": 0,
            "called": 0,
            "read": 0,
            "written": 0,
            "delay": 0,
        }
        c |= counters
        self.write(
            f"proc/{pid}/stat",
            f"{pid} (a (strange) name) S {parent} 1 1 0 -1 0 {c['minor']} 0 {c['major']} 0 {c['ticks']} 0 {c['waited']} 0 20 0 "
            f"{c['threads']} 0 777 1000 {c['pages']} 0 0\n",
        )
        self.write(f"proc/{pid}/statm", f"5000 {c['pages']} {c['file']} 1 0 1 0\n")
        storage = f"read_bytes: {c['read']}\nwrite_bytes: {c['written']}\ncancelled_write_bytes: 0\n"
        self.write(f"proc/{pid}/io", f"rchar: {c['called']}\nwchar: 0\nsyscr: 0\nsyscw: 0\n{storage}")
        self.write(f"proc/{pid}/schedstat", f"1 {c['delay']} 3\n")
        self.write(f"proc/{pid}/task/{pid}/schedstat", f"1 {c['delay']} 3\n")
        family = self._children.setdefault(parent, [])
        if pid not in family:
            family.append(pid)
        for one in (pid, parent):
            if (self.proc / str(one)).exists():
                self.write(f"proc/{one}/task/{one}/children", " ".join(map(str, self._children.get(one, []))))

    def end(self, pid: int) -> None:
        """End a process: its files read as empty for whoever has them open, and are gone for all others."""
        for file in sorted((self.proc / str(pid)).rglob("*"), reverse=True):
            if file.is_file():
                file.write_text("")
                file.unlink()
            else:
                file.rmdir()
        (self.proc / str(pid)).rmdir()
        for children in self._children.values():
            if pid in children:
                children.remove(pid)
