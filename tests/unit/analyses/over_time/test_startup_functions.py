"""A start-up is divided among the functions that hold a tenth of it and more, and what is imported."""

from __future__ import annotations

import numpy as np
import pytest

from slowstep.analyses.over_time.startup_functions import divide_startup
from slowstep.analyses.over_time.startup_parts import StartupKind
from slowstep.analyses.python.functions import Path, Stacks
from slowstep.timeline.timeline import Frame

FUNCTION, IMPORT, TOP_LEVEL = StartupKind.FUNCTION, StartupKind.IMPORT, StartupKind.TOP_LEVEL
SCRIPT = "/home/user/train.py"
MAIN = Frame(file=SCRIPT, function="<module>", first_line=1, line=40)
IMPORTLIB = Frame(file="<frozen importlib._bootstrap>", function="_find_and_load", first_line=1, line=2)


def own(function: str, line: int) -> Frame:
    return Frame(file=SCRIPT, function=function, first_line=line, line=line + 1)


def module(file: str) -> Frame:
    return Frame(file=file, function="<module>", first_line=1, line=5)


def divided(*taken: tuple[int, Path]) -> dict[tuple[StartupKind, str | None], float]:
    """Of stacks at equal distances, so many of each path."""
    paths = [path for count, path in taken for _ in range(count)]
    count = len(paths)
    stacks = Stacks(
        time_ns=np.arange(count) + 10,
        weight_ns=np.ones(count),
        stack=np.arange(count),
        frames=dict(enumerate(paths)),
        blocked=np.zeros(count, dtype=bool),
        device_idle=np.full(count, -1, dtype=np.int8),
    )
    return {(held.kind, held.of): share for held, share in divide_startup(stacks, SCRIPT, 10, 10 + count).items()}


def test_time_goes_to_the_deepest_function_that_holds_enough_of_it():
    load = own("load", 10)
    found = divided(
        (60, (MAIN, load, own("parse", 20))),
        *((4, (MAIN, load, own(f"small{number}", 30 + number))) for number in range(5)),
        (15, (MAIN, own("build", 50))),
        (5, (MAIN,)),
    )

    assert found == {
        (FUNCTION, "parse (train.py:20)"): pytest.approx(0.60),
        (FUNCTION, "load (train.py:10)"): pytest.approx(0.20),
        (FUNCTION, "build (train.py:50)"): pytest.approx(0.15),
        (TOP_LEVEL, "train.py"): pytest.approx(0.05),
    }


def test_imports_are_named_by_their_package():
    pandas = module("/opt/lib/python3.11/site-packages/pandas/__init__.py")
    deeper = module("/opt/lib/python3.11/site-packages/numpy/linalg.py")
    found = divided((50, (MAIN, IMPORTLIB, pandas, IMPORTLIB, deeper)), (30, (MAIN, IMPORTLIB)), (20, (MAIN, own("build", 50))))

    assert found == pytest.approx({(IMPORT, "pandas"): 0.5, (IMPORT, None): 0.3, (FUNCTION, "build (train.py:50)"): 0.2})


def test_work_in_a_module_of_the_users_is_no_import():
    data = Frame(file="/home/user/data.py", function="<module>", first_line=1, line=9)
    library = Frame(file="/opt/lib/python3.11/site-packages/pandas/io.py", function="read_csv", first_line=3, line=4)

    assert divided((10, (MAIN, IMPORTLIB, data, library))) == pytest.approx({(TOP_LEVEL, "data.py"): 1.0})


@pytest.mark.parametrize("file", ["torch/_dynamo/convert_frame.py", "torch/_inductor/compile_fx.py", "torch\\_inductor\\codecache.py"])
def test_compiling_is_no_work_of_the_script_nor_of_what_the_compiler_writes(file):
    compiler = Frame(file=f"/opt/lib/python3.11/site-packages/{file}", function="compile", first_line=3, line=4)
    written = module("/tmp/torchinductor_user/lt/cltkykg.py")
    found = divided((5, (MAIN, compiler)), (40, (MAIN, compiler, IMPORTLIB, written)), (55, (MAIN, own("build", 50))))

    assert found == pytest.approx({(FUNCTION, "build (train.py:50)"): 0.55, (StartupKind.COMPILING, None): 0.45})


def test_the_import_of_a_compiler_is_an_import():
    imported = module("/opt/lib/python3.11/site-packages/torch/_dynamo/convert_frame.py")

    assert divided((10, (MAIN, IMPORTLIB, imported))) == pytest.approx({(IMPORT, "torch"): 1.0})


def test_compiled_code_that_runs_is_the_scripts():
    runs = Frame(file="/opt/lib/python3.11/site-packages/torch/_dynamo/eval_frame.py", function="compile_wrapper", first_line=3, line=4)

    assert divided((10, (MAIN, runs, own("forward", 50)))) == pytest.approx({(FUNCTION, "forward (train.py:50)"): 1.0})


@pytest.mark.parametrize(
    ("file", "function"),
    [("codecache.py", "CompiledFxGraph.__call__"), ("compile_fx.py", "align_inputs_from_check_idxs.<locals>.run")],
    ids=["of torch up to 2.5", "on a device"],
)
def test_a_graph_that_runs_from_the_compiler_s_files_is_not_compiled(file, function):
    runs = Frame(file=f"/opt/lib/python3.11/site-packages/torch/_inductor/{file}", function=function, first_line=3, line=4)

    assert divided((10, (MAIN, own("warm_up", 50), runs))) == pytest.approx({(FUNCTION, "warm_up (train.py:50)"): 1.0})


def test_what_is_many_small_things_has_no_name_of_its_own():
    other = Frame(file="/opt/lib/python3.11/runpy.py", function="_run", first_line=1, line=2)

    assert divided(*((5, (own(f"small{number}", number),)) for number in range(20)), (5, (other,))) == pytest.approx(
        {(StartupKind.OTHER_WORK, None): 1.0}
    )


def test_a_few_stacks_tell_nothing():
    assert divided((4, (MAIN,))) == {}
