"""Other processes keep the machine's cores busy.

What it sees:
    Busy cores of all processes but the training's, and time that a hypervisor took, are at least a fifth of the cores that the training
    may use, on average over the window.
Why it costs:
    Threads of the training stand in a queue for a core, and caches and memory are shared: steps are longer, and of uneven length.
How the gain is predicted:
    Not at all: nothing in the script causes it. The time in which the training thread stood in the queue is shown; on a quiet machine
    it would be gone, and some more with it.
When it is wrong:
    Others may be busy on cores that the training may not use (affinity, control groups): then the time in the queue is next to nothing.
    On a virtual machine the neighbours on the host are seen only as far as the hypervisor reports stolen time.
What to try:
    Nothing in the script. Record again when the machine is quiet, or ask for cores of its own.
"""

from __future__ import annotations

from slowstep.analyses.machine.load import BUSY_FROM, others_use
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.advice import advice
from slowstep.diagnosis.rule import Answer, Rule
from slowstep.findings import Evidence, EvidenceCode, NotJudged
from slowstep.reasons import Wording

NAME = "foreign-load"

OTHERS_NOT_MEASURED = Wording("others-not-measured", "how busy other processes keep the machine was not measured")


def judge(m: Measurements) -> Answer:
    """Whether others use the machine so much that times are doubtful."""
    if m.machine.load.foreign_share is None or m.machine.load.foreign_cores is None:
        return NotJudged(rule=NAME, reason=OTHERS_NOT_MEASURED())
    if not m.machine.load.busy:
        return None
    queued = float(m.machine.delay_ns.sum() / m.step_ns.sum())
    evidence = (
        Evidence(
            name="cores used by others",
            value=m.machine.load.foreign_cores,
            unit="cores",
            where=f"of {m.machine.load.cores:g} allowed",
            code=EvidenceCode.USED_BY_OTHERS,
        ),
        Evidence(name="their share of the cores", value=m.machine.load.foreign_share, unit="share", threshold=BUSY_FROM),
        Evidence(name="taken by the hypervisor", value=m.machine.load.stolen_cores, unit="cores"),
        Evidence(name="training thread waits for a core", value=queued, unit="share of window"),
        Evidence(name="any task waited for a core", value=m.machine.resources.pressure.get("cpu"), unit="share of time"),
    )
    title = f"busy machine: {others_use(m.machine.load)}; times may be off"
    fixes = ("record again on a quieter machine, or on cores of its own",)
    return advice(NAME, "compute", title, evidence, "nothing else ran on the machine", fixes, share=queued, outside=True)


RULE = Rule(name=NAME, stages=("compute",), topics=("machine", "steps"), judge=judge, advisory=True)
