"""What each stage of a pipeline takes for a batch, and which of them holds up the training: none where batches lie ready."""

from __future__ import annotations

from types import SimpleNamespace

import polars as pl
import pytest

from made_pipelines import LOAD, PARSE, node, pipeline, readings, slow_map, written
from slowstep.analyses.input.pipeline import find_pipeline, measure_pipeline
from slowstep.analyses.input.pipeline_nodes import join_windows, read_window
from slowstep.timeline.schema import TABLE

FAR = 1 << 60
# A map that takes most of the 20 ms in which a batch comes, and is made ahead.
AHEAD = (node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "Map", ms=18.0))


def read(rows, function, unread=None, *, process=0, number=1, iterator=None):
    """One iterator: its readings, the function of its map, why it has no more, and the number of its waits."""
    return {
        "pipelines": [(process, number, iterator, unread)],
        "pipeline_stages": [(process, number, 0, "Map", None, False, None, False)],
        "pipeline_functions": [(process, number, 0, False, function.name, function.place.file, function.place.line)],
        "pipeline_nodes": rows.with_columns(process=pl.lit(process, dtype=pl.Int64), pipeline=pl.lit(number, dtype=pl.Int64)).rows(),
    }


def found_of(*iterators, low_ms=0, high_ms=1000, cores=4.0, waits=()):
    """That which feeds the steps of process 0 in a stretch of time, in which iterators of these numbers were waited for."""
    names = ("pipelines", "pipeline_stages", "pipeline_functions", "pipeline_nodes")
    rows = {name: [row for each in iterators for row in each[name]] for name in names}
    frames = {name: pl.DataFrame(rows[name], schema=TABLE[name].schema, orient="row") for name in names}
    facts = SimpleNamespace(script=None, cores=cores)
    trainer = SimpleNamespace(process=0, waits=pl.DataFrame({"iterator": waits}, schema={"iterator": pl.Int64}), facts=facts)
    steps = SimpleNamespace(bounds_ns=(int(low_ms * 1e6), int(high_ms * 1e6)))
    return find_pipeline(SimpleNamespace(table=frames.__getitem__), trainer, steps)


def slow_name(found):
    return None if found.slow_stage is None else found.slow_stage.name


def test_nothing_is_known_of_no_reading_of_one_and_of_few_batches():
    nothing = readings([]).clear()
    one = readings([node(1, "Root")], looks=2).head(1)
    for rows in (nothing, one, readings([node(1, "Root", 2), node(2, "Map", ms=9)], batches=7)):
        found = measure_pipeline(read_window(rows, 0, FAR), (), cores=4)
        assert (found.stages, found.interval_ns, found.slowest) == ((), None, None)
    assert pipeline([node(1, "Root", 2), node(2, "Map", ms=9)], batches=8).stages


def test_stages_that_read_each_other_are_each_there_once():
    found = pipeline([node(1, "Root", 2), node(2, "Map", 3, ms=18), node(3, "Map", 2, 1, ms=1)])

    assert [stage.name for stage in found.stages] == ["Root", "Map", "Map"]


def test_times_are_per_batch_and_those_of_all_windows_are_one():
    rows = readings([node(1, "Root", 2), node(2, "Map", ms=18, each=4)])
    windows = [read_window(rows, 0, FAR)] * 2

    found = measure_pipeline(join_windows(windows), (), cores=4)

    assert found.batches == 80
    assert found.interval_ns == pytest.approx(20e6)
    assert [(stage.name, stage.elements, stage.busy_ns) for stage in found.stages] == [("Root", 1, 0), ("Map", 4, 18e6)]


@pytest.mark.parametrize(
    ("low_ms", "high_ms", "batches", "inside"),
    [(300, 900, 20, 20), (790, 900, 10, 0.5), (450, 500, 10, 2.5), (790, 799, 10, 0.45), (801, 900, 0, 0), (-9, -1, 0, 0)],
    ids=["two are in it", "one is in it", "none is in it", "nor in one that is shorter", "they ended before", "they began later"],
)
def test_only_readings_in_the_window_count_where_there_are_two_else_those_around_it(low_ms, high_ms, batches, inside):
    rows = readings([node(1, "Root", 2), node(2, "Map", ms=18)], batches=40, looks=5)

    found = read_window(rows, int(low_ms * 1e6), int(high_ms * 1e6))

    assert (found.batches, found.inside) == (batches, pytest.approx(inside))


