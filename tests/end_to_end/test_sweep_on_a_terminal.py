"""A sweep as a person sees it: in a process of its own, on a terminal."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from attention_lab.callbacks.progress import JobProgress
from attention_lab.experiment.stages import fit

REPOSITORY = Path(__file__).parents[2]


def printed(folder: Path, *arguments: str) -> str:
    """What the program prints on a terminal of 100 columns."""
    ours, its = pty.openpty()
    command = [sys.executable, str(REPOSITORY / "train.py"), *arguments]
    environment = {**os.environ, "COLUMNS": "100", "LINES": "24", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=its, stderr=its) as process:
        os.close(its)
        text = b""
        with suppress(OSError):  # on Linux, its end is an error
            while part := os.read(ours, 4096):
                text += part
    os.close(ours)
    assert process.returncode == 0, text.decode()
    return text.decode()


@pytest.mark.long
def test_the_line_of_a_job_shows_its_progress_and_then_its_result(tmp_path: Path) -> None:
    lines = printed(tmp_path, "-m", "model=nw", "seed=1", "trainer.max_epochs=2", "pictures=0").split("\r\n")
    settings = "1/1  seed=1  "
    first, *progress, result = lines[1].split("\r")
    assert first == settings
    assert all(drawn.startswith(settings) and drawn.endswith("\x1b[K") for drawn in progress)
    assert "epoch 1/2  100%" in progress[0] and "testing" in progress[-1]
    assert result.startswith(f"{settings}mse 0.") and "epoch" not in result


@pytest.mark.parametrize(
    ("trainer", "callbacks", "number"),
    [({}, {"progress_bar": {}}, 1), ({}, {}, 0), ({"enable_progress_bar": False}, {"progress_bar": {}}, 0)],
    ids=["on", "without the callback", "off"],
)
def test_progress_can_be_switched_off(
    monkeypatch: pytest.MonkeyPatch, trainer: dict[str, Any], callbacks: dict[str, Any], number: int
) -> None:
    monkeypatch.setattr(fit, "in_sweep", lambda: True)
    shown = fit._messages({"trainer": trainer, "callbacks": callbacks}, Path("folder"))
    assert [type(one) for one in shown] == [JobProgress] * number
