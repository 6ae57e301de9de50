"""Batches travel in types many times wider than their values.

They are pictures as float32, classes as int64, one-hot vectors.

What it sees:
    In the batches that were looked at, the values of whole tensors lie on one grid of at most 256 levels (8 bits, a shift and a factor give
    each of them back), and sending them as 8 bits would save at least half of the batch's bytes and, at a copy of 1 GB/s, 3 % of a step.
Why it costs:
    Bytes are written by the worker, mapped and read by the training thread, and copied to a device if there is one: four times as many
    for float32, eight for int64, a hundred for one-hot vectors of a hundred classes.
How the gain is predicted:
    Not: what each byte costs on its way was not measured one by one. What receiving costs in sum stands in batch-transport.
When it is wrong:
    Only some hundred values of a few batches are looked at: others may lie off the grid. A model that is fed by the loader's own process
    needs the wide type anyway; only the way there gets shorter. Without workers batches are not looked at: with a device that they are
    copied to, the rule then says that it could not judge.
What to try:
    Send uint8 and convert after receipt, on the device where there is one: images.to(device).float().div_(255). The values stay the same.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, NotJudged
from slowstep.reasons import Wording
from slowstep.units import format_share

NAME = "host-widening"
SPARE_SHARE = 0.5
# A copy with its allocation runs at 1 GB/s at least (slow-collate); saved time under 3 % of a step is no finding (docs/definitions.md).
COPY_BYTES_PER_NS = 1.0
STEP_SHARE = 0.03

NO_BATCH_SEEN = Wording("no-batch-seen", "no batch was looked at; record longer")
OWN_BATCHES_NOT_SEEN = Wording(
    "own-batches-not-seen",
    "batches that the training thread makes itself are not looked at, nor is how long their copies to the device take; where they are "
    "wider than their values, convert them behind that copy",
)


def judge(m: Measurements) -> Answer:
    """Whether batches could travel in a quarter of their bytes."""
    if m.input.loader is None:
        return None
    if not m.input.loader.num_workers:
        # On the processor such batches travel nowhere.
        return None if m.compute.device == "cpu" else NotJudged(rule=NAME, reason=OWN_BATCHES_NOT_SEEN(), advisory=True)
    forms = m.input.facts.forms
    if forms is None:
        return NotJudged(rule=NAME, reason=NO_BATCH_SEEN(), advisory=True)
    spare = forms.spare_bytes / max(forms.size_bytes, 1.0)
    saved = forms.spare_bytes / COPY_BYTES_PER_NS / float(m.step_ns.mean())
    if spare < SPARE_SHARE or saved < STEP_SHARE:
        return None
    evidence = (
        Evidence(name="batch", value=forms.size_bytes / 1e6, unit="MB", where=forms.types),
        Evidence(name="bytes that 8 bits save", value=spare, unit="share of the batch", threshold=SPARE_SHARE),
        Evidence(name="a copy of these bytes", value=saved, unit="share of a step", threshold=STEP_SHARE),
    )
    title = (
        f"batches of {forms.size_bytes / 1e6:.0f} MB ({forms.types}) hold 8-bit values: {format_share(spare)} of the bytes carry "
        "no information"
    )
    fix = "return uint8 from the dataset, and convert the batch after receipt, on the device where there is one"
    return advice(NAME, "preprocess", title, evidence, "batches were sent as 8 bits and converted after receipt", (fix,))


RULE = Rule(name=NAME, stages=("preprocess",), topics=("compute", "input", "steps"), judge=judge)