def test_a_pipeline_of_another_time_is_not_that_which_feeds_the_training():
    earlier, judged = (
        read(readings(AHEAD, batches=2000), LOAD, "too-slow"),
        read(readings(AHEAD, batches=200, begin_ms=100_000), PARSE, number=2),
    )

    found = found_of(earlier, judged, low_ms=100_000, high_ms=104_100)

    assert (found.batches, found.unread) == (200, None)
    assert found.slow_stage.function == PARSE


def test_of_several_that_was_read_which_gave_most_in_the_steps_and_not_most_of_all():
    # 1000 batches in 100 s, of which 10 came in the second that is looked at.
    rare, judged = (
        read(readings(AHEAD, batches=1000, interval_ms=100, looks=2), LOAD),
        read(readings(AHEAD, begin_ms=50_000), PARSE, number=2),
    )

    found = found_of(rare, judged, low_ms=50_000, high_ms=51_000)

    assert (found.batches, found.slow_stage.function) == (40, PARSE)


def test_a_pipeline_of_another_process_is_not_that_of_the_training():
    here, elsewhere = read(readings(AHEAD), PARSE), read(readings(AHEAD, batches=400, interval_ms=2.0), LOAD, process=1)

    found = found_of(here, elsewhere)

    assert (found.batches, found.slow_stage.functions) == (40, (PARSE,))


@pytest.mark.parametrize(("iterator", "is_known"), [(3, True), (None, True), (7, False)])
def test_it_is_one_that_the_training_waits_for_or_a_compiled_call_reads(iterator, is_known):
    found = found_of(read(readings(AHEAD), LOAD, iterator=iterator), waits=(3, 3, 4))

    assert (found is not None) == is_known


@pytest.mark.parametrize(("cores", "calls"), [(1.5, 2), (2.0, 2), (0.2, 1), (0.0, 1)])
def test_calls_run_on_cores_of_which_a_share_counts_as_one(cores, calls):
    nodes = [node(1, "Root", 2), node(2, "ParallelMapV2", ms=18.0, parallelism=8)]

    assert found_of(read(readings(nodes), LOAD), cores=cores).stages[-1].thread.servers == calls


def test_of_pipelines_that_ended_before_nothing_is_known():
    found = found_of(read(readings(AHEAD), LOAD, "too-slow"), low_ms=100_000, high_ms=104_100)

    assert (found.stages, found.slowest, found.unread) == ((), None, "too-slow")


def test_the_stage_that_is_always_at_work_holds_up_the_training():
    found = slow_map(18.0)

    assert found.slow_stage is not None
    assert (found.slow_stage.name, found.slow_stage.function) == ("Map", LOAD)
    assert found.bound_ns == pytest.approx(18.1e6)


@pytest.mark.parametrize(("ms", "ready"), [(18.0, 2), (5.0, 0)], ids=["batches lie ready", "it is idle for most of the time"])
def test_where_it_keeps_up_no_stage_is_named(ms, ready):
    assert slow_map(ms, ready=ready).slowest is None


def test_of_a_thread_the_stage_that_takes_most_is_named_and_all_of_them_bind():
    nodes = [
        node(1, "Root", 2),
        node(2, "Prefetch", 3, buffer_size=2),
        node(3, "Zip", 4, 5),
        node(4, "Map", ms=8.0),
        node(5, "Filter", ms=10.0),
    ]

    found = pipeline(nodes)

    assert (slow_name(found), found.bound_ns) == ("Filter", pytest.approx(18e6))


def test_calls_that_are_made_at_once_bind_less_but_no_more_of_them_than_there_are_cores():
    nodes = [node(1, "Root", 2), node(2, "ParallelMapV2", 3, ms=36.0, parallelism=8, tuned=True), node(3, "Map", ms=12.0)]

    assert slow_name(pipeline(nodes, cores=2)) == "ParallelMapV2"
    assert pipeline(nodes, cores=2).bound_ns == pytest.approx(18e6)
    # What it reads is read by a thread of its own.
    assert slow_name(pipeline(nodes, cores=4)) == "Map"


