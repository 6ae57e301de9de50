"""Whether a script has its batch size written into it: calls that make tensors of a given shape, with that number in them."""

from __future__ import annotations

import ast
import os
import sys
from collections import deque
from collections.abc import Iterator
from typing import Final

# Files and bytes of a script that are read at most.
_MOST_FILES: Final = 200
_MOST_BYTES: Final = 1 << 20
# Functions and methods whose arguments are a shape.
_SHAPED: Final = frozenset(
    {
        *("view", "reshape", "expand", "repeat", "resize_", "arange", "eye", "init_hidden"),
        *("zeros", "ones", "rand", "randn", "randint", "empty", "full", "new_zeros", "new_ones"),
    }
)
# Methods that make a class one of data, whose shapes are those of samples: a batch's size is in them by chance.
_OF_SAMPLES: Final = frozenset({"__getitem__", "__getitems__", "__iter__"})
_OF_MODELS: Final = "forward"
# Places of a shape in which batches are: the first, or the second where time comes first.
_PLACES: Final = 2


def find_baked(size: int) -> str | None:
    """Where a file of the script's makes a shape with this batch size in it, as `file:line`; None where none was found.

    The number itself counts, and names that hold it: constants of the file, and attributes whose name speaks of a batch; in the first two
    places of the shape. Classes of data are left out: in the shapes of samples it is the same number by chance.
    """
    for path in _own_files():
        line = _line_in(path, size)
        if line is not None:
            return f"{os.path.basename(path)}:{line}"
    return None


def _own_files() -> Iterator[str]:
    """The script's file, and the modules beside and below it."""
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not isinstance(main, str):
        return
    folder = os.path.dirname(os.path.abspath(main)) + os.sep
    found = {os.path.abspath(main)}
    for module in list(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and path.endswith(".py") and path.startswith(folder) and "-packages" not in path:
            found.add(path)
    yield from sorted(found)[:_MOST_FILES]


def _line_in(path: str, size: int) -> int | None:
    try:
        with open(path, "rb") as file:
            tree = ast.parse(file.read(_MOST_BYTES))
    except (OSError, SyntaxError, ValueError):
        return None
    names = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is(node.value, size)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for call in _calls(tree):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in _SHAPED and any(_holds(part, size, names) for part in _of_batches(call)):
            return call.lineno
    return None


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    """All calls of a file, outermost first, but for those in classes of data."""
    left: deque[ast.AST] = deque([tree])
    while left:
        node = left.popleft()
        if isinstance(node, ast.Call):
            yield node
        left += [child for child in ast.iter_child_nodes(node) if not _is_of_data(child)]


def _is_of_data(node: ast.AST) -> bool:
    """Whether it is a data set's class: it makes samples itself, or its base does, and it is no model that can be indexed."""
    if not isinstance(node, ast.ClassDef):
        return False
    methods = {part.name for part in node.body if isinstance(part, ast.FunctionDef)}
    bases = (base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in node.bases)
    return _OF_MODELS not in methods and (bool(methods & _OF_SAMPLES) or any(base.endswith("Dataset") for base in bases))


def _of_batches(call: ast.Call) -> Iterator[ast.AST]:
    """What a call has in the places of its shape in which batches are. A shape is the arguments themselves, or the first of them that is a
    tuple or a list (`randint(0, 10, (16,))`), beside which the others are values. A literal that multiplies is a batch's in the first place
    (time and batch in one); in the second it is a number of features (`view(-1, 16 * 5 * 5)`).
    """
    shape = next((part.elts for part in call.args if isinstance(part, ast.Tuple | ast.List)), call.args)
    for number, place in enumerate(shape[:_PLACES]):
        inside = ast.walk(place)
        yield from (part for part in inside if number == 0 or part is place or not isinstance(part, ast.Constant))


def _is(node: ast.expr, size: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == size


def _holds(node: ast.AST, size: int, names: set[str]) -> bool:
    if isinstance(node, ast.Attribute):
        return "batch_size" in node.attr.lower()
    if isinstance(node, ast.Name):
        return node.id in names
    return isinstance(node, ast.expr) and _is(node, size)
