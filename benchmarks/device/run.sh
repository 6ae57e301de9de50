#!/usr/bin/env bash
# What slowstep does on this machine's accelerator: benchmarks/device/run.sh [--out FOLDER] [PART ...]
# Needs Linux and Python >= 3.11 (PYTHON names one). What is installed there is used first; what is missing comes from pip's index, or with
# WHEELS=FOLDER from a folder of wheels, and goes beside the installed packages, not among them. Results are written after each part.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
python=${PYTHON:-python3}
own=${DEVICE_ENV:-$root/.device-env}
source=()
[ -n "${WHEELS:-}" ] && source=(--no-index --find-links "$WHEELS")

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$python is older than Python 3.11: name another by PYTHON." >&2; exit 2; }

if ! "$python" -c 'import torch' 2>/dev/null; then
    [ -x "$own/bin/python" ] || "$python" -m venv "$own"
    python=$own/bin/python
    "$python" -c 'import torch' 2>/dev/null || "$python" -m pip install --quiet "${source[@]}" torch numpy
fi
missing=$("$python" - <<'PYTHON'
from importlib.util import find_spec
packages = {"isal": "isal", "msgspec": "msgspec", "numpy": "numpy", "polars": "polars", "google.protobuf": "protobuf", "rich": "rich", "typer": "typer"}
def known(module):
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False
print(*(package for module, package in packages.items() if not known(module)))
PYTHON
)
export PYTHONPATH=$root/src:$root/benchmarks:$own/beside${PYTHONPATH:+:$PYTHONPATH}
if [ -n "$missing" ] && ! "$python" -c 'import isal, msgspec, numpy, polars, google.protobuf, rich, typer' 2>/dev/null; then
    # Split on purpose: one word a package.
    "$python" -m pip install --quiet "${source[@]}" --target "$own/beside" $missing
fi
exec "$python" "$here/run.py" "$@"