def test_what_reads_data_sets_waits_in_more_threads_than_there_are_cores():
    nodes = [
        node(1, "Root", 2),
        node(2, "Prefetch", 3, buffer_size=2),
        node(3, "ParallelMapV2", 4, ms=72.0, parallelism=4, each=64),
        node(4, "ParallelInterleaveV4", 5, 6, parallelism=16, each=64),
        node(5, "TensorSlice", each=0.01),
        node(6, "TFRecord", ms=79.0, each=64),
    ]

    found = pipeline(nodes, cores=4)

    assert (slow_name(found), found.bound_ns) == ("ParallelMapV2", pytest.approx(18e6))
    assert found.stages[-1].bound_ns == pytest.approx(79e6 / 16)


def test_functions_of_data_sets_that_are_made_run_on_the_cores_that_there_are():
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "ParallelInterleaveV4", 4, 5, parallelism=8, buffered=54)]
    nodes += [node(4, "TensorSlice", each=0.01), node(5, "Map", 6, ms=38.0), node(6, "TFRecord", ms=20.0)]

    found = pipeline(nodes, cores=2)

    assert (slow_name(found), found.bound_ns) == ("Map", pytest.approx(19e6))
    assert found.stages[-1].bound_ns == pytest.approx(20e6 / 8)


def test_batches_that_calls_have_begun_do_not_lie_ready():
    nodes = [node(1, "Root", 2), node(2, "MapAndBatch", 3, ms=38.0, parallelism=2, buffered=2), node(3, "Range")]

    assert slow_name(pipeline(nodes, cores=2)) == "MapAndBatch"


@pytest.mark.parametrize(("ms", "name"), [(96.0, "ParallelMapV2"), (110.0, None)])
def test_where_batches_came_faster_than_calls_allow_these_are_not_known_and_no_stage_is_named(ms, name):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "ParallelMapV2", 4, ms=ms, parallelism=8)]
    nodes.append(node(4, "Map", ms=19.0))

    assert slow_name(pipeline(nodes, cores=4)) == name


def test_of_calls_at_once_on_unknown_cores_nothing_is_named_and_of_others_it_is():
    one, several = [[node(1, "Root", 2), node(2, "ParallelMapV2", ms=ms, parallelism=calls)] for ms, calls in ((18.0, 1), (36.0, 2))]

    assert (slow_name(pipeline(one, cores=None)), slow_name(pipeline(several, cores=None))) == ("ParallelMapV2", None)
    assert pipeline(several, cores=None).stages[-1].thread.servers == 2
    assert found_of(read(readings(several), LOAD), cores=None).slowest is None


@pytest.mark.parametrize(("inner", "function"), [("TFRecord", PARSE), ("Map", LOAD)])
def test_of_data_sets_that_a_stage_makes_only_what_calls_functions_has_those_in_python(inner, function):
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "ParallelInterleaveV4", 4, 5, parallelism=2)]
    nodes += [node(4, "TensorSlice", each=0.01), node(5, inner, ms=36.0)]

    found = pipeline(nodes, written("Prefetch"), written("Interleave", PARSE, LOAD), written("TensorSlice"))

    assert (slow_name(found), found.slow_stage.functions) == (inner, (function,))


def test_what_data_sets_are_made_for_is_a_stage_of_the_script_by_itself():
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "ParallelInterleaveV4", 4, 5, parallelism=2)]
    nodes += [node(4, "Map", ms=18.0), node(5, "TFRecord", ms=2.0)]

    found = pipeline(nodes, written("Prefetch"), written("Interleave", PARSE), written("Map", LOAD))

    assert [(stage.name, stage.functions) for stage in found.stages[-2:]] == [("Map", (LOAD,)), ("TFRecord", (PARSE,))]


