"""What may be stored of a command and its environment: no secrets, no addresses with passwords."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

HIDDEN: Final = "***"

# Only these variables are ever stored: they change how fast a training runs, and none of them holds a secret.
KNOWN_VARIABLES: Final = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_LAUNCH_BLOCKING",
        "CUDA_VISIBLE_DEVICES",
        "GOMP_CPU_AFFINITY",
        "HIP_VISIBLE_DEVICES",
        "KMP_AFFINITY",
        "KMP_BLOCKTIME",
        "LOCAL_RANK",
        "LOCAL_WORLD_SIZE",
        "MALLOC_ARENA_MAX",
        "MKL_NUM_THREADS",
        "NCCL_ALGO",
        "NCCL_P2P_DISABLE",
        "NCCL_PROTO",
        "NUMEXPR_NUM_THREADS",
        "NVIDIA_TF32_OVERRIDE",
        "OMP_NUM_THREADS",
        "OMP_PLACES",
        "OMP_PROC_BIND",
        "OMP_SCHEDULE",
        "OMP_WAIT_POLICY",
        "OPENBLAS_NUM_THREADS",
        "PYTORCH_ALLOC_CONF",
        "PYTORCH_CUDA_ALLOC_CONF",
        "RANK",
        "SLURM_CPUS_ON_NODE",
        "SLURM_CPUS_PER_TASK",
        "SLURM_GPUS_ON_NODE",
        "SLURM_JOB_ID",
        "SLURM_LOCALID",
        "SLURM_NNODES",
        "SLURM_NODEID",
        "SLURM_NTASKS",
        "SLURM_NTASKS_PER_NODE",
        "SLURM_PROCID",
        "TOKENIZERS_PARALLELISM",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "TORCH_COMPILE_DISABLE",
        "TORCH_NUM_THREADS",
        "TORCHELASTIC_RESTART_COUNT",
        "WORLD_SIZE",
    }
)

# No pattern begins with an open run of word characters: an argument may have 100,000 of them.
_REST_OF_NAME = r"(?:key|token|secret|password|passwd|auth)[\w.\-]*"
_SECRET_OPTION = re.compile(rf"-[\w.\-]*{_REST_OF_NAME}\Z", re.IGNORECASE)
# The rest of the argument goes with the value: where a secret ends (quotes, spaces, a second word) is not to be guessed at.
_SECRET_VALUE = re.compile(rf"""({_REST_OF_NAME}["']?\s*[=:]\s*)(\S.*)""", re.IGNORECASE | re.DOTALL)
_SECRET_OPTION_INSIDE = re.compile(rf"((?:\s|\A)-[\w.\-]*{_REST_OF_NAME}\s+)(\S.*)", re.IGNORECASE | re.DOTALL)
_USER_INFO = re.compile(r"(://)(?:[^\s/?#]*@|[^\s/@]*:[^\s]*@)")
_QUERY = re.compile(r"(://[^\s?#]*[?#])[^\s]+")


def redact_command(argv: Iterable[str]) -> list[str]:
    """A command without its secrets: values of options named like one (key, token, secret, password, auth) and what URLs hide."""
    redacted: list[str] = []
    hide_next = False
    for argument in argv:
        hide = hide_next and not argument.startswith("--")
        redacted.append(HIDDEN if hide else redact_text(argument))
        hide_next = not hide and _SECRET_OPTION.match(argument) is not None
    return redacted


def redact_text(text: str) -> str:
    """One argument or line without secrets, user info and query of URLs."""
    text = _SECRET_VALUE.sub(rf"\g<1>{HIDDEN}", text)
    text = _SECRET_OPTION_INSIDE.sub(rf"\g<1>{HIDDEN}", text)
    text = _USER_INFO.sub(rf"\g<1>{HIDDEN}@", text)
    return _QUERY.sub(rf"\g<1>{HIDDEN}", text)


def known_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """The few environment variables that are stored at all, redacted."""
    return {name: redact_text(value) for name, value in sorted(environ.items()) if name in KNOWN_VARIABLES}
