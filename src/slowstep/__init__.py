"""slowstep: why is my training slow, and what would fixing it gain?"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from types import ModuleType as _Module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from slowstep import data
    from slowstep.record.steps.spans import span, steps
    from slowstep.workflow.sessions.session import record, start, stop

__all__ = ["__version__", "data", "record", "span", "start", "steps", "stop"]

__version__ = "0.1.0"

_HOMES: Final = {
    "record": "slowstep.record",
    "span": "slowstep.record.steps.spans",
    "steps": "slowstep.record.steps.spans",
    "data": "slowstep.data",
    "start": "slowstep.workflow.sessions.session",
    "stop": "slowstep.workflow.sessions.session",
    "load_ipython_extension": "slowstep.workflow.sessions.ipython",
    "unload_ipython_extension": "slowstep.workflow.sessions.ipython",
}


class _Record(_Module):
    """The package `slowstep.record`, which shares its name with what users call: `with slowstep.record():`."""

    def __call__(
        self,
        *,
        level: int = 1,
        steps: int | None = None,
        seconds: float | None = None,
        out: str | None = None,
        warmup: int | None = None,
        verbose: bool = False,
    ) -> Any:
        """Record what runs inside `with slowstep.record():`, and show the report at its end; options as for `slowstep.start()`."""
        # Nothing that runs inside a training imports that by itself.
        options = {"level": level, "steps": steps, "seconds": seconds, "out": out, "warmup": warmup, "verbose": verbose}
        return _import_module(_HOMES["start"]).record(**options)


class _Public(_Module):
    """This package: it is told of each of its sub-packages when that has been imported, by whomever."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "record" and type(value) is _Module:
            value.__class__ = _Record
        super().__setattr__(name, value)


_sys.modules[__name__].__class__ = _Public


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})


def __getattr__(name: str) -> Any:
    # Lazily: whoever imports slowstep inside a training pays for nothing that it does not use.
    home = _HOMES.get(name)
    if home is not None:
        module = _import_module(home)
        # `slowstep.record` is the package of that name, which can be called.
        found = module if name in ("record", "data") else getattr(module, name)
        # Who asks again, once a step perhaps, finds it without this function.
        globals()[name] = found
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
