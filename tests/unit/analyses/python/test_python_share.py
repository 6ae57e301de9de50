"""How much of a function that makes batches is a loop in Python, by counted lines."""

from __future__ import annotations

import polars as pl
import pytest

from slowstep.analyses.python.calls import CallTree, TimedFunction
from slowstep.analyses.python.python_share import with_python_share
from slowstep.timeline.run_facts import RunFacts
from slowstep.timeline.schema import TABLE
from slowstep.timeline.timeline import Timeline

ITEM = ("/home/u/data.py", "Rows.__getitem__", 10)
PARSE = ("/home/u/data.py", "parse", 30)
OTHER = ("/home/u/data.py", "other", 50)
US = 1_000
FUNCTION = TimedFunction(name=ITEM[1], file=ITEM[0], line=ITEM[2], share=0.9, path=(ITEM[1],))
TREE = CallTree(total_ns={ITEM: 900.0, PARSE: 300.0}, callees={ITEM: {PARSE: 300.0}}, stretches=3)


def timeline(tables):
    run = RunFacts(name="made", command=(), started=None, started_ns=None, ended_ns=None, exit_code=None, stop_signals=(), warmup=None)
    return Timeline(source="recording", tables=tables, processes=(), run=run, health=())


def share(lines, calls=2, counting_ns=0, processes=(1,)):
    """Of lines (function, line, how often, us in all) in each of some processes, in so many calls of the data set's method."""
    counted = [(p, "fetch", *key, line, n, us * US, counting_ns, True, None) for p in processes for key, line, n, us in lines]
    called = [(p, "fetch", *ITEM, calls, 0, 0, 0, 0, 0, 0, None, None) for p in processes if calls]
    tables = {
        "lines": pl.DataFrame(counted, schema=TABLE["lines"].schema, orient="row"),
        "called": pl.DataFrame(called, schema=TABLE["called"].schema, orient="row"),
    }
    found = with_python_share(timeline(tables), [1], TREE, FUNCTION)
    assert found is not None
    return found.python_share


def test_no_function_has_no_share():
    assert with_python_share(timeline({}), [1], TREE, None) is None


def test_lines_that_were_not_counted_tell_nothing():
    assert share([]) is None


def test_lines_that_run_often_in_each_call_are_a_loop():
    assert share([(ITEM, 11, 2, 100), (ITEM, 12, 800, 300)]) == pytest.approx(0.75)


@pytest.mark.parametrize(("often", "expected"), [(39, 0.0), (40, 0.75)])
def test_lines_that_run_once_in_a_call_are_none_however_many_calls_there_are(often, expected):
    assert share([(ITEM, 11, 2, 100), (ITEM, 12, often, 300)]) == pytest.approx(expected)


def test_lines_that_take_long_each_time_are_operations():
    assert share([(ITEM, 11, 2, 100), (ITEM, 12, 100, 2100)]) == 0


def test_what_a_function_calls_counts_as_its_own_and_other_functions_do_not():
    assert share([(ITEM, 11, 2, 100), (PARSE, 31, 800, 300), (OTHER, 51, 800, 9000)]) == pytest.approx(0.75)


def test_what_counting_adds_to_each_line_is_left_out():
    # Of 400 us in 1000 lines 0.3 us each are the counting's.
    assert share([(ITEM, 11, 2, 100), (ITEM, 12, 1000, 400)], counting_ns=300) == pytest.approx(0.5, rel=0.01)


def test_a_loop_is_none_the_less_one_where_counting_seemed_to_cost_more_than_its_lines_took():
    # As measured: lines of 0.25 and 0.36 us, counting of 0.41 us while others had the cores.
    lines = [(ITEM, 11, 2, 1.293), (ITEM, 12, 4230, 1045.219), (ITEM, 13, 4228, 1537.481), (ITEM, 14, 1, 1.022)]
    assert share(lines, calls=1, counting_ns=412) == pytest.approx(1.0, abs=0.01)


def test_a_call_that_had_not_ended_when_counting_did_tells_nothing_of_what_follows_its_loop():
    assert share([(ITEM, 12, 6000, 300)], calls=0) is None


def test_what_other_processes_counted_is_theirs():
    assert share([(ITEM, 12, 800, 300)], processes=(2,)) is None
    assert share([(ITEM, 12, 800, 300)], processes=(1, 2)) == 1
