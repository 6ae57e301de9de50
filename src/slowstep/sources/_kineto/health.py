"""What was lost or doubtful in a Kineto file, as health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from slowstep.health import SEVERITIES, Health, HealthKind
from slowstep.reasons import Value

_RANGES = "taken for named ranges on the host, so that launches and kernels among them are not seen"
_AGAIN = "export the trace again, and leave out what rewrote it"
# Categories that are named.
_NAMED = 3
# By the name of the counter.
_KINDS: Final[dict[str, HealthKind]] = {
    "truncated": HealthKind(
        "truncated-file",
        "data_loss",
        "{damage}the events end in the middle; what stands before was read. Let the profiler finish writing, or copy the file again",
    ),
    "damaged": HealthKind(
        "damaged-file",
        "data_loss",
        "{damage}all of it was read, but what is wrong there is unknown: times and names may be others. Copy the file again",
    ),
    "malformed": HealthKind(
        "malformed-events",
        "data_loss",
        "they are not JSON, or `ph`, `cat`, `pid` or `tid` is neither text nor a number; they were left out",
    ),
    "repaired": HealthKind(
        "repaired-text",
        "notice",
        "what is not JSON (nan, inf, missing values, line feeds, bytes that are no UTF-8, lone surrogates) was read as null, as a "
        "replacement sign or as its escape",
    ),
    "metadata": HealthKind("unreadable-metadata", "data_loss", "what the file says about devices and ranks is not JSON, and was left out"),
    "no-time": HealthKind("events-without-time", "data_loss", "they have no timestamp, or an impossible one, and were left out"),
    "no-length": HealthKind(
        "events-without-duration",
        "data_loss",
        "they were still open when profiling ended, or lost their end; they were left out",
    ),
    "negative": HealthKind(
        "negative-durations",
        "data_loss",
        "they end before they begin (clocks that differ) and were left out; update the profiler",
    ),
    "no-phase": HealthKind("events-without-phase", "data_loss", "they do not say what they are (`ph`) and were left out"),
    "unpaired": HealthKind(
        "begin-end-events",
        "data_loss",
        "events of PyTorch's categories that are written as a begin and an end are not read; write them complete (`ph` X)",
    ),
    "ends-alone": HealthKind(
        "ends-without-begin", "data_loss", "their begin lies before the trace, or is on another thread; they were left out"
    ),
    "other": HealthKind("unused-events", "info", "counters and asynchronous events have no part in the analysis"),
    "foreign": HealthKind(
        "events-of-unknown-category",
        "notice",
        f"their category ({{categories}}) is none of PyTorch's: {_RANGES}",
    ),
    "no-category": HealthKind(
        "events-without-category",
        "data_loss",
        f"they have no `cat`: {_RANGES}; {_AGAIN}",
    ),
    "no-name": HealthKind(
        "events-without-name", "data_loss", f"steps, operators, calls and kernels among them are not recognised; {_AGAIN}"
    ),
    "name-type": HealthKind("names-that-are-no-text", "data_loss", f"what stands for `name` was taken as it is written; {_AGAIN}"),
    "args-type": HealthKind(
        "args-that-are-no-object", "data_loss", f"launch numbers, streams and shapes of these events are unknown; {_AGAIN}"
    ),
    "correlation-type": HealthKind(
        "launch-numbers-that-are-no-number",
        "data_loss",
        f"what has such a `correlation` cannot be joined with its launch or its kernel; {_AGAIN}",
    ),
    "no-place": HealthKind(
        "events-without-place",
        "data_loss",
        f"they lack `pid` or `tid`: on the host they are on a thread of their own, on a device where `args` say, else at 0; {_AGAIN}",
    ),
    "registers": HealthKind(
        "garbage-registers", "notice", "register counts that no device has (AMD profilers write such); they are unknown here"
    ),
    "occupancy": HealthKind("garbage-occupancy", "notice", "occupancies outside of 0 to 100 %; they are unknown here"),
    "shapes": HealthKind(
        "shapes-that-are-no-shapes",
        "notice",
        "`Input Dims` that are no lists of whole numbers, or `Input type` that are no words; what operators took is unknown here",
    ),
    "copy-direction": HealthKind(
        "copies-without-direction",
        "notice",
        "the trace does not say from where to where; taken for copies within the device",
    ),
    "duplicates": HealthKind("duplicate-events", "notice", "events that are in the file twice were counted once"),
    "external-repeats": HealthKind(
        "operators-by-time-only",
        "info",
        "this version of the profiler wrote no operator's number on launches and kernels; operators are found by time",
    ),
    "shared-correlations": HealthKind(
        "shared-correlations",
        "notice",
        "several processes used the same launch numbers; kernels were given to the last launch before them",
    ),
    "not-kineto": HealthKind(
        "trace-of-another-tool",
        "notice",
        "no PyTorch operators, launches or kernels: only named ranges were read. Record with torch.profiler for a full diagnosis",
    ),
}


def health_rows(counts: Counter[str], damage: str | None, categories: Sequence[str] = ()) -> Iterator[Health]:
    """One row per counter that is not 0, worst first. `damage` says in words what ended the unpacking early; `categories` are unknown."""
    named = ", ".join(categories[:_NAMED]) + (", ..." if len(categories) > _NAMED else "")
    ended = None if damage is None else f"{damage}; "
    values: dict[str, dict[str, Value]] = {
        "truncated": {"damage": ended},
        "damaged": {"damage": ended},
        "foreign": {"categories": named},
    }
    for counter, kind in sorted(_KINDS.items(), key=lambda each: -SEVERITIES.index(each[1].severity)):
        if counts[counter] > 0:
            yield kind(counts[counter], **values.get(counter, {}))
