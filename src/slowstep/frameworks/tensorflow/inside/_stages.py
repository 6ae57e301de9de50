"""What stages a tf.data pipeline has, and which functions in Python they call: read of its data set, which is not asked anything."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import FunctionType, GeneratorType
from typing import Any, Final

from slowstep.record.attributes import called_in, code_of, held_by, innermost, qualified_name

_MOST_STAGES: Final = 64
_MOST_OPERATIONS: Final = 4000
_MOST_FUNCTIONS: Final = 100
_INPUTS: Final = (
    "_input_dataset",
    "_dataset",
    "_datasets",
    "_dataset_to_concatenate",
    "_input_datasets",
    "_selector_input",
    "_data_inputs",
)
_FUNCTIONS: Final = ("_map_func", "_predicate", "_scan_func", "_key_func", "_reduce_func", "_window_size_func")
# What says how the data set behind it is read, and changes nothing.
NO_STAGE: Final = "Options"
_FROM_GENERATOR: Final = "_from_generator.<locals>.flat_map_fn"
_PYTHON: Final = ("PyFunc", "PyFuncStateless", "EagerPyFunc")
# What `tf.map_fn` makes, by the scope that it opens.
_LOOPS: Final = ("While", "StatelessWhile")
_MAP_FN: Final = re.compile(r"(^|/)map(_\d+)?/while(_\d+)?$")
# Of what libraries make generators of: the object of the user's behind them, and what that is called.
_HELD: Final = {"py_dataset": "PyDataset", "_dataloader": "DataLoader", "dataset": None, "generator": "generator", "_generator": None}
# Keras' own pipeline of arrays.
_ADAPTERS: Final = "/keras/src/trainers/data_adapters/"
ARRAYS: Final = "arrays"
_ENTRIES: Final = ("__getitem__", "__next__", "__iter__", "__call__")
# Files of functions that TensorFlow has written anew, which are gone when the training is over.
_REWRITTEN: Final = "__autograph_generated_file"
_SCRIPTS: Final = "tensorflow.python.ops.script_ops"

WrittenPlace = list[Any]  # name, file, first line


def stages_of(dataset: Any) -> list[dict[str, Any]]:
    """The stages from the last one to the sources, as notes have them: `into` is the number of the one that reads it.

    Raises what TensorFlow does.
    """
    found: list[dict[str, Any]] = []
    waiting = [(dataset, -1)]
    while waiting and len(found) < _MOST_STAGES:
        each, into = waiting.pop(0)
        kind = kind_of(each)
        if kind != NO_STAGE:
            found.append({"kind": kind, "into": into, **functions_of(each)})
            into = len(found) - 1
        waiting = [(one, into) for one in inputs_of(each)] + waiting
    return found


def kind_of(dataset: Any) -> str:
    """What a stage does, by the name of its class: `ParallelMap`, `TFRecord`."""
    return type(dataset).__name__.strip("_").removesuffix("V2").removesuffix("V1").removesuffix("Dataset")


def inputs_of(dataset: Any) -> list[Any]:
    """The data sets that a stage reads."""
    kind = sys.modules["tensorflow"].data.Dataset
    return [each for name in _INPUTS for each in _flat(held_by(dataset, name)) if isinstance(each, kind)]


def _flat(value: Any) -> Iterator[Any]:
    if type(value) in (tuple, list, dict):
        for each in value.values() if type(value) is dict else value:
            yield from _flat(each)
    else:
        yield value


def functions_of(dataset: Any) -> dict[str, Any]:
    """The function that a stage was given, and those in Python that it calls for each element."""
    wrapper = next((held for name in _FUNCTIONS if (held := held_by(dataset, name)) is not None), None)
    function = held_by(wrapper, "_func")
    if function is None:
        return {}
    if held_by(function, "__qualname__") == _FROM_GENERATOR:
        generator = _generator_of(function)
        place, reads = _users_place(generator)
        return {"generator": True, "function": place, "python": [] if place is None else [place], "reads": reads}
    graph = getattr(held_by(wrapper, "_function"), "graph", None)
    called = _called_in_python(graph)
    given = _place_of(function)
    of: dict[str, Any] = {"reads": ARRAYS} if given is not None and _ADAPTERS in given[1].replace("\\", "/") else {}
    if _has_map_fn(graph):
        of["loops"] = True
    return {**of, "function": given, "python": [place for each in called if (place := _place_in(each, given)) is not None]}


def _generator_of(function: Any) -> Any:
    """What `from_generator` was given, of the function that it makes of it."""
    for cell in _cells(function):
        state = next((each for each in _cells(cell) if held_by(each, "_generator") is not None), None)
        if state is not None:
            return held_by(state, "_generator")
    return None


def _cells(function: Any) -> list[Any]:
    """What a function keeps of those around it."""
    closure = function.__closure__ if type(function) is FunctionType else None
    found = []
    for cell in closure or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:  # not filled yet
            continue
    return found


def _users_place(generator: Any) -> tuple[WrittenPlace | None, str | None]:
    """Where what makes the elements is written: the user's own behind what a library made of it, where one is; and whose loader it is."""
    first = _place_of(generator)
    waiting, reads, looked_at = [generator], None, 0
    while waiting and looked_at < _MOST_STAGES:
        thing, looked_at = waiting.pop(0), looked_at + 1
        place = _place_of(thing) or _entry_of(thing)
        if place is not None and "-packages" not in place[1]:
            return place, reads
        owner = getattr(thing, "__self__", None) if type(thing).__name__ == "method" else thing
        held = {name: each for name in _HELD if (each := held_by(owner, name)) is not None}
        reads = reads or next((_HELD[name] for name in held if _HELD[name] is not None), None)
        waiting += [*held.values(), *_cells(called_in(thing))]
    return first, reads