def test_what_the_training_makes_while_it_asks_binds_however_short_it_is():
    found = pipeline([node(1, "Root", 2), node(2, "BatchV2", 3, ms=0.1, ratio=4.0), node(3, "Map", ms=4.0, each=4)])

    assert slow_name(found) == "Map"
    assert found.slow_stage is not None
    assert found.slow_stage.thread.does == "asks"


def test_of_data_sets_that_are_made_anew_the_time_is_known_by_those_that_are_left():
    nodes = [
        node(1, "Root", 2),
        node(2, "ParallelInterleaveV4", 3, 4, parallelism=2, each=1),
        node(3, "Range", each=0.1),
        node(4, "Map", ms=10.0, each=1.0),
    ]
    rows = readings(nodes)
    last = rows["time_ns"].max()
    # At the last reading another one stands there, which has made four elements in 60 ms.
    made_anew = pl.when(pl.col("node") == 4, pl.col("time_ns") == last)
    rows = rows.with_columns(
        made_anew.then(60_000_000).otherwise("busy_ns").alias("busy_ns"),
        made_anew.then(4).otherwise("elements").alias("elements"),
        made_anew.then(9).otherwise("node").alias("node"),
        pl.when(pl.col("node") == 2, pl.col("time_ns") == last).then(pl.lit([3, 9])).otherwise("inputs").alias("inputs"),
    )

    stage = measure_pipeline(read_window(rows, 0, FAR), (written("Interleave", LOAD),), cores=2).stages[-1]

    assert (stage.name, stage.function, stage.thread.servers) == ("Map", LOAD, 2)
    assert stage.low_ns == pytest.approx((300e6 + 60e6) / 40)
    assert stage.busy_ns == pytest.approx(360e6 / 34)
    assert stage.high_ns > stage.busy_ns > stage.low_ns


def made_anew(rows, of, *, lost=0):
    """The readings, where stages whose numbers are above `of` are others from the middle on; so many elements of the last one are lost."""
    is_second = (pl.col("time_ns") > 400e6) & (pl.col("node") > of)
    middle = rows.filter(pl.col("time_ns") == 400e6).select("node", at_elements="elements", at_ns="busy_ns")
    is_last = pl.col("node") == rows["node"].max()
    rows = rows.join(middle, on="node").with_columns(
        elements=pl.col("elements") - pl.when(is_second).then(pl.col("at_elements") + lost * is_last).otherwise(0),
        busy_ns=pl.col("busy_ns") - pl.when(is_second).then("at_ns").otherwise(0),
    )
    again = pl.col("inputs").list.eval(pl.when(pl.element() > of).then(pl.element() + 10).otherwise(pl.element()))
    return rows.with_columns(
        node=pl.when(is_second).then(pl.col("node") + 10).otherwise("node"),
        inputs=pl.when(pl.col("time_ns") > 400e6).then(again).otherwise("inputs"),
    )


def anew(nodes, of, **more):
    return measure_pipeline(read_window(made_anew(readings(nodes), of, **more), 0, FAR), (), cores=4)


def mixed(mixes, *, lost=0, **more):
    """A pipeline that repeats a mixture of two maps, which is made anew in the middle; so many of the second one's elements are lost."""
    inputs = [node(5, "Map", ms=12.0, each=0.5), node(6, "Map2", ms=6.0, each=0.5)]
    selector = [node(7, "Range")] if mixes == "DirectedInterleave" else []
    numbers = [each["number"] for each in (*selector, *inputs)]
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "Repeat", 4), node(4, mixes, *numbers, **more)]
    return anew([*nodes, *selector, *inputs], 3, lost=lost)


# Of one that is not known it is taken that it takes an element of any of its inputs.
@pytest.mark.parametrize("mixes", ["DirectedInterleave", "Concatenate", "Merge"])
def test_of_data_sets_that_are_mixed_each_has_the_share_of_elements_that_was_counted(mixes):
    found = mixed(mixes)

    assert [(stage.elements, stage.busy_ns) for stage in found.stages[-2:]] == [(0.5, pytest.approx(12e6)), (0.5, pytest.approx(6e6))]
    assert (slow_name(found), found.bound_ns) == ("Map", pytest.approx(18e6))


