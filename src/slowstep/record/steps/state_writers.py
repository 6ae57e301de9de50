"""Times functions that write any object, of Python and of libraries beside frameworks, where that is a training's state."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from slowstep.record.hook import Hook
from slowstep.record.patch import Undo, all_of, argument, find, replace
from slowstep.record.steps.saved_state import SavedState
from slowstep.record.steps.saves import timed_save

if TYPE_CHECKING:
    from slowstep.record.recorder import Recorder

# No parameter of theirs is a target.
_NOWHERE: Final = 1000
_Given = Callable[[tuple[Any, ...], dict[str, Any]], Any]


def _parameter(position: int, name: str) -> _Given:
    return lambda args, kwargs: argument(args, kwargs, position, name)


def _all_but_the_first(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return [*args[1:], *kwargs.values()]


def _replacing(recorder: Recorder, owner: Any, function: str, name: str, given: _Given, *, position: int, keyword: str) -> Any:
    state = recorder.shared(SavedState)

    def holds(args: tuple[Any, ...], kwargs: dict[str, Any], asked_at: tuple[CodeType, int]) -> bool:
        return state.is_written(given(args, kwargs), asked_at)

    return timed_save(recorder, find(owner, function), name, position=position, keyword=keyword, holds=holds)


def _under_all_names(owners: list[str], function: str, new: Any) -> list[Undo]:
    """By the same function under each of its names: it stays picklable."""
    return [replace(sys.modules[owner], function, new) for owner in owners if hasattr(sys.modules.get(owner), function)]


def install_pickle(recorder: Recorder) -> Undo:
    """Replace `dump` and `dumps`. Raises Unfit where there is none."""
    pickle, given = sys.modules["pickle"], _parameter(0, "obj")
    made = [
        (function, _replacing(recorder, pickle, function, f"pickle.{function}", given, position=position, keyword=keyword))
        for function, position, keyword in (("dump", 1, "file"), ("dumps", _NOWHERE, ""))
    ]
    return all_of([undo for function, new in made for undo in _under_all_names(["pickle", "_pickle"], function, new)])


def install_numpy(recorder: Recorder) -> Undo:
    """Replace what writes arrays. Raises Unfit where there is none."""
    numpy = sys.modules["numpy"]
    made = [
        (function, _replacing(recorder, numpy, function, f"numpy.{function}", given, position=0, keyword="file"))
        for function, given in (("save", _parameter(1, "arr")), ("savez", _all_but_the_first), ("savez_compressed", _all_but_the_first))
    ]
    return all_of([replace(numpy, function, new) for function, new in made])


def install_joblib(recorder: Recorder) -> Undo:
    """Replace `dump`. Raises Unfit where there is none."""
    new = _replacing(recorder, sys.modules["joblib"], "dump", "joblib.dump", _parameter(0, "value"), position=1, keyword="filename")
    return all_of(_under_all_names(["joblib", "joblib.numpy_pickle"], "dump", new))


def install_h5py(recorder: Recorder) -> Undo:
    """Replace what writes arrays into an open file. Raises Unfit where there is none."""
    h5py = sys.modules["h5py"]
    made = []
    for kind, method, given in (("Group", "create_dataset", _parameter(4, "data")), ("Dataset", "__setitem__", _parameter(2, "val"))):
        owner = find(h5py, kind)
        made.append((owner, method, _replacing(recorder, owner, method, f"h5py.{kind}.{method}", given, position=_NOWHERE, keyword="")))
    return all_of([replace(owner, method, new) for owner, method, new in made])


HOOKS = (
    Hook(name="pickle_dump", module="pickle", install=install_pickle),
    Hook(name="numpy_save", module="numpy", install=install_numpy),
    Hook(name="joblib_dump", module="joblib", install=install_joblib),
    Hook(name="h5py_write", module="h5py", install=install_h5py),
)
