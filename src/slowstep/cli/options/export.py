"""The options of `slowstep analyze` that write for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from slowstep.cli.plugin_texts import exporter_terms
from slowstep.errors import BadUsage

_KNOWN: Final = exporter_terms()

Export = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="|".join(_KNOWN),
        help=f"Write it for other programs. {' '.join(f'{name}: {each.writes}.' for name, each in _KNOWN.items())}",
    ),
]
ExportTo = Annotated[
    Path | None,
    typer.Option(
        "--export-to",
        metavar="PATH",
        help=f"Where; without it {' or '.join(f'TRACE{each.suffix}' for each in _KNOWN.values())} in the current folder.",
    ),
]


def check_export(name: str | None, place: Path | None) -> None:
    """Raises BadUsage for an exporter that there is not, and for a place without one."""
    if name is None and place is not None:
        raise BadUsage(f"--export-to {place}: say what is to be written there, {' or '.join(f'--export {each}' for each in _KNOWN)}.")
    if name is not None and name not in _KNOWN:
        raise BadUsage(f"--export {name}: give {' or '.join(_KNOWN)}.")
