"""What is measured is judged and told of alike, wherever it comes from: rules and the document name no source, no format, no framework."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import pytest

import slowstep
from parsed import parsed
from slowstep.frameworks._known import all_words

ROOT = Path(slowstep.__path__[0])
FOLDERS = ("diagnosis/rules", "diagnosis/evidence", "document")
# What is known of a run depends on what was kept of it: the section `run` is made by one of two of these, and so is what is doubtful of it.
OF_ONE_SOURCE = {"recorded_run", "traced_run", "recording_doubts"}
# Words for formats and for where they come from; for where measurements come from; and what frameworks call things.
FRAMEWORKS = frozenset({*all_words(), "pytorch"})
FORMATS = frozenset({"kineto", "xplane", "nsys", "nsight", "chrome"})
SOURCES = FORMATS | {"trace", "traces", "traced", "recording", "recordings"}
OF_FRAMEWORKS = re.compile(
    r"record_shapes|with_stack|is_pinned|pin_memory|non_blocking|num_workers|prefetch_factor|persistent_workers|collate_fn|channels_last"
    r"|\.(item|detach|float|to)\(|detach\(\)|\bnn\.|no_grad|autocast|GradScaler|state_dict|DataLoader|SingleProcess|ProfilerStep"
)
# Codes and keys, which are a contract: report.json has had them since before traces and recordings had one engine.
KEYS = {
    "rules/compute/double_precision.py": {"precision-not-traced"},
    "rules/compute/recompilation.py": {"compiling-not-traced"},
    "rules/device/large_readback.py": {"sizes-not-traced"},
    "rules/device/operation_on_host.py": {"places-not-traced"},
    "rules/device/pageable_copy.py": {"pinned-not-traced"},
    "rules/device/tensor_core_misaligned_shapes.py": {"shapes-not-traced"},
    "rules/sharing/small_collectives.py": {"collective-sizes-not-traced"},
}
# How many sentences of a file say where the measurements come from, to whoever reads them. The numbers only fall.
SENTENCES = {
    "evidence/device/copy_sites.py": 1,
    "evidence/profiled/marked_steps.py": 1,
    "evidence/profiled/named_ranges.py": 1,
    "evidence/profiled/not_shown.py": 7,
    "evidence/unnamed.py": 3,
    "rules/compute/dominant_operation.py": 2,
    "rules/compute/double_precision.py": 1,
    "rules/compute/recompilation.py": 2,
    "rules/device/full_precision_matmul.py": 1,
    "rules/device/large_readback.py": 1,
    "rules/device/launch_bound.py": 1,
    "rules/device/loss_scaling_gaps.py": 2,
    "rules/device/operation_on_host.py": 1,
    "rules/device/pageable_copy.py": 1,
    "rules/device/tensor_core_misaligned_shapes.py": 1,
    "rules/input/input_wait.py": 2,
    "rules/sharing/exposed_communication.py": 1,
    "rules/sharing/small_collectives.py": 1,
    "document/ranks.py": 2,
}
# How many texts of a file hold what one framework calls something, which is its words' to say. The numbers only fall.
CALLED = {"rules/input/slow_collate.py": 1}


def _names(tree: ast.AST) -> Iterator[str]:
    """What is defined, imported, read, or passed by a name."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name
            case ast.ImportFrom(module=str(module), names=names):
                yield from module.split(".")
                yield from (alias.asname or alias.name for alias in names)


def _texts(tree: ast.AST) -> Iterator[str]:
    """All texts but docstrings, wherever they stand: compared with, looked for, keys, arguments, pieces of longer ones."""
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            yield node.value


def _of(words: Collection[str], names: Iterable[str]) -> set[str]:
    """Those that hold one of the words, which stand apart by case, an underscore or what is no letter."""
    return {name for name in names if {word.lower() for word in re.split(r"[^A-Za-z]|(?<=[a-z])(?=[A-Z])", name)}.intersection(words)}


def _is_key(text: str) -> bool:
    """Whether a text is for programs: people read sentences."""
    return re.search(r"\s", text) is None


def _modules(*folders: str) -> list[Path]:
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if path.stem not in OF_ONE_SOURCE]


def _file(path: Path) -> str:
    return str(path.relative_to(ROOT)).removeprefix("diagnosis/")


