"""The small text files in which the kernel says what it knows, below /proc and /sys."""

from __future__ import annotations


def read_text(path: str) -> str | None:
    """All of a file; None where it is absent or may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None
