"""What was lost or doubtful in a Kineto file, as health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from slowstep.health import Health, Severity

_RANGES = "taken for named ranges on the host, so that launches and kernels among them are not seen"
_AGAIN = "export the trace again, and leave out what rewrote it"
# Categories that are named.
_NAMED = 3
# Name of the counter -> name in reports, severity, what it means and what to do.
_ROWS: dict[str, tuple[str, Severity, str]] = {
    "truncated": (
        "truncated-file",
        "data_loss",
        "the events end in the middle; what stands before was read. Let the profiler finish writing, or copy the file again",
    ),
    "damaged": (
        "damaged-file",
        "data_loss",
        "all of it was read, but what is wrong there is unknown: times and names may be others. Copy the file again",
    ),
    "malformed": (
        "malformed-events",
        "data_loss",
        "they are not JSON, or `ph`, `cat`, `pid` or `tid` is neither text nor a number; they were left out",
    ),
    "repaired": (
        "repaired-text",
        "notice",
        "what is not JSON (nan, inf, missing values, line feeds, bytes that are no UTF-8) was read as null or as a replacement sign",
    ),
    "metadata": ("unreadable-metadata", "data_loss", "what the file says about devices and ranks is not JSON, and was left out"),
    "no-time": ("events-without-time", "data_loss", "they have no timestamp, or an impossible one, and were left out"),
    "no-length": (
        "events-without-duration",
        "data_loss",
        "they were still open when profiling ended, or lost their end; they were left out",
    ),
    "negative": (
        "negative-durations",
        "data_loss",
        "they end before they begin (clocks that differ) and were left out; update the profiler",
    ),
    "no-phase": ("events-without-phase", "data_loss", "they do not say what they are (`ph`) and were left out"),
    "unpaired": (
        "begin-end-events",
        "data_loss",
        "events of PyTorch's categories that are written as a begin and an end are not read; write them complete (`ph` X)",
    ),
    "ends-alone": ("ends-without-begin", "data_loss", "their begin lies before the trace, or is on another thread; they were left out"),
    "other": ("unused-events", "info", "counters and asynchronous events have no part in the analysis"),
    "foreign": (
        "events-of-unknown-category",
        "notice",
        f"their category ({{categories}}) is none of PyTorch's: {_RANGES}",
    ),
    "no-category": (
        "events-without-category",
        "data_loss",
        f"they have no `cat`: {_RANGES}; {_AGAIN}",
    ),
    "no-name": ("events-without-name", "data_loss", f"steps, operators, calls and kernels among them are not recognised; {_AGAIN}"),
    "name-type": ("names-that-are-no-text", "data_loss", f"what stands for `name` was taken as it is written; {_AGAIN}"),
    "args-type": ("args-that-are-no-object", "data_loss", f"launch numbers, streams and shapes of these events are unknown; {_AGAIN}"),
    "correlation-type": (
        "launch-numbers-that-are-no-number",
        "data_loss",
        f"what has such a `correlation` cannot be joined with its launch or its kernel; {_AGAIN}",
    ),
    "no-place": (
        "events-without-place",
        "data_loss",
        f"they lack `pid` or `tid`: on the host they are on a thread of their own, on a device where `args` say, else at 0; {_AGAIN}",
    ),
    "registers": ("garbage-registers", "notice", "register counts that no device has (AMD profilers write such); they are unknown here"),
    "occupancy": ("garbage-occupancy", "notice", "occupancies outside of 0 to 100 %; they are unknown here"),
    "shapes": (
        "shapes-that-are-no-shapes",
        "notice",
        "`Input Dims` that are no lists of whole numbers, or `Input type` that are no words; what operators took is unknown here",
    ),
    "copy-direction": (
        "copies-without-direction",
        "notice",
        "the trace does not say from where to where; taken for copies within the device",
    ),
    "duplicates": ("duplicate-events", "notice", "events that are in the file twice were counted once"),
    "external-repeats": (
        "operators-by-time-only",
        "info",
        "this version of the profiler wrote no operator's number on launches and kernels; operators are found by time",
    ),
    "shared-correlations": (
        "shared-correlations",
        "notice",
        "several processes used the same launch numbers; kernels were given to the last launch before them",
    ),
    "not-kineto": (
        "trace-of-another-tool",
        "notice",
        "no PyTorch operators, launches or kernels: only named ranges were read. Record with torch.profiler for a full diagnosis",
    ),
}


def health_rows(counts: Counter[str], damage: str | None, categories: Sequence[str] = ()) -> Iterator[Health]:
    """One row per counter that is not 0, worst first. `damage` says in words what ended the unpacking early; `categories` are unknown."""
    named = ", ".join(categories[:_NAMED]) + (", ..." if len(categories) > _NAMED else "")
    severities = ("error", "data_loss", "notice", "info")
    for counter, (name, severity, remedy) in sorted(_ROWS.items(), key=lambda row: severities.index(row[1][1])):
        if counts[counter] > 0:
            text = f"{damage}; {remedy}" if counter in ("truncated", "damaged") and damage else remedy.replace("{categories}", named)
            yield Health(name=name, severity=severity, count=counts[counter], remedy=text)
