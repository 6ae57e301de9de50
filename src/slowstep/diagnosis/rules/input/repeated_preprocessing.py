"""Every pass decodes, parses or tokenizes the same samples again.

What it sees:
    The training waits for input, or for a core that its workers took, at least 5 % of the window, and workers alone could not hide it: the
    cores are used up. One decoder, parser or tokenizer (Pillow, OpenCV, torchvision, json, zlib, tokenizers, soundfile: functions whose
    result depends on their input alone) holds at least 30 % of making batches, and a first pass was seen to read the whole map-style
    dataset before a second one began.
Why it costs:
    What is the same every epoch needs to be computed once. Decoding a JPEG takes several times as long as reading its pixels from memory.
How the gain is predicted:
    r is the wait for batches and cores; B is what making batches takes when that function takes a tenth of its time, which reading its
    stored result takes; three tenths at worst, nothing at best. Only the decoder: random augmentation must run in every pass, and is left
    alone.
When it is wrong:
    The result may not fit: its size is known only as it stands in a batch, after cropping. A decoder that shrinks while it decodes by a
    random factor gives other results each time. Only functions of the libraries above are known to give the same result each time: a
    script's own resizing, spectrograms or tables of pandas may do so too, but a recording cannot separate them from random work that takes
    as long, and this rule is silent on them. slow-transform names such a function where it holds most of the making, and advises to store
    its result.
What to try:
    Store decoded (or tokenized) samples once, as uint8 arrays in one memory-mapped file; or keep them in memory where they fit.
"""

from __future__ import annotations

from dataclasses import replace

from slowstep.analyses.input.input_facts import InputFunction
from slowstep.analyses.measurements import Measurements
from slowstep.diagnosis.evidence.input.core_demand import core_demand
from slowstep.diagnosis.evidence.input.input_causes import Spared, hidden_by_workers, sparing
from slowstep.diagnosis.evidence.input.input_side import WAIT_SHARE, claims, find_side
from slowstep.diagnosis.gain import Counterfactual, predict, saved_by, share_interval
from slowstep.diagnosis.lever_specs import mock_loader
from slowstep.diagnosis.rule import Answer, Judged, Rule
from slowstep.findings import Evidence, Finding, Fix
from slowstep.reasons import Reason
from slowstep.units import format_share

NAME = "repeated-preprocessing"
DECODERS = (
    "of 'ImagingDecoder'",
    "imread",
    "imdecode",
    "decode_jpeg",
    "decode_png",
    "decode_image",
    "JSONDecoder.decode",
    "zlib.decompress",
    "'decompress' of",
    "of 'tokenizers.Tokenizer'",
    "PreTrainedTokenizerBase.__call__",
    "PreTrainedTokenizer.tokenize",
    "soundfile",
    "SoundFile.read",
)
HOLDS = 0.30
# Epochs that drop their last batch, and batches that were not recorded: what is left of a whole pass.
WHOLE_PASS = 0.9
LEFT, LEFT_PESSIMISTIC = 0.1, 0.3
# The training needs memory too.
MEMORY_SHARE = 0.5


def judge(m: Measurements) -> Answer:
    """Whether a decoder repeats its work in every pass while the cores are used up."""
    side = find_side(m)
    decoder = max(m.input.facts.named(*DECODERS, at_least=HOLDS), key=lambda f: f.share, default=None)
    if isinstance(side, Reason) or decoder is None or not _repeats(m):
        return None
    cores = core_demand(m, side)
    share, low, high = share_interval(m, side.removable_ns + cores.lost_ns)
    if share < WAIT_SHARE or hidden_by_workers(replace(side, rest_ns=cores.alone_ns)):
        return None
    held = decoder.share
    spared = Spared(expected=(1 - LEFT) * held, pessimistic=(1 - LEFT_PESSIMISTIC) * held, optimistic=held)
    counterfactual = sparing(
        m,
        side,
        spared,
        f"the results of {decoder.name} were stored once and read in every pass",
        lost_ns=cores.lost_ns,
    )
    finding = Finding(
        rule=NAME,
        stage="preprocess",
        title=f"{_called(decoder)} does the same for each of {m.input.facts.dataset_length} samples in every pass: {format_share(held)} of "
        "making a batch",
        opens_with_name=True,
        share=share,
        share_low=low,
        share_high=high,
        claims=(*claims(m), *cores.claims),
        evidence=_evidence(m, decoder, held, share, counterfactual),
        gain=predict(m, counterfactual),
        fixes=_fixes(m),
        names_cause=True,
    )
    return Judged(finding=finding, counterfactual=counterfactual)


def _evidence(m: Measurements, decoder: InputFunction, held: float, share: float, counterfactual: Counterfactual) -> tuple[Evidence, ...]:
    return (
        Evidence(name="function", value=_called(decoder), unit=""),
        Evidence(name="its share", value=held, unit="share of making a batch", threshold=HOLDS),
        Evidence(name="passes begun", value=len(m.input.facts.passes), unit="passes", threshold=2),
        Evidence(name="all samples", value=_all_bytes(m), unit="bytes as batched", threshold=_room(m)),
        Evidence(name="waiting for batches and cores", value=share, unit="share of window", threshold=WAIT_SHARE),
        saved_by(m, counterfactual),
    )


def _repeats(m: Measurements) -> bool:
    """Whether a second pass began after one that read the whole dataset."""
    length, passes = m.input.facts.dataset_length, m.input.facts.passes
    return bool(length) and len(passes) >= 2 and max(p.samples for p in passes[:-1]) >= WHOLE_PASS * (length or 0)


def _called(decoder: InputFunction) -> str:
    """The function's name; of a built-in one the Python function that calls it too."""
    return decoder.name if decoder.caller is None else f"{decoder.caller} ({decoder.name})"


def _all_bytes(m: Measurements) -> float | None:
    length, each = m.input.facts.dataset_length, m.input.facts.sample_bytes
    return None if length is None or each is None else length * each


def _room(m: Measurements) -> float | None:
    return None if m.input.facts.memory_available_bytes is None else MEMORY_SHARE * m.input.facts.memory_available_bytes


def _fixes(m: Measurements) -> tuple[Fix, ...]:
    text = "store the decoded samples once, as uint8 arrays in a memory-mapped file, and augment them as before"
    stored = Fix(text=text, bounded_by=mock_loader(m))
    needed, room = _all_bytes(m), _room(m)
    if needed is None or room is None or needed > room:
        return (stored,)
    text = "keep decoded samples in memory after the first pass (they fit as batched), and augment them as before"
    return Fix(text=text, bounded_by=mock_loader(m)), stored


RULE = Rule(name=NAME, stages=("preprocess",), topics=("compute", "input", "ledger", "machine", "steps"), judge=judge)