def test_of_data_sets_that_are_zipped_each_gives_as_many_elements_as_there_are():
    assert [(stage.elements, stage.is_shared) for stage in mixed("Zip").stages[-2:]] == [(1.0, False), (1.0, False)]


def test_of_one_that_is_left_of_a_mixture_it_is_not_known_how_much_it_gave():
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2), node(3, "Repeat", 4), node(4, "Concatenate", 5)]

    found = anew([*nodes, node(5, "Map", ms=9.0, each=0.5)], 3)

    assert (found.stages[-1].is_shared, found.stages[-1].busy_ns) == (True, pytest.approx(9e6))


@pytest.mark.parametrize("ratio", [1.0, 0.25])
def test_what_data_sets_are_made_of_gives_as_many_elements_as_were_counted_beside_them(ratio):
    found = mixed("FlatMap", ratio=ratio)

    assert [stage.elements for stage in found.stages[-2:]] == [pytest.approx(0.5), pytest.approx(1.0)]


def test_what_a_batch_is_made_of_gives_as_many_elements_as_it_takes():
    nodes = [node(1, "Root", 2), node(2, "Repeat", 3), node(3, "BatchV2", 4, ratio=4.0), node(4, "Map", ms=18.0, each=3.0)]

    stage = anew(nodes, 2).stages[-1]

    # Three of four were counted, in 18 ms.
    assert (stage.elements, stage.busy_ns, stage.low_ns) == (4.0, pytest.approx(24e6), pytest.approx(18e6))


def test_a_stage_took_no_less_than_was_counted_though_it_gave_more_than_was_taken():
    nodes = [node(1, "Root", 2), node(2, "Repeat", 3), node(3, "Shuffle", 4), node(4, "Map", ms=18.0, each=2.0)]

    stage = anew(nodes, 2).stages[-1]

    assert (stage.elements, stage.busy_ns) == (1.0, pytest.approx(18e6))


def test_sums_that_fall_count_for_nothing():
    rows = readings([node(1, "Root", 2), node(2, "Map", ms=18.0)])
    rows = rows.with_columns(busy_ns=pl.when(pl.col("time_ns") == rows["time_ns"].max()).then(0).otherwise("busy_ns"))

    assert measure_pipeline(read_window(rows, 0, FAR), (), cores=4).stages[-1].busy_ns == pytest.approx(18e6 * 3 / 4)


@pytest.mark.parametrize(("lost", "is_shared"), [(3, False), (5, True)], ids=["0.92 of it was counted", "0.88 of it"])
def test_where_too_little_was_counted_of_what_is_mixed_none_is_named(lost, is_shared):
    found = mixed("Concatenate", lost=lost)

    assert [stage.is_shared for stage in found.stages[-2:]] == [is_shared, is_shared]
    assert ([stage.busy_ns for stage in found.stages[-2:]] == [stage.low_ns for stage in found.stages[-2:]]) == is_shared
    assert (found.slowest is None) == is_shared


def test_calls_at_once_whose_results_lie_ready_are_not_waited_for_but_what_the_request_makes_is():
    def known(buffered):
        nodes = [node(1, "Root", 2), node(2, "BatchV2", 3, ms=6.0), node(3, "ParallelMapV2", 4, ms=32.0, parallelism=4, buffered=buffered)]
        return pipeline([*nodes, node(4, "Map", ms=7.0)], interval_ms=10.0)

    assert (slow_name(known(0)), known(0).bound_ns) == ("ParallelMapV2", pytest.approx(8e6))
    assert (slow_name(known(4)), known(4).bound_ns) == ("BatchV2", pytest.approx(6e6))
    assert known(4).slow_stage.thread.does == "asks"


def test_what_is_behind_a_filled_buffer_is_not_waited_for_though_its_own_is_empty():
    nodes = [node(1, "Root", 2), node(2, "Prefetch", 3, buffer_size=2, buffered=2), node(3, "Map", 4, ms=1.0)]
    nodes += [node(4, "Prefetch", 5, buffer_size=2), node(5, "Map", ms=18.0)]

    assert pipeline(nodes).slowest is None
