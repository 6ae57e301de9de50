"""Frames of threads that run on while they are looked at."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

import pytest

import slowstep
from slowstep.record.timing import other_threads
from slowstep.record.timing.other_threads import CoreUse, without_collecting

# Collections begin at nearly every allocation, and let the other thread run: its functions return while they are being noted. They differ
# in size, so that what is left of one is no frame of another.
SCRIPT = """
import gc, random, sys, threading, time
from slowstep.record.timing.other_threads import look_at
from slowstep.record.timing.stacks import StackTable

class Slow:
    def __init__(self):
        self.me = self
    def __del__(self):
        time.sleep(0.0005)

for k in range(40):
    body = "\\n".join(f"    v{i} = n + {i}" for i in range(k * 3 % 37))
    exec(f"def f{k}(n, pick):\\n{body}\\n    if n:\\n        return pick(names)(n - 1, pick)\\n{body}\\n    return n")
names = [globals()[f"f{k}"] for k in range(40)]
seen, is_over = set(), False

def work():
    pick = random.Random(0).choice
    while not is_over:
        pick(names)(20, pick)

thread = threading.Thread(target=work, daemon=True)
thread.start()
def note(line):
    Slow()
    if line["kind"] == "frame":
        seen.add(line["function"])
gc.set_threshold(1, 10**6, 10**6)
end = time.monotonic() + 5
while time.monotonic() < end:
    table = StackTable(note)
    table.stack_id(look_at([thread.ident], table.places)[thread.ident])
is_over = True
thread.join()
assert {function.__name__ for function in names} <= seen, seen
assert gc.isenabled()
"""


@pytest.mark.slow
def test_a_stack_is_whole_though_collections_let_its_thread_run_on():
    environment = {**os.environ, "PYTHONPATH": str(Path(slowstep.__path__[0]).parent)}

    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("was_enabled", [True, False])
def test_whether_garbage_is_collected_is_as_it_was(monkeypatch, was_enabled):
    monkeypatch.setattr(other_threads, "_COLLECTS_AT_ALLOCATIONS", True)
    (gc.enable if was_enabled else gc.disable)()
    try:
        assert without_collecting(gc.isenabled) is False
        with pytest.raises(ZeroDivisionError):
            without_collecting(lambda: 1 // 0)
        assert gc.isenabled() is was_enabled
    finally:
        gc.enable()


@pytest.mark.parametrize("compute", ["for _ in range(1_000_000): pass", "zlib.compress(data)"], ids=["Python", "native"])
def test_a_thread_that_computes_uses_a_core_and_one_that_waits_does_not(compute):
    is_over, names = threading.Event(), {"data": bytes(50_000_000), "zlib": zlib}

    def work() -> None:
        code = compile(compute, "work", "exec")
        while not is_over.is_set():
            exec(code, names)

    computing, waiting = threading.Thread(target=work), threading.Thread(target=is_over.wait)
    for thread in (computing, waiting):
        thread.start()
    try:
        uses = CoreUse(computing.native_id or 0), CoreUse(waiting.native_id or 0)
        # Both use a core while they start.
        until, states = time.monotonic() + 10, set[tuple[bool | None, bool | None]]()
        while states != {(True, False)} and time.monotonic() < until:
            states = {(uses[0].now(), uses[1].now()) for _ in range(5)}
    finally:
        is_over.set()
        computing.join()
        waiting.join()

    assert states == {(True, False)}


def test_of_a_thread_that_is_over_no_core_use_is_known():
    thread = threading.Thread(target=lambda: None)
    thread.start()
    use = CoreUse(thread.native_id or 0)
    thread.join()

    until = time.monotonic() + 10
    while use.now() is not None and time.monotonic() < until:
        pass
    assert use.now() is None
    assert CoreUse(0).now() is None
