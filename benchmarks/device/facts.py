"""What a simulated device has to be fitted to: the cost of events, queries, readings and the profiler, launches, the queue, and copies."""

from __future__ import annotations

import ctypes
import itertools
import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from part import Result, begin

from slowstep.record.device.cuda import CudaEvents

MIB = 1 << 20
REPEATS = 200
COPY_BYTES = (1 * MIB, 16 * MIB, 256 * MIB)
# More launches than any queue is known to hold.
MOST_QUEUED = 20_000
MOST_CAPTURED = 2000
# A launch that takes so many times the usual one was blocked by a full queue.
BLOCKED_TIMES, BLOCKED_AT_LEAST_US = 20, 200.0


def each_us(action: Callable[[], object], repeats: int = REPEATS) -> dict[str, float]:
    """Median, 5th and 95th percentile of one call, us on the host."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter_ns()
        action()
        times.append((time.perf_counter_ns() - began) / 1e3)
    cuts = statistics.quantiles(times, n=20)
    return {"median_us": statistics.median(times), "p05_us": cuts[0], "p95_us": cuts[-1]}


def events() -> dict[str, Any]:
    """Making, recording and asking events, by torch.cuda's class and by the general one, with an idle and a busy stream."""
    found: dict[str, Any] = {}
    for name, make in {"torch.cuda.Event": lambda: torch.cuda.Event(enable_timing=True), "torch.Event": general_event}.items():
        try:
            event = make()
            found[name] = {"make": each_us(make), "record": each_us(event.record)}
            torch.cuda.synchronize()
            found[name]["query, done"] = each_us(event.query)
            torch.cuda._sleep(2_000_000_000)
            event.record()
            found[name]["query, not done"] = each_us(event.query)
            found[name]["record, busy stream"] = each_us(event.record)
            torch.cuda.synchronize()
            first, second = make(), make()
            first.record(), second.record()
            torch.cuda.synchronize()
            found[name]["elapsed_time"] = each_us(lambda a=first, b=second: a.elapsed_time(b))
        except (AttributeError, RuntimeError, TypeError) as error:
            found[name] = found.get(name, {}) | {"failed": str(error)[:200]}
    return found


def asked_beside() -> dict[str, Any]:
    """Asking after an event from another thread through the driver, as at stacks: cost, answers, and whether a capture suffers."""
    events, event = CudaEvents(), torch.cuda.Event()
    found: dict[str, Any] = {}
    for name, cycles in (("done", 0), ("not done", 2_000_000_000)):
        torch.cuda.synchronize()
        if cycles:
            torch.cuda._sleep(cycles)
        event.record()
        if not cycles:
            torch.cuda.synchronize()
        told = on_other_thread(lambda: events.has_ended(event.cuda_event))
        found[name] = {"told": told, "cost": on_other_thread(lambda: each_us(lambda: events.has_ended(event.cuda_event)))}
    torch.cuda.synchronize()
    return found | {"while capturing": captured_beside(events, event)}


def captured_beside(events: CudaEvents, event: Any) -> dict[str, Any]:
    """A graph that is captured while another thread asks all the time."""
    graph, value, ends, told = torch.cuda.CUDAGraph(), torch.ones(64, device="cuda"), threading.Event(), Counter[str]()

    def ask() -> None:
        while not ends.is_set():
            told[str(events.has_ended(event.cuda_event))] += 1

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        with torch.cuda.graph(graph):
            for _ in range(MOST_CAPTURED):
                value = value * 1.0
    finally:
        ends.set()
        thread.join()
    graph.replay()
    return {"told": dict(told), "sum": float(value.sum()), "expected": 64.0}


