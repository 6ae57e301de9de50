"""The small text files in which the kernel says what it knows, below /proc and /sys."""

from __future__ import annotations


def read_text(path: str) -> str | None:
    """All of a file; None where it is absent or may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def read_size(path: str, name: str) -> int | None:
    """The bytes that the file's line of this name ("VmRSS:") gives in kB; None where either is absent."""
    line = next((line for line in (read_text(path) or "").splitlines() if line.startswith(name)), "")
    words = line.split()
    return int(words[1]) * 1024 if len(words) > 1 and words[1].isdigit() else None
