from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# Beside the code: how something is added there, with a whole file to begin with.
ADDING = sorted(page.relative_to(ROOT).as_posix() for page in (ROOT / "src").rglob("README.md"))
PAGES = ["CONTRIBUTING.md", "README.md", "benchmarks/README.md", "tests/README.md", *ADDING]
PAGES += [page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_a_page_names_exists(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    named = re.findall(r"`((?:src|tests|docs|tools|benchmarks|examples)/[\w/.-]+)`", text)
    invented = {
        "src/slowstep/diagnosis/rules/after_update/slow_thing.py",
        "src/slowstep/diagnosis/rules/machine/slow_thing.py",
        "src/slowstep/exporters/thing.py",
        "src/slowstep/levers/slow_thing_off.py",
        "src/slowstep/frameworks/framework/inside/levers/slow_thing_off.py",
        "src/slowstep/frameworks/framework/inside/thing.py",
        "src/slowstep/record/monitors/thing.py",
        "src/slowstep/sources/thing.py",
        "src/slowstep/sources/_thing/",
    }

    assert named or page not in {"CONTRIBUTING.md", "docs/architecture.md", "docs/code-map.md"}
    assert [path for path in named if path not in invented and not (ROOT / path).exists()] == []


def test_the_architecture_knows_every_package():
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    packages = [folder.name for folder in (ROOT / "src/slowstep").iterdir() if (folder / "__init__.py").exists()]

    assert [name for name in packages if f"src/slowstep/{name}/" not in text] == []


def test_the_architecture_is_read_in_ten_minutes():
    # Two pages and a picture; what is longer stands in the code map, where one looks a place up.
    assert len((ROOT / "docs/architecture.md").read_text(encoding="utf-8").split()) < 1600


def test_every_function_that_the_code_map_names_is_defined():
    walk = (ROOT / "docs/code-map.md").read_text(encoding="utf-8")
    named = {word.split(".")[-1] for word in re.findall(r"`([a-zA-Z_.]+)`", walk) if not word.endswith(".py")}
    definition = re.compile(r"^ *(?:(?:async )?def |class )?(\w+)(?=[\[(:]| = )", re.MULTILINE)
    defined = set[str]()
    for path in (ROOT / "src/slowstep").rglob("*.py"):
        defined |= {path.stem, path.parent.name, *definition.findall(path.read_text(encoding="utf-8"))}
    # The module that Python imports by itself.
    others = {"sitecustomize"}

    assert len(named) > 40
    assert named - defined - others == set()


def test_the_skeletons_import_only_names_that_exist():
    blocks = [
        block for page in ADDING for block in re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    ]
    missing = []
    for block in blocks:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("slowstep."):
                module = __import__(node.module, fromlist=["*"])
                missing += [f"{node.module}.{alias.name}" for alias in node.names if not hasattr(module, alias.name)]

    assert len(blocks) >= 6
    assert missing == ["slowstep.record.writing.format.READING_THING"]


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_links_to_exists(page):
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.DOTALL)
    linked = [link.partition("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if not re.match(r"[a-z]+:", link)]

    assert [link for link in linked if link and not ((ROOT / page).parent / link).exists()] == []


def _written_by_benchmarks(text: str) -> dict[str, list[str]]:
    """The pages that each script of the table writes, but of those that are said not to have been run."""
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    return {row[0]: re.findall(r"`([\w/]+\.md)`", row[2]) for row in rows if "not run yet" not in row[1].lower()}


def test_a_page_that_a_benchmark_writes_is_there_or_it_is_said_not_to_have_been_run():
    folder = ROOT / "benchmarks"
    written = _written_by_benchmarks((folder / "README.md").read_text(encoding="utf-8"))

    assert sum(map(len, written.values())) >= 5
    assert [page for pages in written.values() for page in pages if not (folder / page).exists() and not (ROOT / page).exists()] == []


def test_a_page_is_asked_for_where_its_script_was_run_only():
    rows = "| script | asks | writes |\n| `a.py` | What? | `results/a.json`, `a.md` |\n| `b.py` | What? Not run yet | `b.md` |"

    assert _written_by_benchmarks(rows) == {"`a.py`": ["a.md"]}


def test_every_result_of_a_benchmark_is_named():
    texts = [path.read_text(encoding="utf-8") for folder in ("benchmarks", "docs") for path in (ROOT / folder).rglob("*.md")]
    texts += [path.read_text(encoding="utf-8") for path in (ROOT / "benchmarks").rglob("*.py")]
    # Read by its name's pattern.
    kept = {"starts-2026-11-27.json"}

    results = {path.name for path in (ROOT / "benchmarks/results").iterdir()}
    assert {name for name in results if not any(name in text for text in texts)} == kept


def test_contributing_names_the_page_of_each_thing_that_can_be_added():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")

    assert [page for page in ADDING if f"({page}" not in text] == []