def _entry_of(thing: Any) -> WrittenPlace | None:
    """The method by which an object of the user's class gives elements, or the generator's own function."""
    if type(thing) is GeneratorType:
        code = thing.gi_code
        return [thing.__qualname__, code.co_filename, code.co_firstlineno]
    if type(thing).__module__ == "builtins":
        return None
    return next((place for name in _ENTRIES if (place := _place_of(held_by(thing, name))) is not None), None)


def _place_of(function: Any) -> WrittenPlace | None:
    called = innermost(function)
    code = code_of(called)
    return None if code is None else [qualified_name(called), code.co_filename, code.co_firstlineno]


def _place_in(function: Any, given: WrittenPlace | None) -> WrittenPlace | None:
    """Where a function is written; of one that is made in another one, which TensorFlow has rewritten, where that begins."""
    place = _place_of(function)
    return given if place is not None and _REWRITTEN in place[1] else place


def _called_in_python(graph: Any) -> list[Any]:
    """The functions that `py_function` and `numpy_function` call in a graph, or in those that its operations call."""
    called = (each for each in _operations_of(graph) if each.type in _PYTHON)
    return [_registered(each.get_attr("token").decode()) for each in called]


def _has_map_fn(graph: Any) -> bool:
    """Whether a graph, or one of those that its operations call, goes over an array by `tf.map_fn`."""
    return any(each.type in _LOOPS and _MAP_FN.search(each.name) for each in _operations_of(graph))


def _operations_of(graph: Any) -> Iterator[Any]:
    """Those of a graph, and of the graphs that they call: of data sets that are made in it, functions, branches and loops."""
    waiting, met = [graph], set[str]()
    while waiting and len(met) < _MOST_FUNCTIONS:
        each = waiting.pop(0)
        for operation in [] if each is None else each.get_operations()[:_MOST_OPERATIONS]:
            yield operation
            names = dict.fromkeys(name for name in _functions_called(operation) if name not in met)
            met.update(names)
            waiting += [getattr(each._get_function(name), "graph", None) for name in names]


def _functions_called(operation: Any) -> Iterator[str]:
    """The names of those that an operation is given, whatever it calls them: `f`, `then_branch`, `body`, `branches`."""
    for value in operation.node_def.attr.values():
        for function in [value.func] if value.HasField("func") else value.list.func:
            yield function.name


def _registered(token: str) -> Any:
    known = sys.modules[_SCRIPTS]._py_funcs._funcs.get(token)
    return held_by(known, "_func") or known
