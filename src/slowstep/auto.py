"""`import slowstep.auto` as a script's first line: recording for a process that `slowstep run` could not reach by itself."""

from __future__ import annotations

from slowstep.record.injection.activate import activate
from slowstep.record.injection.ancestry import find_recording

find_recording()
activate()
