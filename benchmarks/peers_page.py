"""peers.md, drawn from the rows of `peers.py`."""

from __future__ import annotations

from typing import Any

AGREES = 0.01
SHARES = ("busy", "idle", "compute", "communication", "copies")
BEGINNING = """# Beside Holistic Trace Analysis

Written by `python benchmarks/peers.py TRACE...`; all numbers are in `benchmarks/results/{results}`. HTA (`traceinsight` 0.6.1) and slowstep
over the same device events of the same traces, in percent of the time from the first event's begin to the last one's end. Both count an
instant once in which several streams work. The first column is HTA without its rounding (`HTA_DISABLE_NS_ROUNDING=1`), the last is what it
says as it comes.

| trace | share | HTA | slowstep | apart, points | HTA as it comes |
| --- | --- | ---: | ---: | ---: | ---: |
"""
DEFINITIONS = """
## Where the two mean something else

- **Which events.** HTA leaves out what the last profiler step launched, so that of n steps it shows n - 1, and every kernel whose launch is
  not in the trace. slowstep's window holds every whole step, and kernels without a launch. The table above is over HTA's events; how many
  of the trace's these are stands below.
- **Rounding.** HTA moves every begin up and every end down to a whole microsecond where the trace has finer times: a kernel of 2.5 us may
  lose two of them. Its table of kernel types cuts every stretch once more. That is the difference between the two columns of HTA.
- **Classes.** HTA knows the collectives of NCCL, slowstep those of other libraries too (listed below where it matters). In slowstep's
  ledger copies inside the device and memsets are compute; here they are put to the copies, as HTA does.
- **Other events.** HTA takes whatever names a stream for an event of the device: records of synchronizations, and now and then an operator
  of the host (one in the B200 trace).
- **Idle, and why.** HTA gives the causes of idle time by stream. Of several streams one that waits for another is idle though the device
  works, so that these shares are not the device's and cannot be held against the table `gaps`. Its "kernel wait" takes every gap of up to
  30 us (30 ns, its documentation says) for the cost of launching; slowstep asks what the host did. Neither is compared here.
"""


def differences(row: dict[str, Any]) -> dict[str, float]:
    """Points by which the shares are apart, ours less HTA's."""
    return {name: row["ours"][name] - row["hta"][name] for name in SHARES}


def unexplained(row: dict[str, Any]) -> list[str]:
    """Differences of more than 1 % for which no cause below was found, in words; none where HTA could not read the trace."""
    if row["hta"] is None:
        return []
    found = [name for name, apart in differences(row).items() if abs(apart) > AGREES and not _explained(row, name)]
    if max(row["totals"]["most_apart"], abs(row["totals"]["all"])) > AGREES:
        found.append("kernel totals")
    return found


def _explained(row: dict[str, Any], share: str) -> bool:
    by_its_kinds = abs(row["ours_by_its_kinds"][share] - row["hta"][share]) <= AGREES
    return bool(row["differing"]) and by_its_kinds


def page(results_file: str, rows: list[dict[str, Any]]) -> str:
    """The whole page."""
    beginning = BEGINNING.format(results=results_file)
    return beginning + "".join(map(_shares, rows)) + DEFINITIONS + "\n## Trace by trace\n\n" + "".join(map(_notes, rows))


def _shares(row: dict[str, Any]) -> str:
    if row["hta"] is None:
        return f"| {row['trace']} | | cannot read it | | | |\n"
    apart = differences(row)
    lines = []
    for name in SHARES:
        values = [row["hta"][name], row["ours"][name], apart[name], row["hta_usual"][name]]
        numbers = [f"{100 * value:.2f}" if place != 2 else f"{100 * value:+.2f}" for place, value in enumerate(values)]
        lines.append(f"| {row['trace'] if name == SHARES[0] else ''} | {name} | {' | '.join(numbers)} |\n")
    return "".join(lines)


def _notes(row: dict[str, Any]) -> str:
    if row["hta"] is None:
        return f"- **{row['trace']}**: HTA ends with an error: the trace has no events of a device.\n"
    events, totals = row["events"], row["totals"]
    records = f", {row['synchronizations']} of them records of synchronizations" if row["synchronizations"] else ""
    words = [f"- **{row['trace']}**: HTA shows {events['hta']:,} device events{records}; the trace has {events['trace']:,}."]
    apart = f"at most {100 * totals['most_apart']:.2f} % apart, all together {100 * totals['all']:+.2f} %"
    words.append(f"Totals of the {totals['kernels']} kernels with 1 % of the time or more are {apart}.")
    words += [f"`{name[:60]}` is {kind(ours)} to slowstep and {kind(its)} to HTA." for name, ours, its in row["differing"]]
    words += [f"Not explained: {', '.join(unexplained(row))}."] if unexplained(row) else []
    return " ".join(words) + "\n"


def kind(word: str) -> str:
    """HTA's word for a kind of kernel, in ours."""
    return {"COMPUTATION": "compute", "COMMUNICATION": "a collective", "MEMORY": "a copy"}.get(word, "something else")
