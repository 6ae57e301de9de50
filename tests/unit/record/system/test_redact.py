from __future__ import annotations

import pytest

from slowstep.record.system.redact import known_variables, redact_command, redact_text


@pytest.mark.parametrize(
    ("argv", "stored"),
    [
        ([], []),
        (["train.py", "--lr", "0.1"], ["train.py", "--lr", "0.1"]),
        (["--api-key", "abc", "--lr", "1"], ["--api-key", "***", "--lr", "1"]),
        (["--api-key=abc"], ["--api-key=***"]),
        (["-hfToken", "-abc"], ["-hfToken", "***"]),
        (["--AUTH", "--lr", "1"], ["--AUTH", "--lr", "1"]),
        (["wandb.api_key=abc"], ["wandb.api_key=***"]),
        (["--config", '{"password": "a b"}'], ["--config", '{"password": ***']),
        (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: ***"]),
        (["bash", "-c", "python t.py --passwd abc"], ["bash", "-c", "python t.py --passwd ***"]),
        (["train_tokenizer.py"], ["train_tokenizer.py"]),
        (["--token"], ["--token"]),
    ],
)
def test_values_of_secret_names_are_hidden(argv: list[str], stored: list[str]) -> None:
    assert redact_command(argv) == stored


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("s3://bucket/path", "s3://bucket/path"),
        ("http://host:8080/a", "http://host:8080/a"),
        ("https://user:pass@host/a", "https://***@host/a"),
        ("postgres://u:pa/ss@host/db", "postgres://***@host/db"),
        ("https://host/a?sig=1&x=2", "https://host/a?***"),
        ("--store=https://u@host/a#frag", "--store=https://***@host/a#***"),
    ],
)
def test_urls_lose_user_info_and_query(url: str, stored: str) -> None:
    assert redact_text(url) == stored


@pytest.mark.timeout(30)
def test_a_huge_argument_does_not_hang_the_start() -> None:
    argument = "x" * 120_000

    assert redact_command([argument]) == [argument]


def test_only_known_variables_are_stored() -> None:
    environ = {"OMP_NUM_THREADS": "4", "RANK": "0", "PYTHONPATH": "/home/me", "HF_TOKEN": "abc", "SLURM_JWT": "abc", "HOME": "/home/me"}

    assert known_variables(environ) == {"OMP_NUM_THREADS": "4", "RANK": "0"}
