"""The house stays one in which things can be found: small rooms, one meaning a name, no import circle, and one way to find plug-ins."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import slowstep
from parsed import parsed

ROOT = Path(slowstep.__path__[0])
MOST_MODULES = 30
MOST_LINES = 400
# Packages whose parts are each made alike, so that names of modules come back in them.
ALIKE = {
    "frameworks": "each framework has the same rooms",
    "sources": "each source has parts of its own, which read the same things from another format",
}
TESTS = Path(__file__).parents[1]
# What writes recordings: rules are tested on measurements that are built in a dozen lines, what analyses find of recordings beside them.
RECORDING_MAKERS = {"made_recordings", "made_events", "simulated_recording"}
# By what a test judges.
JUDGES = re.compile(r"slowstep\.diagnosis\.(rules|engine|law)\b")
# Of tests that judge and make recordings, those that may: what is tested is neither a rule nor an analysis.
JUDGE_RECORDINGS = {
    "frameworks/test_words.py": "what a recording says of a framework decides whose words its fixes have",
    "test_skeletons.py": "the files of the pages for who adds something: a rule's is judged of measurements, a monitor's makes a recording",
}
# Who may import a module of slowstep's own by a name that is made at run time.
BY_NAME = {
    "slowstep.registry": "finds plug-ins",
    "slowstep": "the public names, each imported when it is first asked for",
    "slowstep.data": "frameworks that a script may have: none of slowstep's own",
    "slowstep.frameworks.torch.inside.worker_levers": "in a loader's worker, and only where a lever reaches it: nothing is imported before",
    "slowstep.cli.commands": "subcommands, each imported when it is called",
}
# Words that slowstep had for what the field calls otherwise, and how often each may still stand in the code and in the pages for users: the
# numbers only fall.
OWN_WORDS = {
    r"throw\w* away": 0,  # discarded
    r"interpreter's lock": 0,  # the GIL
    r"slip of the hand": 0,  # a typo
    r"at (worse|better)\b": 0,  # pessimistic, optimistic
    r"def \w*_(told|apart|beside)\b": 3,  # what the function gives
    r"\bbeside\b": 603,  # concurrent, next to, besides
    r"\btold\b": 508,  # known, said, reported
    r"\bstretch(es)?\b": 366,  # a span, an interval, a period
    r"\banew\b": 94,  # again
    r"\bapart\b": 139,  # separate, other than
}
# How many sentences, of so many words, tests still hold in asserts and patterns of errors: codes and values stay where words get better.
PROSE, SENTENCE_WORDS = 444, 6


def _modules(root: Path) -> dict[str, Path]:
    found = {}
    for path in sorted(root.rglob("*.py")):
        words = (root.name, *path.relative_to(root).with_suffix("").parts)
        found[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    return found


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    """The syntax tree of every module."""
    modules = _modules(ROOT)
    found = parsed(modules.values())
    return {name: found[path] for name, path in modules.items()}


@pytest.fixture(scope="module")
def imports(trees: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Which others each module imports."""
    known = set(trees)
    return {name: _imported(tree, known) - {name} for name, tree in trees.items()}


def _imported(tree: ast.Module, known: set[str]) -> set[str]:
    """The modules that one imports, wherever: at its top, in functions, and for types only."""
    found = set()
    for node in _statements(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found |= {name if (name := f"{node.module}.{alias.name}") in known else node.module for alias in node.names}
    return found & known


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements, wherever: without their expressions, of which there are ten times as many."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        yield (node := waiting.pop())
        for block in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, block, ())


def _circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """Groups of modules of which each reaches each other one."""
    # Without those that import nothing of the others, and then again: few are left, where all are a second's work.
    left = imports
    while (rest := {name: left[name] & left.keys() for name in left if left[name] & left.keys()}) != left:
        left = rest
    reached = {name: _reached(name, left) for name in left}
    groups = {tuple(sorted(other for other in left if other in reached[name] and name in reached[other])) for name in left}
    return [list(group) for group in sorted(groups) if group]


