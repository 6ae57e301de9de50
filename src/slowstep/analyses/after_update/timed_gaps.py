"""What ran in the gaps after updates, by calls that were timed in a few of them: exact where stacks are biased.

A function that holds the GIL lets no stack be taken; its calls are timed all the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from slowstep.analyses.python.functions import COMPUTING, MODEL_FILE, MODULE_CALL
from slowstep.analyses.python.gap_calls import CHANGES, COPIES, JUDGING, LOGGING, WALKS, GapCalls, Node, Wanted, read_nodes
from slowstep.frameworks._known import code
from slowstep.frameworks._words import Code
from slowstep.parts import Part, PartKind
from slowstep.record.writing import own_frames
from slowstep.shares import MOSTLY
from slowstep.timeline.timeline import Place, Timeline

# Fewer timed gaps than this say nothing of the others.
FEWEST_GAPS = 3
# What takes less of the gaps is left to stacks.
SMALLEST_SHARE = 0.02
LOADER = code(Code.LOADER)
# Where a request for the next batch begins. A gap ends with it, but whoever asks may have been called in the gap: a runner's `train_iter`.
# Not all of the above: a callback may call a model, whose hooks are ours, or collate samples by itself.
REQUEST = code(Code.REQUEST)
OUR_REQUEST = code(Code.HOOK_OF_REQUEST)
# What stands between the loop and a function that is decorated.
WRAPPER = code(Code.DECORATOR)
# Of a function that hands batches on: they are of no length, or nearly, where the loader is fast.
WAITING = 0.10
# What trainers of frameworks call their callbacks' methods.
CALLBACK_METHOD = re.compile(r"(^|\.)(?P<name>on_\w+)$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Within:
    """Functions of a library in which something spends that share of its time."""

    name: str
    share: float


@dataclass(frozen=True, kw_only=True, slots=True)
class GapFunction:
    """A function of the user's that was called in every timed gap. `share` is of the gaps, the others are of the function."""

    name: str
    file: str
    line: int
    share: float
    logging: float
    metrics: float
    gradients: float  # in functions that name them
    ns_per_gap: float
    timed_ns_per_gap: float  # while its calls were timed
    timed_per_gap: float  # calls of what tells or judges
    within: Within | None  # what holds most of it
    averages_weights: bool  # or changes them otherwise, in place
    copies_weights: bool  # or averages them into new tensors, by operators


