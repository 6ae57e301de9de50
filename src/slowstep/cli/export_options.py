"""The options of `slowstep analyze` that write for other programs, and which exporter they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slowstep.errors import BadUsage
from slowstep.exporters._exporter import Exporter
from slowstep.workflow.export import exporters

Export = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="|".join(exporters()),
        help=f"Write it for other programs. {' '.join(f'{name}: {each.writes}.' for name, each in exporters().items())}",
    ),
]
ExportTo = Annotated[
    Path | None,
    typer.Option(
        "--export-to",
        metavar="PATH",
        help=f"Where; without it {' or '.join(f'TRACE{each.suffix}' for each in exporters().values())} in the current folder.",
    ),
]


def chosen_exporter(name: str | None, place: Path | None) -> Exporter | None:
    """The exporter of that name; None where nothing is to be exported. Raises BadUsage for an unknown one, and for a place alone."""
    if name is None and place is None:
        return None
    known = exporters()
    if name is None:
        raise BadUsage(f"--export-to {place}: say what is to be written there, {' or '.join(f'--export {each}' for each in known)}.")
    if name not in known:
        raise BadUsage(f"--export {name}: give {' or '.join(known)}.")
    return known[name]
