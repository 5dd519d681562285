"""The training benchmark: what its tiny version leaves out because it forks."""

import subprocess
import sys
from pathlib import Path

import pytest
from torch.multiprocessing.spawn import ProcessRaisedException

from benchmarks.measuring.harness import Comparison, Method, measure

FIT = """
from benchmarks.topics.training import TINY, forked
print(forked((*TINY, "trainer.accelerator=cpu"), {processes})())
"""


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_epoch_by_forks(processes: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIT.format(processes=processes)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "()"


def test_an_error_in_another_process_is_named() -> None:
    def fail() -> None:
        text = "\n\n-- Process 0 terminated with the following error:\nTraceback ...\nValueError: no words\n"
        raise ProcessRaisedException(text, 0, 1)

    (row,) = measure(Comparison("", [Method("forks", lambda: fail)]), 1, sample=0.0, calm=1.0)
    assert row.trouble == "ValueError: no words"
