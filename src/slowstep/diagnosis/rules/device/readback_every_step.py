"""A value is read back in every step, and the device runs dry.

What it sees:
    Copies of less than 1 MiB to the host that the host waits for, in at least 90 % of the steps, after which the device had nothing to do:
    together at least 3 % of the window, the least that a finding may claim; no other profiler names a threshold. Where most of the gaps
    before launches would go with the read-backs, by the replay, they count as well: the host, which waited, is no longer ahead of the
    device.
Why it costs:
    loss.item(), .cpu(), print(loss) or a metric on the host wait until all work launched before is done. The next step's first kernel is
    launched only then, and until it begins the device idles: 20 us for a small gap, milliseconds where Python runs before the next launch.
How the gain is predicted:
    The steps are replayed without the copies to the host and the waits for them.
When it is wrong:
    Where the next step depends on the value (early stopping inside a step, a branch on the loss, gradient scaling), it cannot simply be
    read less often; sizes and lengths that the step needs can be read ahead. Without stacks, read-backs of several places stand together.
    In a window of one step, "every" is not known: then host-sync has them.
What to try:
    Add the loss up on the device and read it every k steps, or read the last step's value while the device works on this one.
"""

from __future__ import annotations

from slowstep.analyses.events.parts import LAUNCH
from slowstep.analyses.measurements import Measurements
from slowstep.analyses.replay.scenarios import NO_READBACKS
from slowstep.analyses.steps.steps import Floats
from slowstep.diagnosis.evidence.device.launch_gaps import launches_exposed_by_readbacks
from slowstep.diagnosis.evidence.device.run_dry import EVERY_STEP, RunDry, WaitsFor, in_every_step, run_dries, together_ns
from slowstep.diagnosis.evidence.profiled.marked_steps import claim_of, share_of_steps, steps_seen
from slowstep.diagnosis.evidence.profiled.not_shown import needs_device, no_launches, with_stacks
from slowstep.diagnosis.gain import predict, saved_by
from slowstep.diagnosis.replayed import Replayed
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix, NotJudged
from slowstep.frameworks._remedies import Remedy
from slowstep.parts import PieceKind
from slowstep.units import format_share

NAME = "readback-every-step"
# As chatty-logging's advice: a curve with a point in 50 steps still shows the training.
EVERY = 50


@needs_device(NAME)
def judge(m: Measurements) -> Answer:
    """Whether a small read-back in every step lets the device run dry."""
    found = [one for one in run_dries(m) if one.waits_for is WaitsFor.READ_BACK and in_every_step(m, one)]
    dry = together_ns(m, found)
    late = launches_exposed_by_readbacks(m, dry)
    share, low, high = share_of_steps(m, dry + late)
    if share < CLAIM:
        missing = no_launches(m, CLAIM)
        return NotJudged(rule=NAME, reason=missing) if missing is not None else None
    worst = found[0]
    counterfactual = Replayed(
        NO_READBACKS, assumes="results stayed on the device, and reading them once in many steps costs next to nothing"
    )
    finding = Finding(
        rule=NAME,
        stage="compute" if late.sum() > dry.sum() else "d2h",
        title=_title(found, share, ahead=bool(late.any())),
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=(*(one.part for one in found), *((claim_of(m, LAUNCH, PieceKind.INSIDE_STEPS, late),) if late.any() else ())),
        evidence=(
            *_costs(m, dry, late),
            *(_row(m, one) for one in found[:3]),
            Evidence(name="steps with it", value=worst.steps / m.marks.table.height, unit="share of steps", threshold=EVERY_STEP),
            Evidence(name="bytes each", value=worst.bytes_each, unit="bytes"),
            steps_seen(m),
            saved_by(m, counterfactual),
        ),
        gain=predict(m, counterfactual),
        fixes=_fixes(m, with_stacks(m, [one.where for one in found])),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _title(found: list[RunDry], share: float, *, ahead: bool) -> str:
    others = sum(one.places for one in found) - 1
    reads = f" and {others} more read values" if others else " reads a value"
    costs = "the host then cannot launch ahead of the device" if ahead else "the device is then idle"
    return f"{found[0].named}{reads} back in every step, and {costs}: {format_share(share)} of the time"


def _costs(m: Measurements, dry: Floats, late: Floats) -> tuple[Evidence, ...]:
    """What was charged to the read-backs, and what to launching because of them."""
    both = share_of_steps(m, dry + late)[0]
    if not late.any():
        return (Evidence(name="device idle after read-backs", value=both, unit="share of window", threshold=CLAIM),)
    return (
        Evidence(name="device idle, and late launches", value=both, unit="share of window", threshold=CLAIM),
        Evidence(name="of it, idle right after them", value=share_of_steps(m, dry)[0], unit="share of window"),
    )


def _row(m: Measurements, one: RunDry) -> Evidence:
    share = float(one.ns.sum()) / max(m.steps.length_ns, 1)
    each = one.count / max(one.steps, 1)
    others = " and others" if one.places > 1 else ""
    return Evidence(name=f"{one.operator or one.call}{others}, {each:.0f} a step", value=share, unit="share of window", where=one.where)


def _fixes(m: Measurements, unknown: str) -> tuple[Fix, ...]:
    words = m.training.words
    return (
        Fix(text=f"{words.advise(Remedy.READ_SELDOM, every=EVERY)}{unknown}"),
        Fix(text=words.advise(Remedy.READ_LATER)),
        Fix(text=words.advise(Remedy.SIZES_AHEAD)),
    )


RULE = Rule(
    name=NAME,
    stages=("d2h", "compute"),
    topics=("completeness", "device", "facts", "ledger", "marks", "replay", "steps", "training"),
    judge=judge,
)
