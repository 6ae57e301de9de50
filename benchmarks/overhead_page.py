"""docs/overhead.md, drawn from a results file, and the limits that slowstep holds itself to."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import device_section
from machine import in_words
from paired import Estimate, paired_difference, paired_ratio

# Written by hand: runs that were not made by one sitting of the benchmark.
ELSEWHERE = Path(__file__).with_name("overhead_elsewhere.md")
# Drawn by `overhead_compiled.py`, where that was run.
COMPILED = Path(__file__).with_name("overhead_compiled.md")
MOST_US_PER_EMPTY_STEP = 12.0
# Where the limit was set; Python's speed differs by more than twice from machine to machine.
RIVALS_US_THERE = {"traceml-ai": 88.0, "gpuprof": 117.0}
MOST_SHARE_OF_20MS = 0.005
MOST_S_ADDED = 0.5
MOST_S_OF_REPORT = 2.0


def column(raw: dict[str, Any], step: str, arm: str, name: str) -> list[float]:
    rows = [row for row in raw["rows"] if row["step"] == step and row["arm"] == arm]
    return [row[name] for row in sorted(rows, key=lambda row: row["round"])]


def toggled_us(raw: dict[str, Any]) -> Estimate:
    """us per empty step that the hooks add, from blocks of steps with and without them in one process."""
    return paired_difference([pair[1] / 1e3 for pair in raw["toggle"]], [pair[0] / 1e3 for pair in raw["toggle"]])


def toggled_share(raw: dict[str, Any]) -> Estimate:
    """The same as a share of the step without them."""
    return paired_ratio([pair[1] for pair in raw["toggle"]], [pair[0] for pair in raw["toggle"]])


def added_us(raw: dict[str, Any], arm: str, clock: str = "wall_ns") -> Estimate:
    """us per empty step."""
    return paired_difference(*([ns / 1e3 for ns in column(raw, "empty", name, clock)] for name in (arm, "nothing")))


def added_share(raw: dict[str, Any], arm: str) -> Estimate:
    """Of a step of about 20 ms, by the paired difference."""
    return paired_ratio(column(raw, "20ms", arm, "wall_ns"), column(raw, "20ms", "nothing", "wall_ns"))


def added_s(raw: dict[str, Any], arm: str, until: str) -> Estimate:
    """Seconds until the script (`script_s`) or the whole command (`command_s`) had ended."""
    return paired_difference(column(raw, "20ms", arm, until), column(raw, "20ms", "nothing", until))


def added_at_ends_s(raw: dict[str, Any]) -> Estimate:
    """Seconds that recording adds until a script of few steps has ended; in older results, a script of 300."""
    if "ends" not in raw:
        return added_s(raw, "slowstep", "script_s")
    return paired_difference(*([row[arm] for row in raw["ends"]] for arm in ("slowstep", "nothing")))


def own_share(raw: dict[str, Any]) -> float | None:
    """What the reports of the 20 ms runs say: events x calibrated cost, and the CPU time of monitors and sampler."""
    shares = [row["report_overhead"]["share"] for row in raw["rows"] if row["step"] == "20ms" and "report_overhead" in row]
    known = [share for share in shares if share is not None]
    return statistics.median(known) if known and len(known) == len(shares) else None


def in_proportion(raw: dict[str, Any]) -> str:
    """The limit in proportion to what the rivals take in the same run; nothing without rivals."""
    rivals = {rival: there for rival, there in RIVALS_US_THERE.items() if column(raw, "empty", rival, "wall_ns")}
    if not rivals:
        return ""
    here = MOST_US_PER_EMPTY_STEP * min(added_us(raw, rival).value / there for rival, there in rivals.items())
    set_where = " and ".join(f"{rival} adds {there:.0f}" for rival, there in rivals.items())
    return f" (set where {set_where}; in proportion {here:.1f} here)"


def misses(raw: dict[str, Any]) -> list[str]:
    """Every limit that was missed, in words."""
    found = []
    step, share, ended = toggled_us(raw).value, own_share(raw), added_at_ends_s(raw).value
    report = statistics.median(raw["report"]["seconds"])
    if step > MOST_US_PER_EMPTY_STEP:
        found.append(f"{step:.2f} us are added to an empty step, more than {MOST_US_PER_EMPTY_STEP:.0f}")
    if share is None or share > MOST_SHARE_OF_20MS:
        found.append(f"the recording's own cost is {shown_share(share)} of a 20 ms step, more than {MOST_SHARE_OF_20MS:.1%}")
    if ended > MOST_S_ADDED:
        found.append(f"the script ends {ended:.2f} s later, more than {MOST_S_ADDED}")
    if report > MOST_S_OF_REPORT:
        found.append(f"the report of {raw['report']['steps']} steps takes {report:.2f} s, more than {MOST_S_OF_REPORT}")
    return found


def draw(raw: dict[str, Any], results_file: str) -> str:
    """The page as Markdown."""
    on_a_gpu = device_section.section("overhead", "steps of 20 ms and 2 ms with and without recording will be")
    elsewhere = [page.read_text().replace("# ", "## ", 1).rstrip() for page in (ELSEWHERE, COMPILED) if page.exists()]
    others = ["## Beside other tools", arms(raw), "## How it is measured", METHOD]
    return "\n\n".join([head(raw, results_file), limits(raw), *elsewhere, on_a_gpu, *others]) + "\n"


def head(raw: dict[str, Any], results_file: str) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in raw["rivals"].items()) or "none"
    return f"""# What recording costs

