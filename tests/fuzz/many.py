"""Many cases tried on several cores, each kind of failure printed once."""

from __future__ import annotations

import concurrent.futures
import multiprocessing
import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

from fuzz.case import drawn
from fuzz.targets import TARGETS
from fuzz.trial import Failure, minimised, tried

# Cases tried in one go of a process.
CHUNK = 20
SAY_EVERY_S = 60.0
# What asks for more has counted what a damaged number says; the machine is not to suffer for it.
MOST_BYTES = 12 << 30


def _chunk(name: str, seeds: range) -> tuple[int, list[Failure]]:
    """How many of the cases end in a report, and what fails."""
    target = TARGETS[name]
    outcomes = [tried(target, drawn(target, seed)) for seed in seeds]
    failures = [minimised(each.failure, partial(tried, target)) for each in outcomes if each.failure is not None]
    return sum(each.reported for each in outcomes), failures


def _quietly() -> None:
    """What every process does first."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    os.nice(10)


def _chunks(names: list[str], start: int, count: int | None) -> Iterator[tuple[str, range]]:
    """Each target in turn; without end where no count is given."""
    at = start
    while count is None or at < start + count:
        last = at + CHUNK if count is None else min(at + CHUNK, start + count)
        for name in names:
            yield name, range(at, last)
        at += CHUNK


def _say(done: Counter[str], said_at: float) -> float:
    """Once a minute how far it is; gives when it was said last."""
    if time.monotonic() - said_at < SAY_EVERY_S:
        return said_at
    print(", ".join(f"{count} {name}" for name, count in sorted(done.items())), file=sys.stderr, flush=True)
    return time.monotonic()


def run(names: list[str], start: int, count: int | None, seconds: float | None, processes: int) -> int:
    """Try them, print each kind of failure once; gives how many kinds there were."""
    until = None if seconds is None else time.monotonic() + seconds
    known: Counter[str] = Counter()
    done: Counter[str] = Counter()
    reports: Counter[str] = Counter()
    chunks = _chunks(names, start, count)
    said_at = time.monotonic()
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(processes, context, _quietly) as pool:
        running: dict[concurrent.futures.Future[tuple[int, list[Failure]]], tuple[str, range]] = {}
        while True:
            while len(running) < 2 * processes and (until is None or time.monotonic() < until) and (chunk := next(chunks, None)):
                running[pool.submit(_chunk, *chunk)] = chunk
            if not running:
                break
            for future in concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED).done:
                name, seeds = running.pop(future)
                reported, failures = future.result()
                done[name] += len(seeds)
                said_at = _say(done, said_at)
                reports[name] += reported
                for failure in failures:
                    known[f"{name}: {failure.kind}"] += 1
                    if known[f"{name}: {failure.kind}"] == 1:
                        print(f"{failure}\n", flush=True)
    for name in names:
        print(f"{name}: {done[name]} cases from seed {start} on, {reports[name]} reports")
    for kind, times in known.most_common():
        print(f"  failed {times} times: {kind}")
    return len(known)