def _holding(words: Collection[str]) -> re.Pattern[str]:
    """In whose text one of the words may stand: to look at every syntax tree takes seconds."""
    return re.compile("|".join(sorted(words)), re.IGNORECASE)


def _found(words: Collection[str], named: Mapping[Path, Iterable[str]]) -> dict[str, set[str]]:
    """By file, those of its names or texts that hold one of the words."""
    return {_file(path): found for path, each in named.items() if (found := _of(words, each))}


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    """Of all that judges and tells."""
    return parsed(_modules("diagnosis", "document"))


@pytest.fixture(scope="module")
def texts(trees: dict[Path, ast.Module]) -> dict[Path, list[str]]:
    """Of all that judges and tells, but docstrings."""
    return {path: [*_texts(tree)] for path, tree in trees.items()}


def test_neither_rules_nor_their_evidence_nor_the_document_name_a_source_or_a_format_or_a_framework(trees, texts):
    modules = _modules(*FOLDERS)

    assert _found({*SOURCES, *FRAMEWORKS}, {path: {path.stem, *_names(trees[path])} for path in modules}) == {}
    assert _found({*SOURCES, *FRAMEWORKS}, {path: filter(_is_key, texts[path]) for path in modules}) == KEYS


def test_no_analysis_and_nothing_that_judges_or_tells_speaks_of_a_format():
    paths = _modules("diagnosis", "document", "analyses")
    trees = parsed(paths, holding=_holding(FORMATS))

    assert len(paths) > 400
    assert _found(FORMATS, {path: {*_names(tree), *_texts(tree)} for path, tree in trees.items()}) == {}
    assert _of(FORMATS, (path.stem for path in paths)) == set()


def test_no_sentence_of_a_diagnosis_names_a_framework(texts):
    assert _found(FRAMEWORKS, texts) == {}


def test_sentences_that_say_where_measurements_come_from_get_fewer(texts):
    said = {_file(path): [text for text in texts[path] if not _is_key(text)] for path in _modules(*FOLDERS)}

    assert {file: sum(bool(_of(SOURCES, {text})) for text in each) for file, each in said.items() if _of(SOURCES, each)} == SENTENCES


def test_texts_that_hold_what_one_framework_calls_something_get_fewer(texts):
    assert Counter(_file(path) for path, each in texts.items() for text in each if OF_FRAMEWORKS.search(text)) == CALLED


def test_what_is_of_one_source_names_one():
    trees = parsed(ROOT / "document" / f"{name}.py" for name in OF_ONE_SOURCE)

    assert [path.stem for path, tree in trees.items() if not _of(SOURCES, {*_names(tree), *_texts(tree)})] == []


def test_a_name_of_a_source_is_seen_wherever_it_stands():
    text = "from slowstep.sources.kineto import read\ndef of_trace(nsys=1): return m.recording, SHAPES_NOT_TRACED, TraceFacts, retrace"

    assert _of(SOURCES, {*_names(ast.parse(text))}) >= {"kineto", "of_trace", "nsys", "recording", "SHAPES_NOT_TRACED", "TraceFacts"}
    assert "retrace" not in _of(SOURCES, {*_names(ast.parse(text))})


@pytest.mark.parametrize(
    "text",
    [
        "if job.source == 'traces': pass",
        "if job.source in ('traces', 'made'): pass",
        "found = job.source.startswith('traces')",
        "by_source = {'traces': 1}",
        "read('traces')",
        "match job.source:\n    case 'traces': pass",
        "said = f'{made}traces'",
    ],
)
def test_a_text_that_names_a_source_is_seen_wherever_it_stands(text):
    assert _of(SOURCES, _texts(ast.parse(text))) == {"traces"}


def test_a_docstring_is_no_text():
    assert [*_texts(ast.parse("'''Of traces.'''\nclass A:\n    '''Of traces.'''\n    a: int\n    '''Of traces.'''"))] == []


def test_a_name_of_a_framework_is_seen_where_advice_is_written_for_each():
    text = "from slowstep.frameworks.jax.outside import words\nin_lightning = advice(m, torch=1, tensorflow=2)"

    assert _of(FRAMEWORKS, {*_names(ast.parse(text))}) == {"jax", "in_lightning", "torch", "tensorflow"}