def on_other_thread(action: Callable[[], Any]) -> Any:
    """What an action returns on a thread of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(action).result()


def general_event() -> Any:
    """An event of whatever accelerator is here."""
    return torch.Event(device="cuda", enable_timing=True)


def management_library() -> dict[str, Any]:
    """One reading of NVIDIA's management library, by kind; not measured where it is missing."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError as error:
        return {"failed": str(error)}
    library.nvmlInit_v2()
    handle = ctypes.c_void_p()
    library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))
    number, pair = ctypes.c_uint(), (ctypes.c_uint * 2)()
    memory = (ctypes.c_ulonglong * 3)()
    calls = {
        "utilization": lambda: library.nvmlDeviceGetUtilizationRates(handle, pair),
        "memory": lambda: library.nvmlDeviceGetMemoryInfo(handle, memory),
        "clock": lambda: library.nvmlDeviceGetClockInfo(handle, 1, ctypes.byref(number)),
        "power": lambda: library.nvmlDeviceGetPowerUsage(handle, ctypes.byref(number)),
        "PCIe throughput": lambda: library.nvmlDeviceGetPcieThroughput(handle, 0, ctypes.byref(number)),
    }
    found = {name: each_us(call, 20 if name == "PCIe throughput" else REPEATS) for name, call in calls.items()}
    library.nvmlShutdown()
    return found


def profiler() -> dict[str, Any]:
    """Starting and stopping torch.profiler around three small steps, the first time and the second."""
    layer = torch.nn.Linear(512, 512, device="cuda")
    found = {}
    for turn in ("first", "second"):
        tool = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA])
        times = [time.perf_counter()]
        tool.start()
        times.append(time.perf_counter())
        for _ in range(3):
            layer(torch.ones(64, 512, device="cuda")).sum().backward()
        torch.cuda.synchronize()
        times.append(time.perf_counter())
        tool.stop()
        times.append(time.perf_counter())
        found[turn] = dict(zip(("start_s", "steps_s", "stop_s"), (b - a for a, b in itertools.pairwise(times)), strict=True))
    return found


def launches() -> dict[str, Any]:
    """A launch on the host, the time until its kernel has ended, and how many launches the queue takes before one blocks."""
    value = torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    found: dict[str, Any] = {"launch": each_us(lambda: value.add_(1))}
    torch.cuda.synchronize()
    found["launch and wait"] = each_us(lambda: (value.add_(1), torch.cuda.synchronize()))
    usual_us = found["launch"]["median_us"]
    torch.cuda._sleep(4_000_000_000)
    depth = None
    for number in range(MOST_QUEUED):
        began = time.perf_counter_ns()
        value.add_(1)
        if (time.perf_counter_ns() - began) / 1e3 > max(BLOCKED_TIMES * usual_us, BLOCKED_AT_LEAST_US):
            depth = number
            break
    torch.cuda.synchronize()
    return found | {"launches before one blocks": depth}


def copies() -> dict[str, Any]:
    """GB/s between host and device, pinned and pageable, up and down."""
    found = {}
    for size in COPY_BYTES:
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        for kind, host in {
            "pageable": torch.empty(size, dtype=torch.uint8),
            "pinned": torch.empty(size, dtype=torch.uint8).pin_memory(),
        }.items():
            for way, (target, source) in {"up": (device, host), "down": (host, device)}.items():
                times = []
                for _ in range(8):
                    torch.cuda.synchronize()
                    began = time.perf_counter()
                    target.copy_(source, non_blocking=True)
                    torch.cuda.synchronize()
                    times.append(time.perf_counter() - began)
                found[f"{size // MIB} MiB {kind} {way}"] = {"gb_per_s": size / statistics.median(times) / 1e9}
    return found


def main() -> None:
    """Each group of facts; one that fails costs no other."""
    result = begin(__doc__ or "")
    for name, ask in {
        "events": events,
        "asked beside": asked_beside,
        "management library": management_library,
        "profiler": profiler,
        "launches": launches,
        "copies": copies,
    }.items():
        measure(result, name, ask)


def measure(result: Result, name: str, ask: Callable[[], dict[str, Any]]) -> None:
    """Keep what was found, or why nothing was."""
    try:
        result.add(name, ask())
    except Exception as error:  # noqa: BLE001 - the other facts are worth having
        result.add(name, {"failed": f"{type(error).__name__}: {error}"[:300]})


if __name__ == "__main__":
    main()
