"""An accelerator is here, and the model trains on the processor.

What it sees:
    Device files of an accelerator that this process may open, parameters of the optimizer on the processor, and no environment variable
    that hides the accelerator on purpose. No driver is asked, nothing is initialised.
Why it costs:
    A model of some size trains ten to a hundred times as fast on an accelerator; a very small one does not.
How the gain is predicted:
    It is not: it was not tried. The training is not called healthy.
When it is wrong:
    The accelerator may be another job's, too old for the installed torch, or too much for so small a model.
What to try:
    model.to("cuda") and the batches as well; where torch cannot use it, install the build that can.
"""

from __future__ import annotations

from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.gain import share_interval, unknown_gain
from slowstep.diagnosis.rule import CLAIM, Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.frameworks._remedies import Remedy
from slowstep.units import format_share

NAME = "device-not-used"


def judge(m: Measurements) -> Answer:
    """Whether an accelerator is left alone."""
    found = m.compute.work.accelerators or {}
    if not found or m.compute.device != "cpu" or m.compute.work.accelerators_hidden:
        return None
    share, low, high = share_interval(m, m.ledger.of("compute"))
    if share < CLAIM:
        return None
    names = ", ".join(f"{count} by {make.upper()}" for make, count in found.items())
    built = m.compute.work.accelerator_built
    install = m.training.words.advise(Remedy.BUILT_FOR_DEVICE)
    move = f"move the training to it: {m.training.words.advise(Remedy.DEVICE)}"
    finding = Finding(
        rule=NAME,
        stage="compute",
        title=f"the model trains on the CPU for {format_share(share)} of the time, and this machine has an accelerator ({names})",
        share=share,
        share_low=low,
        share_high=high,
        claims=m.ledger.parts_of("compute"),
        evidence=(
            Evidence(name="accelerators", value=sum(found.values()), unit="devices", where=names),
            Evidence(name="parameters on", value=m.compute.device, unit=""),
            Evidence(name="framework built for it", value={True: "yes", False: "no", None: None}[built], unit=""),
        ),
        gain=unknown_gain("the training ran on it"),
        fixes=(*((Fix(text=install),) if built is False else ()), Fix(text=move)),
    )
    return Judged(finding=finding, counterfactual=None)


RULE = Rule(name=NAME, stages=("compute",), topics=("compute", "ledger", "steps", "training"), judge=judge)
