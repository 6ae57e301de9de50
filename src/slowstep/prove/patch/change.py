"""What a lever would be in the script: which arguments of which call, and the difference that gives them to it."""

from __future__ import annotations

import ast
import difflib
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slowstep.frameworks._known import all_words, plain
from slowstep.frameworks._remedies import OF_LOADER, Remedy
from slowstep.frameworks._words import Argument, Excluded, Words
from slowstep.prove.patch.call_place import CallPlace
from slowstep.prove.patch.edit import PlainValue, edited
from slowstep.prove.patch.found_call import find_call
from slowstep.prove.patch.source import NoPatch, read_source

LOADER: Final = "loader"
OPTIMIZER: Final = "optimizer"
TRAINER: Final = "trainer"
# What of what each makes may be an argument.
_ARGUMENTS_OF: Final[Mapping[str, frozenset[Remedy]]] = {
    LOADER: OF_LOADER,
    OPTIMIZER: frozenset({Remedy.FUSED}),
    TRAINER: frozenset(
        {
            *(Remedy.VALIDATION_STEPS, Remedy.VALIDATION_BATCHES, Remedy.VALIDATION_EPOCHS),
            *(Remedy.CHECKPOINT_STEPS, Remedy.LOGGING_STEPS, Remedy.PROGRESS_BAR),
        }
    ),
}
NONE_SEEN: Final = "which one call of the script makes the {made} was not seen"
NOT_SEEN: Final = NONE_SEEN.format(made=LOADER)
NOT_BY_NAME: Final = "{place}, where the {made} is made, calls no {name} by its name"
NO_ARGUMENT: Final = (
    "{lever} is not among the changes that patches are made of: arguments of the call that makes a loader (batch size apart), an optimizer "
    "or a trainer"
)
_NO_NEWLINE: Final = b"\\ No newline at end of file\n"


@dataclass(frozen=True, kw_only=True, slots=True)
class ScriptChange:
    """A change of one call at a `place` (file:line), and how it is written there. `folder` is where `difference` is to be applied.

    Where there is no difference `reason` says why, as the end of the sentence "no patch: ...". `made` is what the call makes: a loader,
    settings, of which all loaders of a trainer are made, an optimizer, or a trainer with what is its own. `others` is how many more it has
    made than the lever has changed.
    """

    place: str | None = None
    text: str | None = None
    folder: str | None = None
    difference: bytes | None = None
    made: str = ""
    others: int = 0
    reason: str | None = None


def find_change(
    lever: str, arguments: Mapping[str, PlainValue] | None, places: Sequence[CallPlace], working_folder: Path, *, made: str = LOADER
) -> ScriptChange:
    """What a lever that has changed these arguments of what is `made` is in the script; `places` are the calls that may decide them, the
    likeliest first. Those of loaders and optimizers are called as torch calls them, those of a trainer as that does.
    """
    if arguments is None:
        return ScriptChange(reason=NO_ARGUMENT.format(lever=lever))
    first: str | None = None
    for place in places:
        try:
            found = _at(place, arguments, working_folder, made)
        except NoPatch as error:
            return ScriptChange(reason=f"{_shown(place, working_folder)}: {error}")
        if found is not None:
            return found
        first = first or NOT_BY_NAME.format(place=_shown(place, working_folder), made=made, name="".join(place.names[-1:]))
    return ScriptChange(reason=first or NONE_SEEN.format(made=made))


def _at(place: CallPlace, arguments: Mapping[str, PlainValue], working_folder: Path, made: str) -> ScriptChange | None:
    """None where it is not the call that says how the loader is made. Raises NoPatch where it is, and cannot be changed."""
    file = Path(os.path.realpath(place.file))
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise NoPatch(f"the file cannot be read ({error.strerror or error})") from error
    if zlib.crc32(raw) != place.checksum:
        raise NoPatch("the file is not what it was when it ran")
    source = read_source(raw)
    call = find_call(source, place)
    if call is None:
        return None
    words = all_words().get(place.framework, plain())
    remedies = _remedies(words, arguments, made)
    _check_excluded(call, words.excludes(arguments))
    written = {_name(words, remedy): value for remedy, value in remedies.items()}
    text = edited(source, call, written, place.takes, takes_any=place.takes_any)
    folder = Path(os.path.realpath(working_folder))
    folder = folder if file.is_relative_to(folder) else file.parent
    return ScriptChange(
        place=_shown(place, working_folder),
        text=words.write(remedies, kind=place.names[0] if place.names else ""),
        folder=str(folder),
        difference=difference(raw, source.encoded(text), file.relative_to(folder).as_posix()),
        made=place.made,
        others=place.others,
    )


def _check_excluded(call: ast.Call, excluded: Sequence[Excluded]) -> None:
    """Raises NoPatch where the call is given what excludes the change."""
    given = {str(each.arg): each.value for each in call.keywords}
    for each in excluded:
        names = [name for name in sorted(given.keys() & each.names) if not (each.unless_off and _is_off(given[name]))]
        if names:
            raise NoPatch(each.why.format(name=names[0]))


def _is_off(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def difference(before: bytes, after: bytes, name: str) -> bytes:
    """A unified difference of one file, byte by byte as it is.

    `patch -p0` and `git apply -p0` take it, and with -R take it back. `name` is the file's path, relative to where the patch is applied.
    Raises NoPatch for one that cannot stand in a patch.
    """
    if not name.isprintable() or name.startswith('"') or os.pardir in name.split("/"):
        raise NoPatch("its path cannot be written into a patch")
    # What comes behind a tab is no name: with a space in it a name ends there.
    title = os.fsencode(name) + (b"\t" if " " in name else b"")
    rows = difflib.diff_bytes(difflib.unified_diff, _lines(before), _lines(after), title, title, lineterm=b"\n")
    return b"".join(row if row.endswith(b"\n") else row + b"\n" + _NO_NEWLINE for row in rows)


def _lines(raw: bytes) -> list[bytes]:
    """By line feeds alone: other ends of lines are what a line holds."""
    return [line + b"\n" for line in raw.split(b"\n")[:-1]] + ([raw.rsplit(b"\n", 1)[-1]] if not raw.endswith(b"\n") else [])


def _remedies(words: Words, arguments: Mapping[str, PlainValue], made: str) -> dict[Remedy, PlainValue]:
    """What rules call the changes of these arguments. Raises NoPatch where calls of a framework have none for one."""
    told = words if made == TRAINER else plain()
    found = {remedy: arguments[name] for remedy in _ARGUMENTS_OF.get(made, ()) if (name := _name(told, remedy)) in arguments}
    missing = arguments.keys() - {_name(told, remedy) for remedy in found if _name(words, remedy)}
    if missing:
        raise NoPatch(f"{words.title} has no argument for {min(missing)}")
    return {remedy: found[remedy] for name in arguments for remedy in found if _name(told, remedy) == name}


def _name(words: Words, remedy: Remedy) -> str:
    argument = words.find(remedy)
    return argument.name if isinstance(argument, Argument) else ""


def _shown(place: CallPlace, working_folder: Path) -> str:
    """A place as somebody in the folder would name it."""
    path, folder = Path(os.path.realpath(place.file)), Path(os.path.realpath(working_folder))
    return f"{path.relative_to(folder) if path.is_relative_to(folder) else place.file}:{place.line}"
