from __future__ import annotations

from made_measured_traces import measured_table
from made_parts import charged_parts, dry_part
from made_traces import device, host, made_trace
from slowstep.analyses.device.loss_scaling import find_loss_scaling, overflow_reads
from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.events.tables import GAPS, LOSS_SCALING

CHECK = "aten::_amp_foreach_non_finite_check_and_unscale_"
SYNC = "cudaStreamSynchronize"
PART = dry_part("cudaStreamSynchronize")


def scaled_step(at, *, clips=False, fused=False):
    """A step of 100 us: the loss is read, gradients are checked, the answer is read, the optimizer steps, the factor is updated."""
    reads = [] if fused else [host("aten::item", at + 40, at + 60), host(SYNC, at + 45, at + 60, "runtime")]
    clipped = [host("aten::item", at + 33, at + 36)] if clips else []
    return [
        host("aten::item", at + 5, at + 10),
        host(SYNC, at + 6, at + 10, "runtime"),
        host(CHECK, at + 30, at + 32),
        *clipped,
        *reads,
        host("Optimizer.step#AdamW.step", at + 65, at + 80, "annotation"),
        host("aten::item", at + 82, at + 83),
        host("aten::_amp_update_scale_", at + 90, at + 92),
        host("aten::item", at + 95, at + 98),
    ]


def test_the_read_back_before_the_optimizer_is_the_scalers():
    found = overflow_reads(made_trace(hosts=[*scaled_step(0), *scaled_step(100)]))

    assert found.rows() == [(0, 40_000, 60_000), (0, 140_000, 160_000)]


def test_of_several_the_last_is_the_scalers():
    assert overflow_reads(made_trace(hosts=scaled_step(0, clips=True))).rows() == [(0, 40_000, 60_000)]


def test_where_the_optimizer_is_skipped_the_update_follows():
    rows = [row for row in scaled_step(0) if not row["name"].startswith("Optimizer") and row["start"] != 82]

    assert overflow_reads(made_trace(hosts=rows)).rows() == [(0, 40_000, 60_000)]


def test_a_fused_optimizer_reads_nothing_back():
    assert overflow_reads(made_trace(hosts=scaled_step(0, fused=True))).is_empty()


def test_a_training_without_a_scaler_has_none():
    rows = [host("aten::item", 5, 10), host("Optimizer.step#SGD.step", 20, 30, "annotation"), host("aten::item", 40, 50)]

    assert overflow_reads(made_trace(hosts=rows)).is_empty()


def test_threads_are_told_apart():
    rows = [host(CHECK, 0, 5), host("aten::item", 6, 8, thread=1), host("Optimizer.step#SGD.step", 9, 12, "annotation", thread=1)]

    assert overflow_reads(made_trace(hosts=rows)).is_empty()


def test_it_costs_the_gaps_from_its_begin_to_the_next_call_that_waits():
    dry = [(8, 12), (58, 70), (107, 112), (158, 190)]
    rows = [{"step": low // 100, "part": PART, "start_us": low, "end_us": high, "call": SYNC} for low, high in dry]
    rows.append({"step": 0, "part": LAUNCH, "start_us": 70, "end_us": 75})
    timeline = made_trace(hosts=[*scaled_step(0), *scaled_step(100)], devices=[device("k", 0, 8)])
    steps = measured_table("steps", [{"step": n, "number": n, "start_us": 100 * n, "end_us": 100 * n + 100} for n in range(2)])

    found = find_loss_scaling(timeline, steps, measured_table("gaps", rows))

    assert found.schema == LOSS_SCALING.schema
    # Of the first step's gaps the loss' own does not count, nor does the one after the next step's reading of the loss.
    assert found.select("step", "run_dry_ns").rows() == [(0, 12_000), (1, 32_000)]
    assert charged_parts(found) == [PART, PART]


def test_without_steps_or_gaps_nothing_fails():
    timeline = made_trace(hosts=scaled_step(0))
    steps = measured_table("steps", [{"step": 0, "number": 0, "start_us": 0, "end_us": 100}])

    assert find_loss_scaling(timeline, steps.clear(), GAPS.empty()).is_empty()
    found = find_loss_scaling(timeline, steps, GAPS.empty())
    assert (found["run_dry_ns"].to_list(), charged_parts(found)) == ([0], [None])
