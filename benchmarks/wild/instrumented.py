"""Pure: a training script with a tool's own lines for a step put where its first page asks a person to put them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

Block = ast.For | ast.While | ast.FunctionDef

# What the lines need at run time: steps that nothing numbers are counted, and the model of a block is the first of the names in it that
# is a module with parameters.
HELPERS = """
import itertools as _itertools
import torch as _torch

_count = _itertools.count()

def _model(*names):
    for name in names:
        try:
            found = name()
        except (NameError, AttributeError):
            continue
        if isinstance(found, _torch.nn.Module) and next(found.parameters(), None) is not None:
            return found
    return _torch.nn.Linear(1, 1)
"""


@dataclass(frozen=True, kw_only=True)
class Lines:
    """What a tool wants in a script.

    `start` stands before all else, and defines `_loop`, through which goes what a loop of steps goes over. `step` is the call of the
    context around a step, with `{model}`, `{step}` and `{batch}` for what the script has of these.
    """

    start: str
    step: str


# TraceML's README, "Plain PyTorch example". It sees by itself what loaders do; where there is none it asks for the signal that is missing,
# and says nothing else.
TRACEML = Lines(
    start="""
import traceml_ai as _tool

_tool.init(mode="auto")

def _loop(given):
    return _tool.wrap_dataloader_fetch(given) if isinstance(given, range) else given
""",
    step="_tool.trace_step({model})",
)
# What `frx init` prints, and the wrapper of loaders that fournex asks for where it says that it saw no timing.
FOURNEX = Lines(
    start="""
import fournex as _tool

_tool.init(job_name="wild")

def _loop(given):
    return _tool.instrument_dataloader(given) if isinstance(given, _torch.utils.data.DataLoader) else given
""",
    step="_tool.step_context(step={step}, batch={batch}, model={model})",
)


class NoStep(Exception):
    """The script has no loop or function of its own that calls a backward and an optimizer."""


def instrumented(source: str, lines: Lines) -> str:
    """The script with these lines around what makes a step. Raises `NoStep`."""
    tree = ast.parse(source)
    block = step_of(tree)
    model, batch, step = model_in(block), "None", "next(_count)"
    if isinstance(block, ast.For):
        batch, step = batch_of(block), "_step"
        count_steps(block)
    if isinstance(block, ast.FunctionDef):
        for loop in loops_that_call(block.name, tree):
            wrap(loop)
    call = lines.step.format(model=model, step=step, batch=batch)
    block.body = [ast.With(items=[ast.withitem(context_expr=expression(call))], body=block.body)]
    at = first_line_after_docstring(tree)
    tree.body[at:at] = ast.parse(HELPERS + lines.start).body
    return ast.unparse(ast.fix_missing_locations(tree))


def step_of(tree: ast.Module) -> Block:
    """The innermost loop with a backward and an optimizer's step in it, else such a function. Raises `NoStep`."""
    blocks = [node for node in ast.walk(tree) if isinstance(node, Block) and makes_a_step(node)]
    # Walked breadth first: the last one is the innermost.
    loops = [block for block in blocks if isinstance(block, ast.For | ast.While)]
    if not blocks:
        raise NoStep("no loop or function of the script's own calls a backward and an optimizer")
    return loops[-1] if loops else blocks[-1]


def makes_a_step(block: Block) -> bool:
    return {"backward", "step"} <= names_called(block)


def names_called(block: ast.AST) -> set[str]:
    """What it calls, functions and methods alike, by the last part of their names."""
    return {ast.unparse(node.func).rpartition(".")[2] for node in ast.walk(block) if isinstance(node, ast.Call)}


def loops_that_call(function: str, tree: ast.Module) -> list[ast.For]:
    """The innermost loops that make a step by calling a function."""
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For) and function in names_called(node)]
    return [loop for loop in loops if not any(inner in loops for inner in ast.walk(loop) if inner is not loop)]


def batch_of(loop: ast.For) -> str:
    """What the loop takes from its loader, without the number that `enumerate` gives it."""
    target = loop.target
    return ast.unparse(target.elts[1] if is_enumerated(loop) and isinstance(target, ast.Tuple) else target)


def is_enumerated(loop: ast.For) -> bool:
    return isinstance(loop.iter, ast.Call) and isinstance(loop.iter.func, ast.Name) and loop.iter.func.id == "enumerate"


def count_steps(loop: ast.For) -> None:
    """`for batch in loader` becomes `for step, batch in enumerate(_loop(loader))`."""
    wrap(loop)
    loop.iter = called("enumerate", loop.iter)
    loop.target = ast.Tuple(elts=[ast.Name(id="_step", ctx=ast.Store()), loop.target], ctx=ast.Store())


def wrap(loop: ast.For) -> None:
    """What it goes over goes through `_loop`."""
    if is_enumerated(loop) and isinstance(loop.iter, ast.Call):
        loop.iter.args[0] = called("_loop", loop.iter.args[0])
    else:
        loop.iter = called("_loop", loop.iter)


def called(function: str, given: ast.expr) -> ast.expr:
    return ast.Call(func=expression(function), args=[given], keywords=[])


def model_in(block: Block) -> str:
    """A call that finds the model among the names of a block when it runs."""
    return f"_model({', '.join(f'lambda: {name}' for name in dict.fromkeys(names_in(block)))})"


def names_in(block: Block) -> Iterator[str]:
    """All that is read in it and may be a model, `net` or `self.model`: first what is called, since an averaged copy is only updated."""
    nodes = list(ast.walk(block))
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    for node in (*called, *nodes):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and is_plain(node):
            yield ast.unparse(node)


def is_plain(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node.value, ast.Name) and node.value.id == "self")


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def first_line_after_docstring(tree: ast.Module) -> int:
    """Where lines may be put: imports from the future and a docstring stay first."""
    at = 1 if ast.get_docstring(tree) is not None else 0
    while at < len(tree.body) and isinstance(future := tree.body[at], ast.ImportFrom) and future.module == "__future__":
        at += 1
    return at
