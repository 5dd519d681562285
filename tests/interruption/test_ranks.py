"""Which of a run's processes this is: what torchrun, srun and Lightning say in the environment."""

import os
import subprocess
import sys
import time

import pytest
from killed_runs import lives
from launcher_variables import SLURM, TORCHRUN

from attention_lab.interruption import ranks
from attention_lab.interruption.ranks import FIRST_PROCESS


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """Removes a launcher's variables from the environment."""
    for name in (*TORCHRUN, *SLURM, "NODE_RANK", "SLURM_JOB_NAME"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_launcher")
@pytest.mark.parametrize(
    ("variables", "first"),
    [
        ({}, True),
        ({"LOCAL_RANK": "1"}, False),
        ({"NODE_RANK": "1", "LOCAL_RANK": "0"}, False),
        (TORCHRUN, False),
        ({**TORCHRUN, "RANK": "0"}, True),
        (SLURM, False),
        ({**SLURM, "SLURM_PROCID": "0"}, True),
        ({**SLURM, "SLURM_JOB_NAME": "interactive"}, True),
    ],
)
def test_exactly_one_process_of_a_run_is_rank_zero(
    variables: dict[str, str], first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert ranks.is_rank_zero() == first


def test_a_process_ends_when_its_parent_has_ended(monkeypatch) -> None:
    monkeypatch.setattr(ranks.sys, "platform", "other")  # without the help of the kernel
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(FIRST_PROCESS, str(os.getppid()))
    ranks.exit_with_parent()
    monkeypatch.setenv(FIRST_PROCESS, str(os.getpid()))
    with pytest.raises(SystemExit):
        ranks.exit_with_parent()
    monkeypatch.setenv("LOCAL_RANK", "0")
    ranks.exit_with_parent()


LAUNCHER = """
import multiprocessing, os, time
from attention_lab.interruption.ranks import exit_with_parent

def job():
    exit_with_parent()
    print(os.getpid(), flush=True)
    time.sleep(60)

process = multiprocessing.get_context("fork").Process(target=job)
process.start()
process.join()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends it")
def test_a_job_of_joblib_ends_when_its_launcher_is_killed() -> None:
    """It would wait for its next job for ever."""
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], stdout=subprocess.PIPE, text=True) as launcher:
        assert launcher.stdout is not None
        job = int(launcher.stdout.readline())
        launcher.kill()
    end = time.monotonic() + 5
    while lives(job) and time.monotonic() < end:
        time.sleep(0.02)
    assert not lives(job)
