"""Builds small exports of Nsight Systems, for tests: tables with the columns that are given, and nothing else."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PROCESS = 1 << 48 | 77 << 24  # the serialized id of process 77
OTHER = 1 << 48 | 78 << 24
THREAD = PROCESS | 701


def made_export(path: Path, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Path:
    """Write an SQLite file: a table per name, its columns those of the first row."""
    with sqlite3.connect(path) as database:
        for name, rows in tables.items():
            columns = list(rows[0])
            database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", [[row.get(column) for column in columns] for row in rows])
    database.close()
    return path


def strings(*texts: str) -> list[dict[str, Any]]:
    """The table of strings, numbered from 1."""
    return [{"id": number, "value": text} for number, text in enumerate(texts, 1)]


def kernel(start: int, end: int, **more: Any) -> dict[str, Any]:
    shape = {"gridX": 2, "gridY": 3, "gridZ": 1, "blockX": 128, "blockY": 1, "blockZ": 1, "registersPerThread": 40}
    place = {
        "deviceId": 0,
        "contextId": 1,
        "streamId": 7,
        "correlationId": 5,
        "globalPid": PROCESS,
        "demangledName": 1,
        "graphNodeId": None,
    }
    return {"start": start, "end": end} | place | shape | more


def copy(start: int, end: int, **more: Any) -> dict[str, Any]:
    place = {"deviceId": 0, "contextId": 1, "streamId": 7, "correlationId": 6, "globalPid": PROCESS}
    return {"start": start, "end": end} | place | {"bytes": 4096, "copyKind": 1, "srcKind": 0, "dstKind": 2} | more


def call(start: int, end: int, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "globalTid": THREAD, "correlationId": 5, "nameId": 2, "eventClass": 0} | more


def named(start: int, end: int | None, text: str | None, **more: Any) -> dict[str, Any]:
    return {"start": start, "end": end, "eventType": 59, "text": text, "textId": None, "globalTid": THREAD} | more


NAMES = strings("gemm", "cudaLaunchKernel_v7000", "cuLaunchKernel", "main thread", "optimizer")
