"""What was measured on a machine says where it comes from, and its script is there."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest

from slowstep import calibration
from slowstep.calibration.calibration import Calibration

ROOT = Path(__file__).parents[2]
FOLDER = Path(calibration.__path__[0])
MODULES = {path.stem: import_module(f"slowstep.calibration.{path.stem}") for path in FOLDER.glob("[!_]*.py")}
# Of a constant's comment: it was measured, on some machine, or is a version's, and stands for others.
OF_A_MACHINE = re.compile(
    r"(?i)\b(two|shared|busy|quiet|idle) (shared |busy |quiet )?cores\b|EPYC|Xeon|virtual machine|\b(torch|tensorflow|keras|jax) \d+\.\d"
    r"|benchmarks/\w|\b(was|were) measured\b|\(measured\)|\bmeasured (of|with)\b|\bwere seen of\b"
)
# What runs inside a training imports nothing of these values: what its own looking may take stands beside it.
INSIDE = re.compile(r"record/|levers/|frameworks/\w+/inside/")
ELSEWHERE = {
    "analyses/machine/own_cost.py": "what recording may take, which a benchmark holds it to",
    "analyses/replay/replay.py": "how long a replay may take slowstep itself",
    "cli/freed_memory.py": "what slowstep itself takes of a large file",
    "prove/stats/design.py": "simulated: of no machine",
    "prove/stats/figures.py": "a number of parts, as many as another constant's benchmark has",
    "prove/stats/intervals.py": "simulated: of no machine",
    "sources/_kineto/co_readers.py": "how long reading takes slowstep itself",
    "workflow/traces/trace_memory.py": "what slowstep itself takes of a trace",
}
# Measured, and not brought here yet: the list only gets shorter.
NOT_BROUGHT = {
    "diagnosis/evidence/after_pause.py": ["(SHORTEST_NS, SHORT_NS, LONG_NS)"],
    "diagnosis/evidence/compute/optimizer_side.py": ["MOST_ELEMENTS", "(SHORT_NS, LONG_NS)"],
    "diagnosis/evidence/profiled/marked_steps.py": ["HOST_SHARE"],
    "diagnosis/rules/compute/unfused_optimizer.py": ["WORTH"],
    "diagnosis/rules/input/cold_cache.py": ["BYTES_AT_LEAST"],
    "diagnosis/rules/input/slow_collate.py": ["FEWER_PARTS"],
    "report/bench_terminal.py": ["_NEXT_TO_NOTHING"],
    "sources/_kineto/tables.py": ["_NO_RECORDING_NS"],
    "sources/_last_steps.py": ["LEFT_OUT_SHARE"],
}
ALL = {name: value for module in MODULES.values() for name, value in vars(module).items() if isinstance(value, Calibration)}
SCRIPT = re.compile(r"(?:benchmarks|examples)/[\w./]*\w")
# No script was kept for these: each was measured by hand, as its `measured_by` says. A new value has one, and the list only gets shorter.
BY_HAND = {
    "between_runs": {"EVEN_STEPS"},
    "computing": {"LOOPS_BACKWARD"},
    "loading": {
        "KEPT_WORKERS_START",
        "RECEIVING",
        "RECEIVING_BYTE",
        "RECEIVING_TENSOR",
        "SHARED_FILE",
        "SHARED_FILE_BYTE",
        "SHARED_LIMIT",
        "SPUN",
        "SPUN_ITSELF",
        "STAGE_AT_WORK",
    },
    "python_lines": {"ENCODED_BYTES", "PASSING_JUMP", "POWER_OF_PACE", "PYTHON_LINE", "SMALLEST_MODEL", "VECTORISED_SAMPLE"},
    "side_by_side": {"ATTAINED", "IDLE_CORE", "WARMED", "WARMED_AT_MOST"},
    "updating": {"BY_TENSOR", "FUSED_LEFT", "SMALL_TENSOR"},
    "without_workers": {"COLLATED_HERE", "GIVEN_BACK", "MADE_BETWEEN", "NEWLY_MAPPED"},
}


@pytest.mark.parametrize("value", ALL.values(), ids=ALL)
def test_a_measured_value_lies_within_its_bounds_and_says_whence_it_is(value: Calibration) -> None:
    low, high = value.bounds

    assert low <= value.value <= high
    assert all((value.unit, value.meaning, value.machine, value.measured_by))
    assert re.match(r"\d{4}-\d\d-\d\d", value.date)


def test_every_value_names_the_script_that_measures_it_but_those_that_were_measured_by_hand() -> None:
    paths = {name: SCRIPT.findall(value.measured_by) for name, value in ALL.items()}
    by_hand = defaultdict(set)
    for module, names in ((stem, vars(module)) for stem, module in MODULES.items()):
        for name, value in names.items():
            if isinstance(value, Calibration) and not paths[name]:
                by_hand[module].add(name)

    assert by_hand == BY_HAND
    assert {name: path for name, each in paths.items() for path in each if not (ROOT / path).exists()} == {}


@pytest.fixture(scope="module")
def reads() -> dict[str, set[str]]:
    """What the code reads of each measured value, by its name: attributes, and "" for the value as a whole."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "src").rglob("*.py"):
        if path.parent != FOLDER and "calibration" in (text := path.read_text(encoding="utf-8")):
            _read(ast.parse(text), found)
    return found


