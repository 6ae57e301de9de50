"""No sandbox: the script runs where it is, because the user allowed it."""

from __future__ import annotations

import os

from slowstep.experiments._sandbox.opened import Opened, fresh
from slowstep.experiments._sandbox.overlaid import SCRATCH
from slowstep.experiments._sandbox.spec import Spec
from slowstep.record.writing.format import ENV_UNPROTECTED


def open_unprotected(folder: str, cwd: str) -> Opened:
    """Only what slowstep itself needs is thrown away. Raises Impossible where not even that can be made."""
    scratch = os.path.join(folder, SCRATCH)
    fresh(scratch)
    return Opened(
        kind="none",
        claims=f"files in {cwd} and elsewhere may have been changed, as --allow-writes allows",
        spec=Spec(kind="none", folder=folder, scratch=scratch, mine=scratch, cwd=cwd),
        places=(scratch,),
        variables={ENV_UNPROTECTED: "1"},
    )
