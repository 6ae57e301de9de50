"""docs/report.md: the fields of report.json, from its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

BEGINNING = """# report.json

Generated from the schema in the package by `python tools/pages.py`; a test holds it against it. Every report is valid against that schema:

    python -c "import importlib.resources as r; print((r.files('slowstep.document') / 'report.schema.json').read_text())"

`slowstep run`, `analyze`, `prove` and `bench` write the document with `--json FILE` (`-` for standard output); `run`, `prove` and `bench`
leave one in the recording's folder, too. `compare` and `runs` write documents of their own with it. Within `slowstep/report/1` fields are
added, never taken away or given another meaning. **null is unknown, never zero.**
"""
HEAD = "\n| field | type | meaning |\n| --- | --- | --- |\n"


def page() -> str:
    """The text of the page: a section for each key of the document."""
    schema = json.loads((files("slowstep.document") / "report.schema.json").read_text(encoding="utf-8"))
    sections = (_section(key, what, schema["$defs"]) for key, what in schema["properties"].items())
    return BEGINNING + "".join(sections)


def _section(key: str, what: dict[str, Any], defs: dict[str, Any]) -> str:
    about = what.get("description") or (f"Always `{what['const']}`." if "const" in what else "")
    rows = "".join(f"| `{name}` | {_type(field, defs)} | {_meaning(field)} |\n" for name, field in _fields(what, defs))
    return f"\n## `{key}`\n\n{about}\n{HEAD if rows else ''}{rows}"


def _fields(what: dict[str, Any], defs: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field below, with its path: `[]` for each of a list."""
    what = _resolved(what, defs)
    items = what.get("items") or what.get("prefixItems", [None])[0]
    if items:
        yield from _fields(items, defs, f"{prefix}[]")
    for name, field in what.get("properties", {}).items():
        path = f"{prefix}.{name}" if prefix else name
        yield path, field
        yield from _fields(field, defs, path)


def _resolved(what: dict[str, Any], defs: dict[str, Any]) -> dict[str, Any]:
    """What a reference, the only alternative to null, or the general one of several conditions stands for."""
    alternatives = [each for each in what.get("oneOf", ()) if each.get("type") != "null"]
    if len(alternatives) == 1:
        return _resolved(alternatives[0], defs)
    if "allOf" in what:
        return _resolved(what["allOf"][0], defs)
    return _resolved(defs[what["$ref"].rsplit("/", 1)[-1]], defs) if "$ref" in what else what


def _type(field: dict[str, Any], defs: dict[str, Any]) -> str:
    if "enum" in field:
        return ", ".join("null" if value is None else f"`{value}`" for value in field["enum"])
    nullable = any(each.get("type") == "null" for each in field.get("oneOf", ()))
    kinds = _resolved(field, defs).get("type", "any")
    named = [kinds] if isinstance(kinds, str) else list(kinds)
    return ", ".join(named + ["null"] * nullable)


def _meaning(field: dict[str, Any]) -> str:
    return field.get("description", "").replace("|", "\\|")
