"""Timed calls of gaps: what a function spent in others, and in logging or metrics, without what timing it cost.

Timing makes Python code slower (`slowdown`, measured by the recorder), built-in functions not: that is taken out again.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

import polars as pl

from slowstep.analyses.python.functions import LIBRARY
from slowstep.frameworks._known import code, named
from slowstep.frameworks._words import Code, Named

# Modules and built-in functions whose work is telling somebody: log lines, event files, progress bars. Paths begin at the package.
LOGGING = re.compile(
    r"^(logging|tqdm|wandb|mlflow|loguru|rich|comet_ml|neptune|aim|swanlab|tensorboardX?)[/\\]|^csv\.py$|[/\\]tensorboard[/\\]"
)
TELLING = re.compile(r"builtins\.print$|'write' of '_io\.TextIOWrapper'|'(writerow|writerows)' of '_csv")
# Libraries that judge results, or their parts that do (distances of samples are for clusters and neighbours), and what reads results back.
JUDGING = re.compile(
    r"^(evaluate|seqeval|sacrebleu|rouge_score|pycocotools|skimage[/\\]metrics|sklearn[/\\]metrics(?![/\\]_?pairwise))[/\\]"
    rf"|{code(Code.METRICS).pattern}"
)
READING_BACK = re.compile(rf"{named(Named.READS_BACK).pattern}|'(item|tolist|numpy|cpu)' of 'numpy")
# Libraries of arrays judge results only in functions of the user's that are named so: they cluster, draw and count as well.
ARRAYS = re.compile(r"^(scipy|numpy)[/\\]")
OF_ARRAYS = re.compile(r"\bnumpy\b")
JUDGEMENT = re.compile(
    r"metrics?|scores?|accurac(y|ies)|acc|precision|recall|confusion|au(c|roc|prc)|roc|f1|m?iou|dice|jaccard|kappa|mcc|psnr|ssim|bleu|rouge"
    r"|wer|cer|ndcg|mrr|mae|r?mse|r2|perplexity|calibration",
    re.IGNORECASE,
)
AREA = re.compile(r"area_?under", re.IGNORECASE)
# The words of a name: `f1_score`, `ConfusionMatrix`, `AUCMeter`.
WORD = re.compile(r"[A-Z]+(?![a-z])\d*|[A-Z]?[a-z]+\d*")
# Where a function is that has no file.
BUILT_IN = "<built-in"
METHOD = re.compile(r"method '(?P<name>\w+)' of '(?P<owner>[\w.]+)' objects")
# Where installed packages begin; what is before is the user's to name.
PACKAGES = re.compile(r".*[/\\](?:(?:site|dist)-packages|lib(?:64)?[/\\]python\d+(?:\.\d+)?)[/\\]")
# Who walks over a model's weights, who copies tensors, and who changes them in place.
WALKS = named(Named.WALKS)
COPIES = re.compile(rf"{named(Named.COPIES).pattern}|(^|\.)deepcopy$")
CHANGES = named(Named.CHANGES)


@dataclass(frozen=True, slots=True)
class Node:
    """A function: ns in all its calls, those in itself, how many there were, and ns in the functions that it called, by their numbers."""

    file: str
    name: str
    line: int
    total: float
    own: float
    calls: int
    edges: dict[int, float]

    @property
    def built_in(self) -> bool:
        return self.file.startswith(BUILT_IN)

    @property
    def is_library(self) -> bool:
        """Whether it is not the user's own: built in, or of an installed package."""
        return bool(LIBRARY.search(self.file))

    @property
    def shown(self) -> str:
        """Its name as people write it: "Tensor.item" and "print" of built-in ones, too."""
        if (method := METHOD.search(self.name)) is not None:
            return f"{method['owner'].rpartition('.')[2].removesuffix('Base').lstrip('_')}.{method['name']}"
        return self.name.removeprefix("built-in method ").removeprefix("builtins.") if self.built_in else self.name

    @property
    def in_package(self) -> str:
        """Its file from the package on."""
        return PACKAGES.sub("", self.file)

    def is_logging(self) -> bool:
        """Whether it tells somebody something."""
        return bool(TELLING.search(self.name) if self.built_in else self.is_library and LOGGING.search(self.in_package))

    def is_metrics(self) -> bool:
        """Whether it judges results, or reads them back."""
        if READING_BACK.search(self.name):
            return self.is_library
        return not self.built_in and self.is_library and bool(JUDGING.search(self.in_package))

    def computes(self) -> bool:
        """Whether it judges results, reads them back, or computes with arrays."""
        of_arrays = OF_ARRAYS.search(self.name) if self.built_in else self.is_library and ARRAYS.search(self.in_package)
        return self.is_metrics() or bool(of_arrays)

    @property
    def named_for_metrics(self) -> bool:
        """Whether it is the user's, and its name says that it judges results."""
        name = self.name.rpartition("<locals>.")[2]
        return not self.is_library and (bool(AREA.search(name)) or any(map(JUDGEMENT.fullmatch, WORD.findall(name))))


