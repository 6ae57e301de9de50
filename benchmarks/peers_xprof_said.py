"""What XProf says of an XPlane file, as JSON: for an environment in which it is installed.

python peers_xprof_said.py FILE
"""

from __future__ import annotations

import json
import sys
from typing import Any


def tables(path: str) -> list[dict[str, Any]]:
    """Those of XProf's overview page."""
    from xprof.convert import raw_to_tool_data

    data, _ = raw_to_tool_data.xspace_to_tool_data([path], "overview_page", {})
    return list(json.loads(data))


def main() -> None:
    found: dict[str, Any] = {}
    for table in tables(sys.argv[1]):
        found |= table.get("p") or {}
    json.dump({name: found.get(name) for name in ("input_conclusion", "statement", "bottleneck", "steptime_ms_average")}, sys.stdout)


if __name__ == "__main__":
    main()