Generated by `benchmarks/overhead.py` from `benchmarks/results/{results_file}` ({raw["date"]}, seed {raw["seed"]}).

Machine: {in_words(raw["machine"])}. Rivals: {versions}."""


def limits(raw: dict[str, Any]) -> str:
    share, seconds = own_share(raw), statistics.median(raw["report"]["seconds"])
    missed = misses(raw)
    verdict = (
        "**In this run all limits were held; on other days and machines two were not, see below.**"
        if not missed
        else "**Limits missed:**\n" + "\n".join(f"- {miss}" for miss in missed)
    )
    return f"""| slowstep | measured | limit |
| --- | --- | --- |
| added to an empty step by its hooks | {toggled_us(raw).shown()} us, {toggled_share(raw).value:.1%} \
| {MOST_US_PER_EMPTY_STEP:.0f} us{in_proportion(raw)} |
| own cost on a 20 ms step | {shown_share(share)} | {MOST_SHARE_OF_20MS:.1%} |
| added until the script has ended | {added_at_ends_s(raw).shown(2)} s | {MOST_S_ADDED} s |
| report of {raw["report"]["steps"]} steps ({raw["report"]["recording_bytes"] / 1e6:.0f} MB), `slowstep analyze` from start to end \
| {seconds:.2f} s | {MOST_S_OF_REPORT:.0f} s |

{verdict}"""


def arms(raw: dict[str, Any]) -> str:
    columns = (
        "tool",
        "added to an empty step, us",
        "the same, CPU time",
        "paired difference on a 20 ms step",
        "added until the script has ended, s",
        "until the command has returned, s",
    )
    lines = [f"| {' | '.join(columns)} |", "| --- " * len(columns) + "|"]
    for arm in raw["arms"]:
        if arm == "nothing":
            continue
        share = added_share(raw, arm)
        lines.append(
            f"| {arm} | {added_us(raw, arm).shown()} | {added_us(raw, arm, 'cpu_ns').shown()} "
            f"| {share.value:+.1%} [{share.low:+.1%}, {share.high:+.1%}] "
            f"| {added_s(raw, arm, 'script_s').shown(2)} | {added_s(raw, arm, 'command_s').shown(2)} |"
        )
    empty, real = (statistics.median(column(raw, step, "nothing", "wall_ns")) for step in ("empty", "20ms"))
    lines.append(f"\nWithout any tool the empty step takes {empty / 1e3:.0f} us and the other {real / 1e6:.1f} ms.")
    return "\n".join(lines)


METHOD = """Median over rounds, with its 90 % interval (bootstrap over rounds); in each round every tool runs once, in random order, and
is compared with the bare run of the same round. A step is the median over blocks of steps after warm-up, read inside the
script. The empty step has a DataLoader without workers, one optimizer, one transfer and one read-back; the other a loader
with one worker, and batches as large as make it take 20 ms on this machine, found at the start. Each tool is used as its
first page says. When the script has ended is known by a FIFO that it holds open, so that exit handlers count; the command may
go on, to write its report. The seconds added are, in the table of tools, those of the runs with 20 ms steps; above it those
of runs of twenty such steps, in pairs: start and end are all that is added there, and ten seconds of computing differ by more
than that. The own cost is what the report says: events at their calibrated cost, and the CPU time of the sampler and of the
monitors outside the training.

Two processes differ by more than slowstep's hooks cost, however alike their scripts are. What the hooks add is therefore
measured inside one process, `overhead_toggle.py`, that takes them away and puts them back between blocks of 1050 steps (in
pairs, in random order, the first 50 steps of a block left out); sampler and launcher run on in both kinds of blocks. The
table of tools compares whole processes."""


def shown_share(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.2%}"