# What less of a function goes into is not followed.
LEAST_SHARE = 1e-3
# Calls that are nested deeper than this are not followed.
DEEPEST = 100
Wanted = Callable[[Node], bool]


class GapCalls:
    """Timed calls of one process, without what timing them cost."""

    def __init__(self, nodes: dict[int, Node], slowdown: float) -> None:
        self.nodes, self._slowdown = nodes, slowdown
        self._left: dict[int, float] = {}
        self._held: dict[tuple[int, Wanted], float] = {}

    def without(self, wanted: Wanted) -> GapCalls:
        """The same, with the time in wanted functions taken out of all that called them, by themselves or through others."""
        gone = _shares_in(self.nodes, wanted)
        return GapCalls({number: self._left_of(number, gone, wanted) for number in self.nodes}, self._slowdown)

    def _left_of(self, number: int, gone: dict[int, float], wanted: Wanted) -> Node:
        node = self.nodes[number]
        if wanted(node):
            return node
        edges = {callee: ns * (1 - gone[callee]) for callee, ns in node.edges.items() if not wanted(self.nodes[callee])}
        return replace(node, total=node.total * (1 - gone[number]), edges=edges)

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

    def held(self, number: int, wanted: Wanted) -> float:
        """Untimed ns of a function that are spent in wanted functions; of what others call too, its share."""
        key = (number, wanted)
        if key not in self._held:
            # Met again below where functions call each other: counted once.
            self._held[key] = 0.0
            node = self.nodes[number]
            if wanted(node):
                self._held[key] = node.total * self.left(number)
            else:
                parts = (self.held(callee, wanted) * ns / max(self.nodes[callee].total, 1.0) for callee, ns in node.edges.items())
                self._held[key] = sum(parts)
        return self._held[key]

    def in_libraries(self, number: int) -> dict[int, float]:
        """The untimed ns of a user's function in what it called of libraries, by itself or by other functions of the user's."""
        found: dict[int, float] = defaultdict(float)
        for caller, share in self.in_users(number).items():
            for callee, ns in self.nodes[caller].edges.items():
                if self.nodes[callee].is_library:
                    found[callee] += ns * share * self.left(callee)
        return dict(found)

    def in_users(self, number: int) -> dict[int, float]:
        """Of a user's function, and of each other one of the user's that it called, the share of all its time that belongs there."""
        found: dict[int, float] = defaultdict(float)
        self._gather(number, 1.0, (), found)
        return dict(found)

    def _gather(self, caller: int, share: float, way: tuple[int, ...], found: dict[int, float]) -> None:
        found[caller] += share
        for callee, ns in self.nodes[caller].edges.items():
            node = self.nodes[callee]
            if not node.is_library and callee != caller and callee not in way and share > LEAST_SHARE:
                self._gather(callee, share * min(ns / max(node.total, 1.0), 1.0), (*way, caller), found)

    def roots(self) -> dict[int, float]:
        """Functions that were called by what had begun before the gap, and their ns as such."""
        inner: dict[int, float] = defaultdict(float)
        for number, node in self.nodes.items():
            for callee, ns in node.edges.items():
                if callee != number:
                    inner[callee] += ns
        return {number: ns for number, node in self.nodes.items() if (ns := node.total - inner[number]) > 0.01 * node.total}


def _shares_in(nodes: dict[int, Node], wanted: Wanted) -> dict[int, float]:
    """Of each function's time the share that it spends in wanted functions; of what others call too, its share."""
    shares = {number: float(wanted(node)) for number, node in nodes.items()}
    # Again and again, as far as it grows: functions that call each other have no order in which once would do.
    for _ in range(DEEPEST):
        before = dict(shares)
        for number, node in nodes.items():
            if not wanted(node):
                shares[number] = min(sum(ns * shares[callee] for callee, ns in node.edges.items()) / max(node.total, 1.0), 1.0)
        if all(shares[number] - before[number] < LEAST_SHARE for number in nodes):
            break
    return shares


def read_nodes(rows: pl.DataFrame, edges: pl.DataFrame) -> dict[int, Node]:
    """The functions of the tables `calls` and `call_edges`, by their numbers."""
    called: dict[int, dict[int, float]] = defaultdict(dict)
    for caller, callee, ns in edges.select("caller", "callee", "total_ns").iter_rows():
        called[caller][callee] = float(ns)
    columns = ("number", "file", "function", "first_line", "total_ns", "own_ns", "calls")
    return {
        number: Node(file, name, line, float(total), float(own), calls or 0, called.get(number, {}))
        for number, file, name, line, total, own, calls in rows.select(columns).iter_rows()
    }