def _reached(name: str, imports: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    waiting = [name]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def _types(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The classes and types of a module, each with what it is: a class is the module's own, a type is what it stands for. What begins with
    an underscore is known by nobody else, but that classes have names in tracebacks.
    """
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                yield name, module
            case ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                if _is_of_a_type(name):
                    yield name, ast.unparse(value)


def _renamed(tree: ast.Module) -> Iterator[str]:
    """Slowstep's own classes and types that are imported by another name."""
    for node in _statements(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "slowstep":
            yield from (f"{alias.name} as {alias.asname}" for alias in node.names if alias.asname and _is_of_a_type(alias.name))


def _is_of_a_type(name: str) -> bool:
    return name[0].isupper() and not name.isupper()


def _between_parts(package: str, imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """Which parts of a package, its modules and packages, each of them imports."""
    found: dict[str, set[str]] = defaultdict(set)
    for name, imported in imports.items():
        if part := _part(name, package):
            found[part] |= {other for each in imported if (other := _part(each, package))} - {part}
    return found


def _part(module: str, package: str) -> str:
    """The part of a package that a module is or stands in; empty for one outside, and the package itself."""
    return module.removeprefix(f"{package}.").partition(".")[0] if module.startswith(f"{package}.") else ""


def _last_name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _named_at_run_time(tree: ast.Module) -> Iterator[str]:
    """Imports by name of what is or may be a module of slowstep's own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _last_name(node.func).endswith(("import_module", "__import__")) and node.args:
            name = node.args[0]
            if isinstance(name, ast.JoinedStr):
                name = name.values[0]
            if not isinstance(name, ast.Constant) or str(name.value).partition(".")[0] == "slowstep":
                yield ast.unparse(node)


def test_no_folder_holds_more_modules_than_one_can_look_over():
    counts = {str(folder.relative_to(ROOT)): len([*folder.glob("*.py")]) - 1 for folder in {path.parent for path in ROOT.rglob("*.py")}}

    assert {folder: count for folder, count in counts.items() if count > MOST_MODULES} == {}


def test_no_module_is_longer_than_one_can_read_at_once():
    lengths = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in _modules(ROOT).items()}

    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_a_class_or_a_type_has_a_name_of_its_own(trees):
    homes = defaultdict(set)
    for module, tree in trees.items():
        for name, meaning in _types(module, tree):
            homes[name].add(meaning)

    assert {name: meanings for name, meanings in homes.items() if len(meanings) > 1} == {}


def test_a_class_or_a_type_is_called_the_same_everywhere(trees):
    found = {module: names for module, tree in trees.items() if (names := [*_renamed(tree)])}

    assert found == {}


def test_another_name_for_an_own_class_is_seen():
    source = "from slowstep.parts import Place as CodePlace, PLACE as P\nfrom collections.abc import Set as AbstractSet"

    assert [*_renamed(ast.parse(source))] == ["Place as CodePlace"]


def test_types_of_one_name_are_seen_where_they_mean_something_else():
    sources = {
        "a": "class Place: ...",
        "b": "Place = tuple[str, int]",
        "c": "Place: TypeAlias = tuple[str,int]",
        "d": "PLACE = 1\n_Place = int",
    }
    found = {module: [*_types(module, ast.parse(text))] for module, text in sources.items()}

    assert found == {"a": [("Place", "a")], "b": [("Place", "tuple[str, int]")], "c": [("Place", "tuple[str, int]")], "d": []}


def test_a_module_has_a_name_of_its_own_in_its_package(trees):
    homes = defaultdict(list)
    for module in trees:
        words = module.split(".")
        if len(words) > 2 and words[1] not in ALIKE and not (ROOT / Path(*words[1:]) / "__init__.py").exists():
            homes[words[1], words[-1].lstrip("_")].append(module)

    assert {name: modules for name, modules in homes.items() if len(modules) > 1} == {}


def test_what_mostly_means_is_said_once(trees):
    homes = [
        module
        for module, tree in trees.items()
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        and "MOSTLY" in {ast.unparse(each) for each in (node.targets if isinstance(node, ast.Assign) else [node.target])}
    ]

    assert homes == ["slowstep.shares"]


def test_no_module_imports_one_that_imports_it(imports):
    assert _circles(imports) == []


def test_parts_of_a_package_import_each_other_one_way(imports):
    packages = [name for name, path in _modules(ROOT).items() if path.name == "__init__.py"]

    assert {package: circles for package in packages if (circles := _circles(_between_parts(package, imports)))} == {}


def test_parts_that_import_each_other_by_other_modules_are_seen():
    imports = {"a.b.one": {"a.c.one"}, "a.c.one": set(), "a.c.two": {"a.d"}, "a.d": {"a.b.two"}, "a.b.two": set(), "e": {"a.b.one"}}

    assert _circles(imports) == []
    assert _circles(_between_parts("a", imports)) == [["b", "c", "d"]]


def test_a_circle_is_seen_wherever_its_imports_stand():
    sources = {
        "a": "import b",
        "b": "def late():\n    from c import value",
        "c": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import a",
        "d": "import a",
    }

    assert _circles({name: _imported(ast.parse(text), set(sources)) for name, text in sources.items()}) == [["a", "b", "c"]]


def test_own_modules_are_imported_by_name_where_plugins_are_found_and_in_few_others():
    modules = {path: name for name, path in _modules(ROOT).items()}
    trees = parsed(modules, holding=re.compile("import_module|__import__"))
    found = {modules[path]: calls for path, tree in trees.items() if (calls := [*_named_at_run_time(tree)])}

    assert found.keys() == BY_NAME.keys()


def test_an_import_by_name_is_seen_where_it_may_be_of_an_own_module():
    source = 'import_module("slowstep.record")\nimport_module(f"slowstep.{name}")\nimportlib.import_module(home)\nimport_module("torch")'

    assert [*_named_at_run_time(ast.parse(source))] == [
        "import_module('slowstep.record')",
        "import_module(f'slowstep.{name}')",
        "importlib.import_module(home)",
    ]


def test_no_test_of_a_rule_makes_a_recording():
    unit = TESTS / "unit"
    # Helpers are imported by their names; names of tests are unique in a folder only.
    names = {path: path.stem for path in TESTS.glob("*.py")} | {path: str(path.relative_to(unit)) for path in unit.rglob("*.py")}
    trees = {names[path]: tree for path, tree in parsed(names).items()}
    imports = {name: _imported(tree, set(trees)) for name, tree in trees.items()}
    reached = {name: _reached(name, imports) for name in trees}
    makes = {name for name in trees if reached[name] & RECORDING_MAKERS}
    judges = {name for name in trees if any(_judges(trees[each]) for each in (name, *reached[name]))}
    of_rules = {name for name in trees if name.startswith("diagnosis/")}

    assert len(of_rules) > 30
    assert of_rules & makes == set()
    # Whole commands are tested in `workflow`; what has no folder is a helper.
    others = {name for name in judges & makes if name.endswith(".py") and not name.startswith("workflow/")}
    assert others == JUDGE_RECORDINGS.keys()
    # As one that does, of measurements that only an analysis can make.
    assert reached["judged_recordings"] >= {"made_recordings"}


def _judges(tree: ast.Module) -> bool:
    """Whether a module imports what judges."""
    return any(
        JUDGES.match(f"{node.module}.{alias.name}") for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    )


def test_what_make_check_leaves_out_is_there():
    rows = (TESTS.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    [named] = [row.partition(":=")[2].split() for row in rows if row.startswith("WHOLE :=")]

    assert named
    assert [path for path in named if not (TESTS / path).exists()] == []


def _words_over(text: str, limits: dict[str, int]) -> dict[str, int]:
    """How often each pattern is found whose limit that exceeds."""
    text = text.lower()
    counts = {pattern: len(re.findall(pattern, text)) for pattern in limits}
    return {pattern: count for pattern, count in counts.items() if count > limits[pattern]}


def test_words_of_its_own_become_no_more():
    pages = [*(TESTS.parent / "docs").glob("*.md"), TESTS.parent / "README.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in (*_modules(ROOT).values(), *pages))

    assert _words_over(text, OWN_WORDS) == {}


def test_a_word_of_its_own_is_seen_where_its_limit_is_exceeded():
    text = "Batches are thrown away.\ndef _is_told(): ...\ndef told(): ...\n"

    assert _words_over(text, {r"throw\w* away": 0, r"def \w*_(told|apart)\b": 1}) == {r"throw\w* away": 1}


def _prose(tree: ast.Module) -> int:
    """How many sentences asserts and patterns of errors hold."""
    held = [node.test if isinstance(node, ast.Assert) else node.value for node in ast.walk(tree) if _holds_text(node)]
    texts = [each.value for node in held for each in ast.walk(node) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return sum(len(text.split()) >= SENTENCE_WORDS for text in texts)


def _holds_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.keyword) and node.arg == "match")


def test_sentences_that_tests_hold_become_no_more():
    trees = parsed(TESTS.rglob("test_*.py"))

    assert sum(_prose(tree) for tree in trees.values()) <= PROSE


def test_a_sentence_is_seen_wherever_a_test_holds_it():
    sentence = "'this is a sentence of seven words'"
    source = f"assert {sentence} in said\nwith raises(Error, match={sentence}): ...\nassert said == 'three words only'\nf({sentence})"

    assert _prose(ast.parse(source)) == 2
