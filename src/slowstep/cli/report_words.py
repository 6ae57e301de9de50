"""Stages, their parts and verdicts, as a report calls them, for who looks one up."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from slowstep.part_words import part_in_words
from slowstep.parts import Part, PartKind
from slowstep.report.canvas import Canvas
from slowstep.stages import STAGE_MEANING, stage_in_words

# In the words of docs/definitions.md; the last one stands where a verdict would.
VERDICT_MEANING: Final = {
    "bottleneck": "a finding predicts 1.10x or more, and is sure of more than 1.03x at the pace of this run",
    "healthy": "no finding predicts 1.10x or more, all of them together predict less than that, less than 10 % of the time is "
    "unattributed, and every rule on a stage of 10 % or more could judge",
    "undetermined": "neither bottleneck nor healthy, or fewer than 30 steps were looked at. The report says why, and what to do to find "
    "out",
    "provisional": "fewer than 30 steps were recorded: where the time goes so far, and how long a verdict takes. No gain is claimed",
}
_BY_HAND: Final = "by a script without an optimizer"
# By the first of the kinds that have the same words.
_PART_MEANING: Final = {
    PartKind.FORWARD_AND_REST: "what a step does between its input and its update apart from the backward: the forward, the loss, and the "
    "loop's own lines there",
    PartKind.FORWARD: "the model is called, timed by a hook",
    PartKind.FORWARD_BY_STACKS: "the model is called: the share of stacks that were taken in it",
    PartKind.BACKWARD: "gradients are computed, from the call of backward to its return",
    PartKind.OPTIMIZER: "the optimizer's step",
    PartKind.UPDATES: "whole calls that train, of a framework that does not distinguish forward, backward and optimizer",
    PartKind.COMPILING: "the framework's compiler (as torch.compile) compiles, in the midst of steps",
    PartKind.COMPILATION: "a function is traced and compiled: once for each form of its arguments",
    PartKind.UPDATE_BY_HAND: f"parameters are updated {_BY_HAND}: functions or lines that name gradients",
    PartKind.BESIDE_BACKWARD: f"what is computed around the backward {_BY_HAND}: the update, and what else stands there",
    PartKind.BEFORE_BACKWARD: "what stands before the backward in a loop that calls no module and has no loader: the forward, or what "
    "makes its input",
    PartKind.CORE_WAIT: "the training thread could run and had no core: others used them, its own workers and threads among them. It is a "
    "part of the stage in which it waits",
    PartKind.HELD_UP: "the training thread waited while other Python threads of its process ran: one at a time holds the GIL",
    PartKind.RANK_WAIT: "in its backward a rank waits for later ones, and for the exchange of gradients: what its backward takes longer "
    "than it computes",
    PartKind.COLLECTIVE: "a collective that the script calls itself: exchanging, and waiting for later ranks",
    PartKind.SAMPLES: "the data set's own code computes, in a worker or on the training thread, while the training waits for the batch",
    PartKind.COLLATE: "samples are put together into a batch while the training waits for it",
    PartKind.PRODUCER_COLLECTION: "Python collects garbage in what makes the batch that is waited for",
    PartKind.PRODUCER_CORE_WAIT: "what makes the batch that is waited for could run and had no core",
    PartKind.LOCK_WAIT: "what makes the batch waits while other threads of its process compute: a thread pool, or the GIL",
    PartKind.STORAGE: "what makes the batch waits for bytes from storage",
    PartKind.BLOCKED: "what makes the batch waits, and neither storage nor a thread is known to be why: a network, a lock, a sleep",
    PartKind.TRANSPORT: "a batch that a worker has made is received: 1 to 2 ms where it lay ready, which nothing removes",
    PartKind.LOADER_OVERHEAD: "what a request takes besides making the batch, in a loader without workers",
    PartKind.SAMPLER: "the loader's sampler draws the next indices, on the training thread",
    PartKind.LOADER_START: "the loader is started: its workers, where it has some, and what they do before their first batch",
    PartKind.LOADER_END: "the loader's workers are ended, or what its iterator holds is freed",
    PartKind.ROLL_OUT: "a loop without a loader collects its input: an environment is stepped, a replay buffer is filled",
    PartKind.THREAD_WAIT: "a loop without a loader waits for a thread of its own that makes the input",
    PartKind.FUNCTION: "a function that the training loop calls between its steps, with all that it calls: named by stacks, or by timed "
    "calls",
    PartKind.LINES: "lines of the training loop itself, or of a comprehension in it",
    PartKind.LIBRARY_CALL: "a library's function that the training loop calls, on a line that is not known",
    PartKind.SPAN: "what the script has named itself, with slowstep.span",
    PartKind.CALLBACK: "a framework calls a callback of the script or of its own",
    PartKind.PROGRESS_BAR: "a framework's progress bar is drawn",
    PartKind.LOGGING: "a framework's logger is called",
    PartKind.METRICS: "a framework computes metrics",
    PartKind.TRANSFORM: "a transform of the data set runs",
    PartKind.CHECKPOINT: "a checkpoint is written while the training waits: by a framework's callback, or by the script's function that is "
    "named",
    PartKind.SMALL_CALLBACKS: "callbacks of which each takes less than 0.2 % of the time",
    PartKind.SMALL_PARTS: "parts of the stage that are too many and too small to be listed one by one",
    PartKind.VALIDATION: "the training stands still while the model is evaluated",
    PartKind.COLLECTION: "Python's garbage collector runs on the training thread",
    PartKind.KERNELS: "the device computes",
    PartKind.DEVICE_COPIES: "the device copies within its own memory",
    PartKind.MEMSETS: "the device fills its own memory",
    PartKind.COLLECTIVES: "ranks exchange, or wait for a later one, and the device computes nothing meanwhile",
    PartKind.COPIES: "data are copied between host and device, and the device computes nothing meanwhile",
    PartKind.LAUNCH: "the device has nothing to do until the host launches its next work, and nothing else names what the host does",
    PartKind.RUN_DRY: "the device has nothing to do, because the host waited in a call until all its work was done",
    PartKind.NO_LAUNCH: "the device has nothing to do, and what launched its next work is not in the trace",
    PartKind.OPERATORS: "of a trace without a device: operators run, on whichever thread, and the trace does not show of which pass",
    PartKind.BETWEEN_OPERATORS: "of a trace without a device: no operator runs within a step",
    PartKind.NOTHING_RECORDED: "the trace has nothing of this time",
    PartKind.INPUT_WAIT: "the training waits for its input, and how that was made is not known",
    PartKind.FROM_CAPTURE: "what hooks cannot see apart, by the share that it has in the captured steps",
    PartKind.UNATTRIBUTED: "time that no hook, stack or event explains",
    PartKind.DEVICE_WORK: "a device that is seen from the host alone worked, on what is not seen",
    PartKind.UNKNOWN: "whether the device worked or waited for the host is not known: shares then have a lower and an upper bound",
}
_PARTS: Final = {part_in_words(Part("", kind)): text for kind, text in _PART_MEANING.items()}
# All that `meaning` knows.
WORDS: Final = (*STAGE_MEANING, *VERDICT_MEANING, *_PARTS)
_RULES: Final = "Rules that may blame it"


def meaning(name: str) -> tuple[str, str, bool] | None:
    """The word as reports write it, what it means, and whether it is a stage; None for any other word."""
    word = name.strip().lower()
    if (stage := word.replace("-", "_").replace(" ", "_")) in STAGE_MEANING:
        return stage, STAGE_MEANING[stage], True
    if word in VERDICT_MEANING:
        return word.upper(), VERDICT_MEANING[word], False
    return next(((words, text, False) for words, text in _PARTS.items() if words.lower() == word), None)


def word_page(word: str, text: str, rules: Sequence[str], width: int) -> str:
    """A word with its meaning, and the rules on it."""
    canvas = Canvas(width=width)
    canvas.prose(f"{text}.", label=f"{stage_in_words(word)}:", hang=2)
    if rules:
        canvas.blank()
        canvas.prose(", ".join(rules), label=f"{_RULES}:", hang=2)
        canvas.blank()
        canvas.prose("slowstep explain NAME says more about one.")
    return canvas.text(color=False)


def rules_on(stage: str, rules: Iterable[str], stages_of: Callable[[str], Sequence[str] | None]) -> list[str]:
    """Those that name the stage among the few that they may blame."""
    return [rule for rule in rules if stage in (stages_of(rule) or ())]
