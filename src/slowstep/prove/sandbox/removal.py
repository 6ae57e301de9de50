"""Removes a scratch, whatever the command made of it."""

from __future__ import annotations

import os
import shutil


def remove(folder: str) -> bool:
    """Remove a folder and all below it; whether it is gone.

    Folders that nobody may enter are opened first: overlays make such ones themselves, and links are never followed.
    """
    try:
        if not os.path.islink(folder):
            os.chmod(folder, 0o700)
        for above, names, _ in os.walk(folder):
            for name in names:
                path = os.path.join(above, name)
                if not os.path.islink(path):
                    os.chmod(path, 0o700)
    except OSError:
        pass
    shutil.rmtree(folder, ignore_errors=True)
    return not os.path.lexists(folder)
