"""The framework's own input pipeline is slower than the training.

What it sees:
    Calls of the framework that wait for their input and count how long (tf.data below Keras' fit), or a loop that asks for batches one by
    one of a pipeline whose stages were looked at. What they wait beyond the 0.3 ms that handing over a ready batch takes is at least 5 %
    of the window. It is not judged where a framework counts nothing, nor where calls return before their work is done and wait inside
    (TensorFlow on an accelerator): the device may have work left while the host waits. Where only the wait is known, and each batch is
    made when it is asked for, serial-loader judges. The slowest stage is named where the framework counts what each takes. It is the one
    that takes most in the thread that allows fewest batches; that thread works for at least 0.6 of the time between two batches (planted
    ones did for 0.93 and more, 0.68 behind a filter), or, where the request itself makes the batch, for half of the wait. Each buffer
    between the stage and the training is less than half full. Calls made at once count up to the number of cores, and all of them where
    they read data sets that others make. No stage is named where these calls, or what mixed data sets take, are not known. Of a stage
    with several functions the one that was given to it is named, where it calls the others; all are listed. Where a pipeline only hands
    on what a loader in Python makes, that function is named. On a machine that is busy with other work, and where batches lie ready (each
    buffer at least half full on average, no thread at work for 0.6 of the time), a call may wait for a core: then it is not known what is
    waited for.
Why it costs:
    What trains stands still until the pipeline has made the next batch.
How the gain is predicted:
    r is the wait beyond handing over. B is what all processes of the training compute, divided by 0.85 of the cores that they may use: a
    pipeline that is always behind computes or waits all the time. At worst, with twice as many threads or processes, it takes half of
    today's step.
When it is wrong:
    What was waited for at the start of each epoch, while buffers fill, counts as well. The time in a stage is that on the clock: where
    cores are few, or functions in Python wait for each other (the GIL), it contains that. Where the pipeline waits for a disk or a server
    that is at its limit, more threads wait longer. How the waits are divided among steps is an estimate.
What to try:
    The stage that is named: its function, its calls made in parallel where they are not and no Python holds them up, batches made ahead
    where nothing is; less work for each sample, or once and stored (cache). What the pipeline does already is not advised.
"""

from __future__ import annotations

from slowstep.analyses.input.pipeline_functions import PipelineFunction
from slowstep.analyses.input.pipeline_stage import PipelineStage
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.input_side import ATTAINED, WAIT_SHARE
from slowstep.diagnosis.evidence.input.pipeline_side import (
    PipelineWait,
    pipeline_fixes,
    pipeline_stage_in_words,
    ready_share,
    slow_stage,
    stage_evidence,
    wait_for_pipeline,
)
from slowstep.diagnosis.gain import Case, Counterfactual, predict, share_interval
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, NotJudged
from slowstep.part_words import place_in_words
from slowstep.reasons import Wording

NAME = "slow-pipeline"
# So many times as many threads or processes are what is predicted at worst.
MORE = 2
QUIETER = "record again on a quieter machine, or on cores of its own"

BATCHES_READY = Wording(
    "batches-lie-ready",
    "the training waits for input for {share:share} of the time, its pipeline's buffers are {ready:share} full on average, and the machine "
    "is busy: it may wait for a core",
)


def judge(m: Measurements) -> Answer:
    """Whether the training waits for a pipeline that makes its batches, which stage it waits for, and what it would gain without."""
    wait = wait_for_pipeline(m)
    if wait is None:
        return None
    share, low, high = share_interval(m, wait.ns)
    if share < WAIT_SHARE:
        return None
    if (ready := ready_share(m, wait)) is not None:
        return NotJudged(rule=NAME, reason=BATCHES_READY(share=share, ready=ready), change=QUIETER)
    counterfactual, stage = _without(m, wait), slow_stage(m, wait)
    finding = Finding(
        rule=NAME,
        stage=wait.stage,
        title=_title(m, stage),
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=wait.parts,
        evidence=_evidence(m, wait, share, stage),
        gain=predict(m, counterfactual),
        fixes=pipeline_fixes(m, stage),
        names_cause=stage is not None and len(stage.functions) == 1,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _without(m: Measurements, wait: PipelineWait) -> Counterfactual:
    step_ns = float(m.step_ns.mean())
    needed_ns = _computed_ns(m, step_ns)
    return Counterfactual(
        assumes="its pipeline had each batch ready when it is asked for",
        expected=Case(removed_ns=wait.ns, concurrent_ns=needed_ns),
        pessimistic=Case(removed_ns=wait.ns, concurrent_ns=max(needed_ns, step_ns / MORE)),
        optimistic=Case(removed_ns=wait.ns),
    )


def _computed_ns(m: Measurements, step_ns: float) -> float:
    """What all processes of the training need of the cores; 0 where that is not known."""
    used, cores = m.machine.load.tree_cores, m.machine.cores
    return 0.0 if used is None or not cores else min(used / (ATTAINED * cores), 1.0) * step_ns


def _title(m: Measurements, stage: PipelineStage | None) -> str:
    waits = f"{m.training.words.title} waits for its input pipeline"
    if stage is not None:
        return f"{waits}, held up by {pipeline_stage_in_words(stage)}"
    maker = _maker(m)
    made = "" if maker is None else f" hands on what {maker.name} ({place_in_words(maker.place)}) makes, and"
    return f"{waits}, which{made} does not keep up with the training"


def _maker(m: Measurements) -> PipelineFunction | None:
    return None if m.input.pipeline is None else m.input.pipeline.maker


def _evidence(m: Measurements, wait: PipelineWait, share: float, stage: PipelineStage | None) -> tuple[Evidence, ...]:
    pipeline, maker = m.input.pipeline, _maker(m)
    where = None if maker is None else place_in_words(maker.place)
    return (
        Evidence(name="waiting for input", value=share, unit="share of window", threshold=WAIT_SHARE, where=wait.where),
        Evidence(name="of each step", value=float(wait.ns.mean()) / 1e6, unit="ms"),
        Evidence(name="batches of a step", value=wait.batches, unit=""),
        Evidence(name="cores used", value=m.machine.load.tree_cores, unit="cores", threshold=m.machine.cores),
        *(() if stage is None or pipeline is None else stage_evidence(pipeline, stage)),
        *(() if stage is not None or maker is None else (Evidence(name="made by", value=maker.name, unit="", where=where),)),
    )


RULE = Rule(name=NAME, stages=("preprocess", "read"), topics=("input", "ledger", "machine", "steps", "training"), judge=judge)
