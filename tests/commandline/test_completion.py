"""Shells complete the choices of options, as Hydra's completion asks for them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("stage=t", "stage=test stage=theorem"),
        ("seed=2 stage=test monitor.mode=m", "monitor.mode=max monitor.mode=min"),
    ],
)
def test_choices_are_offered(line: str, offered: str) -> None:
    done = subprocess.run(
        [sys.executable, "train.py", "-sc", "query=bash"],
        env={**os.environ, "COMP_LINE": f"python train.py {line}"},
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == offered.split()
