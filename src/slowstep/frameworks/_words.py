"""The words of a framework: how its users write a change of their training, and by which of its files it is known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from slowstep.frameworks._remedies import OF_LOADER, Remedy
from slowstep.parts import PartKind


class Code(Enum):
    """What stacks and timed calls of a recording show of a framework, by the file that a frame is of."""

    TRAINS = "all of it that trains, its loop included"
    COMPUTES = "all of what computes"
    STEPS = "what a step consists of: layers, gradients, updates"
    OPTIMIZERS = "optimizers, and what wraps their calls"
    OWN_OPTIMIZERS = "optimizers of its own"
    UPDATE = "what wraps every update"
    MODEL_CALL = "what calls a model"
    MODEL_HOOKS = "what calls the hooks of models"
    LAYERS = "layers of models"
    OPERATIONS = "layers and functions that are an operation each"
    CONVOLUTIONS = "layers that convolve"
    RECURRENT = "layers that go over time"
    GRADIENTS = "what computes gradients where it is called for them"
    GENERATED = "what calls code that a compiler has written"
    COMPILER = "a compiler at work"
    SINGLE_OPERATIONS = "what does operations one by one, where a script calls it outside of what is compiled"
    WRITES_STACKS = "what writes down the stack of each operation while errors are looked for"
    DECORATOR = "what stands between a caller and a function that is decorated"
    LOADER = "what makes and hands over batches"
    REQUEST = "what is asked for the next batch"
    FETCH = "what makes one batch"
    REPORTS = "what does something with results"
    WRITES = "what turns objects into what files hold"
    # Of these, which frames name from the package on, the path begins with that.
    TENSORS = "what works on whole tensors"
    PICTURES = "what draws pictures, or writes them"
    METRICS = "what judges results"
    HOOK_OF_BACKWARD = "what slowstep puts in the place of a backward pass"
    HOOK_OF_REQUEST = "what slowstep puts in the place of a request for a batch"
    HOOK_OF_COLLATE = "what slowstep puts around the collating of a batch"


class Named(Enum):
    """What they show of a framework by the name of a function, which others may have too."""

    MODEL_CALL = "what calls a model"
    UPDATE_WRAPPER = "what is put around every update"
    NEXT_BATCH = "what is asked for the next batch"
    NEXT_INDICES = "what draws the indices of one"
    FETCH = "what makes one"
    READS_BACK = "what brings a value to the host: a built-in method, or a function of the framework's"
    WALKS = "what walks over a model's weights"
    COPIES = "what copies tensors"
    CHANGES = "what changes tensors in place"
    TENSORS = "a built-in function or method that works on whole tensors"
    PUTS_TOGETHER = "a built-in function that makes one tensor of many"
    FORWARD = "what a layer computes"
    CONVOLVES = "a layer or function that is one convolution"
    MULTIPLIES = "one that is a single product of matrices"
    ATTENDS = "one that is attention as a whole"
    REDUCES_MUCH = "one that computes far more than it moves, and is none of these: a transform, a decomposition, an order"


@dataclass(frozen=True, kw_only=True, slots=True)
class Excluded:
    """What a call must not be given where an argument is to have a value: the names, `unless_off` those that are given as true only.

    `why` is the end of a sentence, with a place for the `{name}` that is given.
    """

    argument: str
    value: object
    names: frozenset[str]
    why: str
    unless_off: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Argument:
    """An argument of a call, as scripts write it: of `Trainer({arguments})` the `name`, with its value.

    `owner` is where what is called can be imported from. `value` is what makes the change where there is one choice; else whoever asks
    gives it. `{kind}` is the class that the script chose. `default` is what it is where a script says nothing, an ellipsis where that
    is not known. Of what is given in numbers `none` is the value where there is none of it. What
    it asks for `forks` processes where the script does not say otherwise.
    """

    call: str
    owner: str
    name: str
    value: object = None
    none: int = 0
    forks: bool = False
    default: object = ...


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """How users of a framework write changes. What it has no word for is said in those of the framework that it `rests_on`.

    `code` has patterns that find files of it in paths with any separator, `names` such that find its functions; `saver` is what writes its
    checkpoints, `left_out` what the lever leaves out that is for these; `loop` finds one of its training loop, `marks` what a profiler's
    trace calls it; of one that is `beneath` others, these train where both are seen. `places` are where scripts make some calls, and
    `made_in` the hooks of the user's that make them, by whose ranges a recording tells whose hook it was; `lacks` is what it does not let
    them change, `of_loop` what it does in its own loop alone. `loader` is what makes batches, `unseen` what was not done where none of its
    steps was recorded, `begun` what was where the first of them had begun and not ended, `no_losses` why no losses may be seen.
    `packages` are the folders in which it and what is made for it are installed,
    `spans` what its hooks call spans that have no other name, and of which kind they are, `devices` the facts in a recording that say where
    it computes, where nothing else does, by their keys. `spared` are spans named for calls of its own, each with what does the same
    for less. Phrases
    may have places for the values that a rule gives, `{every}`, for that of the change itself, `{value}`, and for other changes:
    `{PIN_MEMORY+COPY_AHEAD}`, or `{FUSED_ADAMW:AdamW(fused=True)}` with what is said where there is no word for it. Where its training
    loop takes several kinds of input, `inputs` has the words of each, by what a recording calls it. One beside whose threads forked
    processes may hang says by `unforked` what is to be done about it.

    `excluded` are arguments that a call must not have where another one is changed.

    Of a trace, `profiler` has the phrases of one that is no framework's, and `others` may train as well, where that is unknown.
    """

    name: str
    title: str
    arguments: Mapping[Remedy, Argument | str]
    code: Mapping[Code, str] = field(default_factory=dict)
    names: Mapping[Named, str] = field(default_factory=dict)
    saver: str = ""
    left_out: frozenset[str] = frozenset()
    loop: re.Pattern[str] | None = None
    marks: re.Pattern[str] | None = None
    beneath: bool = False
    places: Mapping[str, str] = field(default_factory=dict)
    made_in: Mapping[str, str] = field(default_factory=dict)
    lacks: frozenset[Remedy] = frozenset()
    of_loop: frozenset[Remedy] = frozenset()
    rests_on: Words | None = None
    loader: str = ""
    inputs: Mapping[str, Words] = field(default_factory=dict)
    unseen: str = ""
    begun: str = ""
    no_losses: str = ""
    unforked: str = ""
    packages: frozenset[str] = frozenset()
    spans: Mapping[str, PartKind] = field(default_factory=dict)
    spared: Mapping[str, Remedy] = field(default_factory=dict)
    devices: Mapping[str, str] = field(default_factory=dict)
    profiler: Mapping[Remedy, str] = field(default_factory=dict)
    others: tuple[Words, ...] = ()
    excluded: tuple[Excluded, ...] = ()

    @property
    def loader_class(self) -> str:
        """What makes batches is called."""
        return self.loader or (self.rests_on.loader_class if self.rests_on is not None else "loader")

    @property
    def has_loop(self) -> bool:
        """Whether the training loop is the framework's, and no script's."""
        return self.loop is not None and not self.beneath

    def find(self, change: Remedy) -> Argument | str | None:
        """The argument that makes a change, or a phrase where that is no argument; None where there is no one word for it."""
        found = self.arguments.get(change)
        if found is not None or self.rests_on is None or change in self.lacks:
            return found
        return self.rests_on.find(change)

    def fed_by(self, loader: Words) -> Words:
        """The same where it reads a loader of another framework: changes of the loader are written as that one's users do."""
        return self if loader.name in self._names() else self._given_by(loader)

    def reading(self, kind: str) -> Words:
        """The same where it is known which kind of input its loop was given: changes of that are written as for this kind."""
        return self._given_by(self.inputs[kind]) if kind in self.inputs else self

    def excludes(self, arguments: Mapping[str, object]) -> tuple[Excluded, ...]:
        """What a call must not be given together with these new values of its arguments."""
        own = tuple(each for each in self.excluded if each.argument in arguments and arguments[each.argument] == each.value)
        return own if self.rests_on is None else (*own, *self.rests_on.excludes(arguments))

    def without_loop(self) -> Words:
        """The same where the script has a loop of its own in place of one that takes several kinds of input."""
        own = {change: found for change, found in self.arguments.items() if change not in self.of_loop}
        return replace(self, arguments=own)

    def computed_by(self, other: Words | None) -> Words:
        """The same where it is known which framework computes for it, which it then rests on."""
        return self if other is None or other.name == self.name else replace(self, rests_on=other)

    def sets_workers(self) -> bool:
        """Whether its loaders have workers that a script sets in number, 0 for none."""
        found = self.find(Remedy.WORKERS)
        return isinstance(found, Argument) and not found.none

    def _given_by(self, loader: Words) -> Words:
        theirs = {change: found for change in OF_LOADER - self.lacks if (found := loader.find(change)) is not None}
        own = {change: found for change, found in self.arguments.items() if change not in OF_LOADER}
        return replace(self, arguments=own | theirs, lacks=self.lacks | (OF_LOADER - theirs.keys()), loader=loader.loader_class)

    def _names(self) -> set[str]:
        return {self.name, *(self.rests_on._names() if self.rests_on is not None else ())}

    def has(self, *changes: Remedy) -> bool:
        """Whether there are words for all of the changes."""
        return all(self.find(change) is not None for change in changes)

    def write(self, changes: Mapping[Remedy, object], *, kind: str = "") -> str:
        """The changes as a script makes them, those without a word left out: "DataLoader(..., num_workers=2, persistent_workers=True)".

        Empty where none has a word: who says nothing else asks `advise`.
        The values are the arguments'; an ellipsis stands for one that is not known, or the user's to choose.
        """
        calls: dict[str, list[str]] = {}
        forks = False
        for change, value in changes.items():
            found = self.find(change)
            if isinstance(found, Argument):
                given = value if found.value is None else found.value
                calls.setdefault(found.call, []).append(f"{found.name}={_written(given)}")
                forks = forks or (found.forks and given != 0)
            elif found is not None:
                calls[found.replace("{value}", _written(value))] = []
        written = " and ".join(self._call(call, arguments, kind) if arguments else call for call, arguments in calls.items())
        return f"{written} ({unforked})" if forks and (unforked := self._unforked()) else written

    def _unforked(self) -> str:
        return self.unforked or (self.rests_on._unforked() if self.rests_on is not None else "")

    def advise(self, change: Remedy, value: object = True, **values: object) -> str:
        """What to change or to record: in the words of its users, of each where several may train, in plain ones where nobody has any.

        The value is the argument's, the others are those that a phrase has places for.
        """
        if (phrase := self.profiler.get(change)) is not None:
            return phrase.format(**values)
        able = [words for words in (self, *self.others) if words.has(change)]
        if not self.others or not able:
            return self._advise(change, value, values)
        return "; ".join(f"{words.title}: {words._advise(change, value, values)}" for words in able)

    def _advise(self, change: Remedy, value: object, values: Mapping[str, object]) -> str:
        found = self.find(change)
        if isinstance(found, Argument):
            return self.write({change: value})
        return (change.value if found is None else found).format_map(_Places(self, {"value": _written(value), **values}))

    def placed(self, ranges: Iterable[str]) -> Words:
        """The same where a recording has these ranges: a call is where the one hook made it that was seen to ("Data.train_dataloader")."""
        seen = list(ranges)
        found = {call: [name for name in seen if name.endswith(f".{hook}")] for call, hook in self.made_in.items()}
        known = {call: f" in {names[0]}()" for call, names in found.items() if len(names) == 1}
        return replace(self, places={**self.places, **known}) if known else self

    def name_of(self, change: Remedy, otherwise: str) -> str:
        """What the argument itself is called; `otherwise` where there is none."""
        found = self.find(change)
        return found.name if isinstance(found, Argument) else otherwise

    def _call(self, call: str, arguments: list[str], kind: str) -> str:
        place = next((place for begin, place in self.places.items() if call.startswith(begin)), "")
        return call.format(kind=kind, arguments=", ".join(arguments)) + place


class _Places(dict[str, object]):
    """What stands in the places of a phrase: the values that are given, else other changes, by their names."""

    def __init__(self, words: Words, values: Mapping[str, object]) -> None:
        super().__init__(values)
        self._words = words

    def __missing__(self, names: str) -> _Changes:
        return _Changes(self._words.write({Remedy[name]: True for name in names.split("+")}))


@dataclass(frozen=True, slots=True)
class _Changes:
    """Other changes in a phrase, as they are written."""

    text: str

    def __format__(self, otherwise: str) -> str:
        return self.text or otherwise


def _written(value: object) -> str:
    if value is ...:
        return "..."
    return f'"{value}"' if isinstance(value, str) else str(value)
