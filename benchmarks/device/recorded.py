"""What a recording of slowstep's holds, for the parts that look into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from slowstep.sources.recording import SOURCE


def last_recording(folder: Path) -> Path:
    """The newest recording in a folder of recordings."""
    return max((path for path in folder.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)


def device_readings(recording: Path) -> dict[str, Any]:
    """What the management library's monitor read of the device: how many readings, and the columns that hold anything."""
    timeline = SOURCE.read(recording)
    rows = timeline.table("device_readings")
    known = {name: rows[name].drop_nulls().len() for name in rows.columns}
    return {"devices": timeline.table("devices").to_dicts(), "readings": rows.height, "known": {k: n for k, n in known.items() if n}}


def told_of_device(recording: Path) -> dict[str, int]:
    """At how many stacks of the training the device was idle, was busy, or was not asked."""
    told = SOURCE.read(recording).table("stacks")["device_idle"]
    return {
        "idle": int(told.fill_null(value=False).sum()),
        "busy": int((~told).fill_null(value=False).sum()),
        "not asked": told.null_count(),
    }