def _read(tree: ast.Module, found: dict[str, set[str]]) -> None:
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and str(node.module).startswith("slowstep.calibration")]
    imported = {each.asname or each.name: each.name for node in imports for each in node.names}
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        name = None
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and imported.get(node.value.id) in MODULES:
            name = node.attr
        elif isinstance(node, ast.Name) and node.id in imported:
            name = imported[node.id]
        if name is not None:
            parent = parents[node]
            found[name].add(parent.attr if isinstance(parent, ast.Attribute) else "")


def _measured_there(text: str) -> list[str]:
    """The constants of a module whose comments name a machine, a framework's version or a benchmark."""
    if not OF_A_MACHINE.search(text.replace("\n# ", " ")):
        return []
    rows = text.splitlines()
    found = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            above = list(itertools.takewhile(lambda row: row.startswith("#"), reversed(rows[: node.lineno - 1])))
            if OF_A_MACHINE.search(" ".join([*(row[2:] for row in reversed(above)), rows[node.lineno - 1].partition("  # ")[2]])):
                found.append(ast.unparse(node.targets[0] if isinstance(node, ast.Assign) else node.target))
    return found


def test_what_was_measured_on_a_machine_stands_here_and_nowhere_else() -> None:
    root = ROOT / "src/slowstep"
    paths = [path for path in root.rglob("*.py") if path.parent != FOLDER and not INSIDE.match(path.relative_to(root).as_posix())]
    found = {path.relative_to(root).as_posix(): names for path in paths if (names := _measured_there(path.read_text(encoding="utf-8")))}

    assert {path: names for path, names in found.items() if path not in ELSEWHERE} == NOT_BROUGHT
    assert ELSEWHERE.keys() - found.keys() == set()


def test_a_constant_is_seen_whose_comment_names_a_machine() -> None:
    text = (
        "# On two shared\n# cores.\nA = 1\n# As the paper has it.\nB: int = 2\nC = 3  # by benchmarks/pace.py\n"
        "# 9 KB were\n# measured.\nD = 4\n"
    )

    assert _measured_there(text) == ["A", "C", "D"]


def test_every_measured_value_is_taken_from_here(reads: dict[str, set[str]]) -> None:
    assert ALL.keys() - reads.keys() == set()


def test_the_ends_of_a_measured_value_are_read_where_it_has_some(reads: dict[str, set[str]]) -> None:
    with_ends = [name for name, value in ALL.items() if value.low is not None or value.high is not None]

    assert with_ends
    assert [name for name in with_ends if reads[name] <= {"value"}] == []
