"""What ran in the gaps after updates, by calls that were timed in a few of them: exact where stacks are biased.

A function that holds the interpreter's lock lets no stack be taken; its calls are timed all the same. Timing makes Python code slower
(`slowdown`, measured by the recorder), built-in functions not: that is taken out again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.functions import is_library
from slowstep.timeline.timeline import Frame, Timeline

# Fewer timed gaps than this say nothing of the others.
FEWEST_GAPS = 3
# What takes less of the gaps is left to stacks.
SMALLEST_SHARE = 0.02
RECEIPT = re.compile(r"slowstep[/\\]record[/\\]|torch[/\\]utils[/\\]data[/\\]")
# Modules and built-in functions whose work is telling somebody: log lines, event files, progress bars.
LOGGING = re.compile(
    r"[/\\]logging[/\\]|[/\\]tensorboard(X)?[/\\]|[/\\]csv\.py$|[/\\](tqdm|wandb|mlflow|loguru|rich|comet_ml|neptune|aim|swanlab)[/\\]"
)
TELLING = re.compile(r"builtins\.print$|'write' of '_io\.TextIOWrapper'|'(writerow|writerows)' of '_csv")
# Libraries that judge results, and what reads them back.
METRICS = re.compile(r"[/\\](sklearn|torchmetrics|torcheval|evaluate|scipy|skimage|seqeval|sacrebleu|rouge_score|pycocotools|numpy)[/\\]")
READING_BACK = re.compile(r"'(item|tolist|numpy|cpu)' of 'torch|numpy")


@dataclass(frozen=True, kw_only=True, slots=True)
class GapFunction:
    """A function of the user's that was called in every timed gap. `share` is of the gaps, the other two are of the function."""

    name: str
    file: str
    line: int
    share: float
    logging: float
    metrics: float
    ns_per_gap: float
    told_per_gap: float  # calls of what tells or judges


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedGaps:
    """What a few timed gaps held."""

    gaps: int
    functions: tuple[GapFunction, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    file: str
    name: str
    line: int
    total: float
    own: float
    calls: int
    edges: dict[int, float]

    @property
    def built_in(self) -> bool:
        return self.file.startswith("<built-in")

    def is_logging(self) -> bool:
        return bool(TELLING.search(self.name) if self.built_in else LOGGING.search(self.file))

    def is_metrics(self) -> bool:
        return bool(READING_BACK.search(self.name) if self.built_in else METRICS.search(self.file))


class _Tree:
    """Timed calls of one process, without what timing them cost."""

    def __init__(self, nodes: dict[int, _Node], slowdown: float) -> None:
        self.nodes, self._slowdown = nodes, slowdown
        self._left: dict[int, float] = {}
        self._held: dict[tuple[int, str], float] = {}

    def left(self, number: int) -> float:
        """The share of a function's timed duration that it takes when nobody times it."""
        if number not in self._left:
            node = self.nodes[number]
            plain = 1.0 if node.built_in else 1.0 / self._slowdown
            # Met again below where functions call each other: for a first answer, as if all of it were its own.
            self._left[number] = plain
            below = sum(node.edges.values())
            rest = max(node.total - below, 0.0)
            kept = rest * plain + sum(ns * self.left(callee) for callee, ns in node.edges.items())
            self._left[number] = kept / max(rest + below, 1.0)
        return self._left[number]

    def held(self, number: int, what: str) -> float:
        """Ns of a function, untimed, that are spent in logging or in metrics."""
        key = (number, what)
        if key not in self._held:
            # Met again below where functions call each other: counted once.
            self._held[key] = 0.0
            node = self.nodes[number]
            if node.is_logging() if what == "logging" else node.is_metrics():
                self._held[key] = node.total * self.left(number)
            else:
                parts = (self.held(callee, what) * ns / max(self.nodes[callee].total, 1.0) for callee, ns in node.edges.items())
                self._held[key] = sum(parts)
        return self._held[key]

    def roots(self) -> dict[int, float]:
        """Functions that were called by what had begun before the gap, and their ns as such."""
        inner: dict[int, float] = defaultdict(float)
        for number, node in self.nodes.items():
            for callee, ns in node.edges.items():
                if callee != number:
                    inner[callee] += ns
        return {number: ns for number, node in self.nodes.items() if (ns := node.total - inner[number]) > 0.01 * node.total}


def find_timed_gaps(timeline: Timeline, process: int) -> TimedGaps | None:
    """What the timed gaps of a training held; None where too few were timed."""
    rows = timeline.table("calls").filter(pl.col("process") == process, pl.col("kind") == "gap", pl.col("wall_ns").is_not_null())
    if rows.is_empty() or rows["stretches"][0] < FEWEST_GAPS:
        return None
    edges = timeline.table("call_edges").filter(pl.col("process") == process, pl.col("kind") == "gap")
    gaps, wall = int(rows["stretches"][0]), float(rows["wall_ns"][0])
    tree = _Tree(_nodes(rows, edges), float(rows["slowdown"][0] or 1.0))
    roots = tree.roots()
    timed = sum(roots.values())
    whole = max(wall - timed, 0.0)
    for number, ns in roots.items():
        if not RECEIPT.search(tree.nodes[number].file):
            whole += ns * tree.left(number)
    found = [_function(tree, number, ns, whole, gaps) for number, ns in roots.items() if _is_users(tree.nodes[number], gaps)]
    kept = sorted((f for f in found if f.share >= SMALLEST_SHARE), key=lambda f: -f.share)
    return TimedGaps(gaps=gaps, functions=tuple(kept))


def _nodes(rows: pl.DataFrame, edges: pl.DataFrame) -> dict[int, _Node]:
    called: dict[int, dict[int, float]] = defaultdict(dict)
    for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
        called[caller][callee] = float(ns)
    columns = ("number", "file", "function", "first_line", "total_ns", "own_ns", "calls")
    return {
        number: _Node(file, name, line, float(total), float(own), calls or 0, called.get(number, {}))
        for number, file, name, line, total, own, calls in rows.select(columns).iter_rows()
    }


def _is_users(node: _Node, gaps: int) -> bool:
    frame = Frame(file=node.file, function=node.name, first_line=node.line, line=node.line)
    return not is_library(frame) and not RECEIPT.search(node.file) and node.calls >= gaps


def _function(tree: _Tree, number: int, ns: float, whole: float, gaps: int) -> GapFunction:
    node = tree.nodes[number]
    mine = ns * tree.left(number)
    own = max(node.total * tree.left(number), 1.0)
    telling = [n for n in tree.nodes.values() if n.is_logging() or n.is_metrics()]
    return GapFunction(
        name=node.name,
        file=node.file,
        line=node.line,
        ns_per_gap=mine / gaps,
        share=min(mine / max(whole, 1.0), 1.0),
        logging=min(tree.held(number, "logging") / own, 1.0),
        metrics=min(tree.held(number, "metrics") / own, 1.0),
        told_per_gap=max((n.calls for n in telling), default=0) / gaps,
    )
