"""For whom the threads of an XPlane file work."""

from __future__ import annotations

from pathlib import Path

import pytest

from made_xplanes import MadePlane, made_xplane
from slowstep.sources import xplane

DATA = Path(__file__).parents[2] / "data/xplane"
PYTHON, EXECUTOR, DATA_THREAD, POOL = range(4)


@pytest.fixture
def handed(tmp_path):
    def read(*lines):
        plane = MadePlane("/host:CPU")
        for number, line in enumerate(lines):
            plane.line(f"line {number}", line, line_id=number + 1, timestamp_ns=0)
        table = xplane.read(made_xplane(tmp_path / "any.xplane.pb", plane)).table("handed_work")
        return sorted(table.select("thread", "for_thread", "start_ns", "end_ns", "works").rows())

    return read


def produced(number):
    return {"_pt": 2, "_p": number}


def consumed(number):
    return {"_ct": 2, "_c": number}


def test_the_executor_works_for_the_thread_that_called_the_graph(handed):
    called = [("FunctionRun", 1, 2, produced(5))]
    executor = [("ExecutorState::Process", 2, 9, consumed(5))]

    assert handed(called, executor) == [(PYTHON, PYTHON, 0, 1000, False), (EXECUTOR, PYTHON, 1000, 8000, True)]


def test_work_for_a_call_that_is_not_in_the_trace_is_nobodys(handed):
    executor = [("ExecutorState::Process", 2, 9, consumed(5)), ("ExecutorState::Process", 10, 12)]

    assert handed([("other", 0, 20)], executor) == []


def test_functions_of_a_pipeline_are_the_pipelines_own(handed):
    called, pipeline = [("FunctionRun", 0, 1, produced(5))], [("FunctionRun", 1, 2, produced(6))]
    executor = [("ExecutorState::Process", 2, 4, consumed(6)), ("ExecutorState::Process", 4, 9, consumed(5))]

    found = handed(called, executor, pipeline)

    assert [(thread, whose) for thread, whose, *_, works in found if works] == [(EXECUTOR, PYTHON), (EXECUTOR, DATA_THREAD)]


def test_a_graph_within_a_graph_is_for_who_called_the_outer_one(handed):
    called = [("FunctionRun", 0, 1, produced(5))]
    executor = [("ExecutorState::Process", 2, 9, consumed(5)), ("FunctionRun", 3, 4, produced(6))]
    orphan = [("ExecutorState::Process", 2, 9, consumed(9)), ("FunctionRun", 3, 4, produced(7))]
    pool = [("ExecutorState::Process", 10, 12, consumed(6)), ("ExecutorState::Process", 13, 15, consumed(7))]

    found = handed(called, executor, orphan, pool)

    assert [row for row in found if row[0] == POOL] == [(POOL, PYTHON, 10000, 12000, True)]


def test_input_that_the_executor_takes_is_none_of_its_work(handed):
    called = [("FunctionRun", 0, 1, produced(5))]
    executor = [("ExecutorState::Process", 2, 9, consumed(5)), ("IteratorGetNext:IteratorGetNext", 3, 6)]

    assert [row[2:4] for row in handed(called, executor) if row[0] == EXECUTOR] == [(2000, 3000), (6000, 9000)]


def test_operations_that_are_called_one_by_one_are_the_threads_own(handed):
    operations = [("EagerLocalExecute: MatMul", 0, 3), ("EagerLocalExecute: IteratorGetNext", 4, 5)]

    assert handed([*operations, ("EagerLocalExecute: __inference_f_1", 6, 9)]) == [
        (PYTHON, PYTHON, 0, 3000, True),
        (PYTHON, PYTHON, 6000, 9000, False),
    ]


def operation(run, program="jit_step"):
    return {"hlo_op": "dot.1", "hlo_module": program, "run_id": run}


def test_a_run_of_a_program_lasts_from_its_first_operation_to_its_end_on_all_threads(handed):
    called = [("PjitFunction(step)", 0, 1)]
    one, other = [("dot.1", 2, 3, operation(7)), ("dot.1", 20, 21, operation(8))], [("fusion", 4, 5, operation(7))]
    ends = [("ThunkExecutor::Execute (wait for completion)", 4, 9, {"run_id": 7})]

    works = [row[1:4] for row in handed(called, one, other, ends) if row[4]]

    assert works == [(PYTHON, 2000, 9000), (PYTHON, 20000, 21000)]


def test_of_several_threads_that_call_programs_each_has_those_of_its_names(handed):
    called = [("PjitFunction(step)", 0, 1), ("PjitFunction(shared)", 1, 2)]
    other = [("PjitFunction(<lambda>)", 0, 1), ("PjitFunction(shared)", 1, 2)]
    ran = [("dot.1", 2, 3, operation(1)), ("dot.2", 3, 4, operation(2, "jit__lambda")), ("dot.3", 4, 5, operation(3, "jit_shared"))]

    assert [(row[1], row[2]) for row in handed(called, other, ran) if row[4]] == [(0, 2000), (1, 3000)]


def test_what_no_thread_called_is_nobodys(handed):
    assert handed([("dot.1", 2, 3, operation(1))]) == []


def test_steps_of_keras_have_the_work_of_their_graphs_and_none_of_the_pipelines():
    timeline = xplane.read(DATA / "keras_fit/trace.xplane.pb")
    names = timeline.table("trace_threads")["name"].to_list()
    training = timeline.table("marked_steps")["thread"][0]

    rows = timeline.table("handed_work").filter(for_thread=training, works=True)

    assert {names[thread].partition("/")[0] for thread in rows["thread"].unique() if thread != training} == {"tf_Compute"}
    slow = timeline.table("host_events").filter(name="PyFunc:PyFunc")
    for thread, start, end in slow.select("thread", "start_ns", "end_ns").rows():
        assert rows.filter(rows["thread"] == thread, rows["start_ns"] <= start, rows["end_ns"] >= end).is_empty()