@dataclass(frozen=True, kw_only=True, slots=True)
class DirectCall:
    """What the loop itself calls in every timed gap of one library that tells (`logs`) or judges; `share` is of the gaps."""

    name: str
    logs: bool
    share: float
    ns_per_gap: float
    timed_ns_per_gap: float  # while its calls were timed

    @property
    def part(self) -> Part:
        """As the ledger has it: which of the loop's lines that is, timed calls do not tell."""
        return Part("store" if self.logs else "output", PartKind.LIBRARY_CALL, self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TimedGaps:
    """What a few timed gaps held."""

    gaps: int
    functions: tuple[GapFunction, ...]
    direct: tuple[DirectCall, ...] = ()
    began_ns: tuple[int, ...] = ()  # when each was, of the first hundred
    on_weights: frozenset[str] = frozenset()  # callbacks' methods whose work, of that one with most time, is on the model's weights


def find_timed_gaps(timeline: Timeline, process: int) -> TimedGaps | None:
    """What the timed gaps of a training held; None where too few were timed."""
    read = read_gap_calls(timeline, process)
    if read is None:
        return None
    everything, gaps, wall = read
    tree = everything.without(requests)
    roots = tree.roots()
    whole = _length_ns(wall - sum(everything.roots().values()), tree, roots)
    # What runs in fewer gaps, on average, is not a part of every step.
    called = _unwrapped(tree, roots)
    often = {number: ns for number, ns in called.items() if tree.nodes[number].calls >= gaps}
    users = timeline.processes[process].uses_gradients

    def uses_gradients(node: Node) -> bool:
        return (node.file, node.name, node.line) in users and not COMPUTING.search(node.file)

    judges = _judges(tree)
    own = [number for number in often if is_users(tree.nodes[number])]
    found = [_function(tree, number, often[number], whole, gaps, uses_gradients, judges) for number in own]
    kept = sorted((f for f in found if f.share >= SMALLEST_SHARE), key=lambda f: -f.share)
    return TimedGaps(
        gaps=gaps,
        functions=tuple(kept),
        direct=tuple(_direct(tree, everything, often, whole, gaps)),
        began_ns=_beginnings(timeline, process),
        on_weights=_methods_on_weights(tree),
    )


def _beginnings(timeline: Timeline, process: int) -> tuple[int, ...]:
    rows = timeline.table("timed_stretches").filter(pl.col("process") == process, pl.col("kind") == "gap")
    return tuple(rows["start_ns"].to_list())


@dataclass(frozen=True, slots=True)
class GapTimes:
    """Ns per timed gap of a function, all its calls together: as timed, and by the recorder's calibration without what timing cost."""

    timed_ns: float
    plain_ns: float


def times_of_functions(timeline: Timeline, process: int) -> dict[Place, GapTimes]:
    """Those that ran in timed gaps, but for built-in ones; empty where too few were timed."""
    read = read_gap_calls(timeline, process)
    if read is None:
        return {}
    tree, gaps, _ = read
    return {
        (node.file, node.name, node.line): GapTimes(node.total / gaps, node.total * tree.left(number) / gaps)
        for number, node in tree.nodes.items()
        if not node.built_in
    }


def read_gap_calls(timeline: Timeline, process: int) -> tuple[GapCalls, int, float] | None:
    """The timed calls, how many gaps they are of, and how long those took (ns); None where these are too few."""
    rows = timeline.table("calls").filter(pl.col("process") == process, pl.col("kind") == "gap", pl.col("wall_ns").is_not_null())
    if rows.is_empty() or rows["stretches"][0] < FEWEST_GAPS:
        return None
    edges = timeline.table("call_edges").filter(pl.col("process") == process, pl.col("kind") == "gap")
    return GapCalls(read_nodes(rows, edges), float(rows["slowdown"][0] or 1.0)), int(rows["stretches"][0]), float(rows["wall_ns"][0])


def _length_ns(uncalled_ns: float, tree: GapCalls, roots: dict[int, float]) -> float:
    """How long the gaps were, but for requests, and for what timing cost: `uncalled_ns` outside all calls, and in those of the loop."""
    length = max(uncalled_ns, 0.0)
    for number, ns in roots.items():
        if not _receives(tree.nodes[number]):
            length += ns * tree.left(number)
    return length


def _receives(node: Node) -> bool:
    return own_frames.is_own(node.file) or bool(LOADER.search(node.file))


def requests(node: Node) -> bool:
    """Whether it asks for the next batch: no part of the gap."""
    return bool(OUR_REQUEST.search(node.file) or REQUEST.search(node.file))


def _unwrapped(tree: GapCalls, roots: dict[int, float]) -> dict[int, float]:
    """The same, with what is decorated in place of the decorator."""
    found: dict[int, float] = defaultdict(float)
    for number, ns in roots.items():
        own = {callee: held for callee, held in tree.nodes[number].edges.items() if is_users(tree.nodes[callee])}
        if not own or not WRAPPER.search(tree.nodes[number].file):
            found[number] += ns
            continue
        # One decorator may be called from other functions, too.
        mine = min(ns / max(tree.nodes[number].total, 1.0), 1.0)
        for callee, held in own.items():
            found[callee] += held * mine
    return dict(found)


def is_users(node: Node) -> bool:
    """Whether it is the user's own function."""
    return not node.is_library and not _receives(node)


def _judges(tree: GapCalls) -> Wanted:
    """What judges results: libraries for that, and functions of the user's that compute with arrays and are named so."""
    named = {
        (node.file, node.name, node.line)
        for number, node in tree.nodes.items()
        # A function is what it spends at least half of its time in.
        if node.named_for_metrics and tree.held(number, Node.computes) >= MOSTLY * node.total * tree.left(number)
    }

    def judges(node: Node) -> bool:
        return node.is_metrics() or (node.file, node.name, node.line) in named

    return judges


def _function(tree: GapCalls, number: int, ns: float, whole: float, gaps: int, uses_gradients: Wanted, judges: Wanted) -> GapFunction:
    node = tree.nodes[number]
    mine, own = ns * tree.left(number), max(node.total * tree.left(number), 1.0)
    telling = [n for n in tree.nodes.values() if n.is_logging() or judges(n)]
    return GapFunction(
        name=node.name,
        file=node.file,
        line=node.line,
        ns_per_gap=mine / gaps,
        timed_ns_per_gap=ns / gaps,
        share=min(mine / max(whole, 1.0), 1.0),
        logging=min(tree.held(number, Node.is_logging) / own, 1.0),
        metrics=min(tree.held(number, judges) / own, 1.0),
        gradients=min(tree.held(number, uses_gradients) / own, 1.0),
        timed_per_gap=max((n.calls for n in telling), default=0) / gaps,
        within=within_libraries(tree, number, own),
        averages_weights=_averages(tree, number, own),
        copies_weights=_copies(tree, number, own),
    )


def _averages(tree: GapCalls, number: int, own: float) -> bool:
    """Whether a function, which takes `own` ns, changes a model's weights, or an average of them, in place."""
    return _walks(tree, number) and _called(tree, number, CHANGES) >= SMALLEST_SHARE * own


def _copies(tree: GapCalls, number: int, own: float) -> bool:
    """Whether it makes new tensors of them."""
    return _walks(tree, number) and _called(tree, number, COPIES) + tree.nodes[number].own * tree.left(number) >= MOSTLY * own


def _methods_on_weights(tree: GapCalls) -> frozenset[str]:
    """Names of callbacks' methods whose work is on the weights: of those of one name it is that of the one with most time."""
    most: dict[str, tuple[float, int]] = {}
    for number, node in tree.nodes.items():
        if not node.built_in and (method := CALLBACK_METHOD.search(node.name)) is not None:
            most[method["name"]] = max(most.get(method["name"], (0.0, number)), (node.total * tree.left(number), number))
    return frozenset(name for name, (own, number) in most.items() if _averages(tree, number, own) or _copies(tree, number, own))


def within_libraries(tree: GapCalls, number: int, own: float) -> Within | None:
    """What of a library holds most of a function, which takes `own` ns; None where nothing does."""
    held = tree.in_libraries(number)
    most = max(held, key=lambda callee: held[callee], default=None)
    if most is None or held[most] < MOSTLY * own:
        return None
    return Within(name=_module_called(tree, most) or tree.nodes[most].shown, share=min(held[most] / own, 1.0))


def _module_called(tree: GapCalls, number: int) -> str | None:
    """The class of the module whose forward holds most of a call of one; None where the function is no such call."""
    seen: set[int] = set()
    while number not in seen and _calls_a_module(tree.nodes[number]):
        seen.add(number)
        edges = tree.nodes[number].edges
        # By timed ns: modules call each other, and what timing added to calls that nest cannot be distinguished.
        number = max(edges, key=lambda callee: edges[callee], default=number)
    owner, _, method = tree.nodes[number].name.rpartition(".")
    return owner.rpartition("<locals>.")[2] if seen and method == "forward" and owner else None


def _calls_a_module(node: Node) -> bool:
    return bool(MODEL_FILE.search(node.file) and MODULE_CALL.search(node.name))


def _walks(tree: GapCalls, number: int) -> bool:
    """Whether a function of the user's walks over a model's weights."""
    return any(WALKS.search(tree.nodes[callee].shown) for callee in tree.in_libraries(number))


def _called(tree: GapCalls, number: int, wanted: re.Pattern[str]) -> float:
    """The untimed ns of a function of the user's in what it called of libraries by such names."""
    return sum(ns for callee, ns in tree.in_libraries(number).items() if wanted.search(tree.nodes[callee].shown))


def _direct(tree: GapCalls, everything: GapCalls, roots: dict[int, float], whole: float, gaps: int) -> Iterator[DirectCall]:
    """What tells or judges, where the loop itself calls it: the functions of one library together."""
    libraries: dict[str, list[int]] = defaultdict(list)
    for number in roots:
        node = tree.nodes[number]
        # A progress bar around the loader waits for it.
        waits = everything.held(number, _receives) >= WAITING * everything.nodes[number].total * everything.left(number)
        if node.is_library and not waits and (name := _tells_or_judges(tree, node)) is not None:
            libraries[name].append(number)
    for numbers in libraries.values():
        nodes = [tree.nodes[number] for number in sorted(numbers, key=lambda number: -roots[number] * tree.left(number))]
        mine = sum(roots[number] * tree.left(number) for number in numbers)
        yield DirectCall(
            name=_together([_inside(tree, node) for node in nodes]),
            logs=nodes[0].is_logging(),
            share=min(mine / max(whole, 1.0), 1.0),
            ns_per_gap=mine / gaps,
            timed_ns_per_gap=sum(roots[number] for number in numbers) / gaps,
        )


def _inside(tree: GapCalls, node: Node) -> Node:
    """Of a library's wrapper around its function (by its qualified name), that function."""
    # Wrappers may call each other.
    seen: set[int] = set()
    while "<locals>" in node.name:
        inner = {callee: ns for callee, ns in node.edges.items() if callee not in seen and not tree.nodes[callee].built_in}
        inner = {callee: ns for callee, ns in inner.items() if tree.nodes[callee].in_package != node.in_package}
        if not inner:
            break
        callee = max(inner, key=lambda callee: inner[callee])
        seen.add(callee)
        node = tree.nodes[callee]
    return node


def _together(nodes: list[Node]) -> str:
    """One name for several functions: "MetricCollection.update with .compute", "f1_score with 3 others"."""
    first = nodes[0].shown
    if len(nodes) == 1:
        return first
    if len(nodes) > 2:
        return f"{first} with {len(nodes) - 1} others"
    owner = first.rpartition(".")[0]
    second = nodes[1].shown
    return f"{first} with {second.removeprefix(owner) if owner and second.startswith(f'{owner}.') else second}"


def _tells_or_judges(tree: GapCalls, node: Node) -> str | None:
    """The library that a function is of, where that is for telling or judging; None where it is not."""
    if node.built_in:
        return node.shown if node.is_logging() else None
    # All public functions of scikit-learn have one wrapper.
    found = LOGGING.search(node.in_package) or JUDGING.search(node.in_package) or JUDGING.search(_inside(tree, node).in_package)
    return None if found is None else found[0]
