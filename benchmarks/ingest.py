"""How long a large Kineto file takes to be read or analyzed: wall, CPU and peak memory, beside those of a peer.

    python benchmarks/ingest.py TRACE.json.gz --bytes 1e9 --what read --rounds 3
    python benchmarks/ingest.py TRACE.json.gz --what analyze --peer-python /path/to/venv/bin/python --peer hta

The file is made from a real trace, repeated until it is long enough: times are shifted, ids renumbered, steps numbered on, and a part of
the names varied, so that neither dictionaries nor compression have it easier than with one long training. Tools are measured in turns,
each in a process of its own. Results go to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

from isal import igzip
from machine import busy_ticks, describe

from slowstep.record.system import processes

RESULTS = Path(__file__).parent / "results"
# One name in this many is another one in each copy: a real training repeats nearly all of its names each step.
NAMES_VARIED = 50
LOOK_EVERY_S = 0.05

OURS = {
    "read": (
        "import sys, pathlib; from slowstep.sources.kineto import SOURCE; from slowstep.sources._source import PLAIN;"
        "t = SOURCE.read(pathlib.Path(sys.argv[1]), PLAIN); print(t.trace.events)"
    ),
    "analyze": "import sys; from slowstep.cli.main import main; sys.argv = ['slowstep', 'analyze', sys.argv[1]]; main()",
}
PEERS = {
    "hta": (
        "import sys, os; from hta.trace_analysis import TraceAnalysis;"
        "a = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir=os.path.dirname(sys.argv[1]));"
        "print(a.get_temporal_breakdown(visualize=False))"
    ),
}
_FIELDS = re.compile(
    rb'"(ts|External id|correlation|Ev Idx|Profiler Event Index|Python id|Python parent id|id|Sequence number)": (\d+)|"name": "([^"]*)"'
)


def make(source: Path, target: Path, size_bytes: int) -> int:
    """Write a trace of about `size_bytes` (of JSON) from a real one; `target` may end in .gz. Returns the length of its JSON."""
    text = igzip.open(source).read() if source.suffix == ".gz" else source.read_bytes()
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    end = text.rindex(b"}", 0, text.rindex(b"]")) + 1
    body = text[begin:end]
    times = [int(found) for found in re.findall(rb'"ph": "X".{0,3000}?"ts": (\d+)', body, re.DOTALL)]
    marks = [int(found) for found in re.findall(rb"ProfilerStep#(\d+)", body)]
    spans = {b"ts": max(times) - min(times) + 1000, "steps": max(marks) - min(marks) + 1 if marks else 0}
    for key in (
        b"External id",
        b"correlation",
        b"Ev Idx",
        b"Profiler Event Index",
        b"Python id",
        b"Python parent id",
        b"id",
        b"Sequence number",
    ):
        numbers = [int(found) for found in re.findall(rb'"%s": (\d+)' % key, body)]
        spans[key] = max(numbers) + 1 if numbers else 0
    written = 0
    with igzip.open(target, "wb", compresslevel=1) if target.suffix == ".gz" else target.open("wb") as file:
        written += _write(file, text[:begin])
        copy = 0
        while written < size_bytes:
            written += _write(file, (b"," if copy else b"") + _copy(body, copy, spans))
            copy += 1
        written += _write(file, text[end:])
    return written


def _write(file: BinaryIO, text: bytes) -> int:
    file.write(text)
    return len(text)


def _copy(body: bytes, copy: int, spans: dict[Any, int]) -> bytes:
    def changed(match: re.Match[bytes]) -> bytes:
        key, number, name = match.groups()
        if name is None:
            return b'"%s": %d' % (key, int(number) + copy * spans[key])
        if name.startswith(b"ProfilerStep#"):
            return b'"name": "ProfilerStep#%d"' % (int(name[13:]) + copy * spans["steps"])
        return b'"name": "%s v%d"' % (name, copy) if hash(name) % NAMES_VARIED == 0 else match.group()

    return _FIELDS.sub(changed, body) if copy else body


def measure(python: str, program: str, path: Path) -> dict[str, Any]:
    """Run a program on a file: seconds of wall and CPU, peak memory of all its processes together in bytes, exit code."""
    began = time.perf_counter()
    # Each run is the first look at the file: what slowstep keeps of it goes with the run.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"XDG_CACHE_HOME": cache}
        # What is installed is compiled: else each run would compile all of it again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        process = subprocess.Popen([python, "-c", program, str(path)], stdout=output, stderr=subprocess.STDOUT, env=environment)
        peak_bytes = 0
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            peak_bytes = max(peak_bytes, sum(map(_held_bytes, processes.tree(process.pid))))
            time.sleep(LOOK_EVERY_S)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall_s = time.perf_counter() - began
        output.seek(0)
        said = output.read()[-300:].decode("utf-8", "replace")
    return {
        "wall_s": round(wall_s, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "peak_bytes": max(peak_bytes, usage.ru_maxrss * 1024),
        "exit_code": process.returncode,
        "said": said,
    }


def _held_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def main() -> None:
    """Make the file, measure in turns, write the results."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="slowstep-ingest-") as folder:
        path = Path(folder) / ("made.json" if options.plain else "made.json.gz")
        json_bytes = make(options.trace, path, int(options.bytes))
        tools = {f"slowstep {options.what}": (sys.executable, OURS[options.what])}
        if options.peer_python:
            tools[options.peer] = (options.peer_python, PEERS[options.peer])
        rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in tools}
        before = busy_ticks()
        for _ in range(options.rounds):
            for name, (python, program) in tools.items():
                rounds[name].append(measure(python, program, path))
                sys.stdout.write(f"{name}: {rounds[name][-1]}\n")
        busy = [after - was for after, was in zip(busy_ticks(), before, strict=True)]
        result = {"trace": options.trace.name, "json_bytes": json_bytes, "file_bytes": path.stat().st_size, "machine": describe()}
        result |= {"busy_share": round(busy[0] / max(busy[1], 1), 3), "rounds": rounds}
    target = RESULTS / f"ingest-{datetime.date.today()}.json"
    target.write_text(json.dumps(result, indent=1) + "\n")
    for name, measured in rounds.items():
        best = min(measured, key=lambda row: row["wall_s"])
        figures = f"{best['wall_s']} s wall, {best['cpu_s']} s CPU, {best['peak_bytes'] / 2**20:.0f} MiB at most"
        sys.stdout.write(f"{name}: {json_bytes / 1e6:.0f} MB of JSON in {figures}\n")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trace", type=Path, help="a real Kineto trace")
    parser.add_argument("--bytes", type=float, default=1e9, help="length of the made file's JSON")
    parser.add_argument("--what", choices=sorted(OURS), default="analyze")
    parser.add_argument("--plain", action="store_true", help="do not pack it")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", choices=sorted(PEERS), default="hta")
    parser.add_argument("--peer-python", help="python of a virtual environment in which the peer is installed")
    return parser.parse_args()


if __name__ == "__main__":
    main()
