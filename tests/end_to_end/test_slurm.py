"""Runs and sweeps on a SLURM cluster, as in docs/guides/clusters.md; needs SLURM, and takes minutes."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from folders import measured_in
from slurm_cluster import is_installed, slurm_cluster

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not is_installed(), reason="needs SLURM")]

TRAIN = [sys.executable, str(Path(__file__).parents[2] / "train.py")]
OPTIONS = [
    *("model=seq2seq", "data=reverse", "data.train_size=256", "data.validation_size=32", "data.test_size=32"),
    *(
        "model.embedding_size=8",
        "model.hidden_size=8",
        "trainer.accelerator=cpu",
        "pictures=0",
        "logger=none",
    ),
]
SHORT = [*OPTIONS, "trainer.max_epochs=2"]
LONG = [*OPTIONS, "trainer.max_epochs=100"]
TWO_NODES = ["trainer=ddp", "trainer.num_nodes=2", "trainer.devices=1"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as variables:
        # The nodes' names are known to SLURM alone.
        yield variables | {"OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1"}


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path) -> Callable[..., str]:
    """Runs a command in the test's folder and gives its output; it must end with status 0."""

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


def _script(folder: Path, *options: str, srun: str = "srun") -> str:
    """A batch script that trains with these options."""
    file = folder / "job.sh"
    file.write_text(f"#!/bin/bash\n{srun} {' '.join([*TRAIN, *options])}\n")
    return str(file)


def _wait_until(is_true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 300
    while not is_true():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.2)


def test_jobs_of_a_sweep_give_what_local_ones_give(run: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = [*TRAIN, "-m", *SHORT, "scoring=dot,general", "seed=1,2"]
    run(*sweep, "hydra.sweep.dir=here")
    run(*sweep, "launcher=slurm", "hydra.launcher.mem_gb=null", "hydra.sweep.dir=there")
    assert len(measured_in(tmp_path / "here")) == 4
    assert measured_in(tmp_path / "there") == measured_in(tmp_path / "here")
    assert (tmp_path / "there" / "leaderboard.md").is_file()


def test_jobs_that_start_in_the_same_second_have_a_folder_each(
    run: Callable[..., str], tmp_path: Path
) -> None:
    script = _script(tmp_path, *SHORT, "seed=$SLURM_ARRAY_TASK_ID")
    run("sbatch", "--wait", "--array=1-4", script)
    assert len(measured_in(tmp_path / "logs")) == 4


def test_a_run_on_two_nodes_continues_when_its_job_is_queued_again(
    run: Callable[..., str], tmp_path: Path
) -> None:
    run(*TRAIN, *LONG, "trainer=ddp", "trainer.devices=2", "hydra.run.dir=here")
    script = _script(tmp_path, *LONG, *TWO_NODES, "hydra.run.dir=there", "resume=auto")
    options = ["--nodes=2", "--ntasks-per-node=1", "--output=job.out", "--open-mode=append"]
    job = run("sbatch", "--parsable", *options, script).strip()
    out = tmp_path / "job.out"
    _wait_until(lambda: out.exists() and "10/100" in out.read_text(), "ten epochs are over")
    run("scancel", "--signal=USR1", job)  # as `--signal=USR1@90` lets SLURM do at the time limit
    _wait_until(lambda: run("squeue", "--noheader", "--format=%T").strip() == "PENDING", "it is queued again")
    run("scontrol", "update", f"jobid={job}", "starttime=now")
    _wait_until(lambda: run("squeue", "--noheader") == "", "the job is over")
    said = out.read_text()
    assert said.count("Stopped by SIGUSR1; SLURM is asked to queue this job again") == 1
    assert "Resuming at epoch " in said
    assert measured_in(tmp_path / "there") == measured_in(tmp_path / "here")


def test_jobs_of_a_sweep_that_slurm_interrupts_continue(
    run: Callable[..., str], environment: dict[str, str], tmp_path: Path
) -> None:
    """At the limit, and before a job with a higher priority takes its place, it receives SIGUSR2."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = [*TRAIN, "-m", *OPTIONS, "trainer.max_epochs=200", "seed=1,2"]
    run(*sweep, "hydra.sweep.dir=here")
    queued = [*sweep, "launcher=slurm", "hydra.launcher.mem_gb=null", "hydra.sweep.dir=there", "resume=auto"]
    with subprocess.Popen(
        queued, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as started:
        folder = tmp_path / "there"
        _wait_until(lambda: len(list(folder.glob("*/checkpoints/best.ckpt"))) == 2, "both jobs train")
        (job,) = {line.split("_")[0] for line in run("squeue", "--noheader", "--format=%i").split()}
        run("scancel", "--signal=USR2", job)
        states = ["squeue", "--noheader", "--array", "--format=%T"]
        _wait_until(lambda: run(*states).split() == ["PENDING"] * 2, "both are queued again")
        for number in (0, 1):
            run("scontrol", "update", f"jobid={job}_{number}", "starttime=now")
        _, err = started.communicate(timeout=900)
    assert started.returncode == 0, err
    assert measured_in(folder) == measured_in(tmp_path / "here")


def test_a_sweep_goes_on_without_jobs_that_are_cancelled(
    run: Callable[..., str], environment: dict[str, str], tmp_path: Path
) -> None:
    """One job is running, another is waiting; this cluster has no accounting, which would know their end."""
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    queue = ["launcher=slurm", "hydra.launcher.mem_gb=null", "hydra.launcher.array_parallelism=1"]
    sweep = [*TRAIN, "-m", *OPTIONS, "trainer.max_epochs=300,2000,3000", "hydra.sweep.dir=there", *queue]
    with subprocess.Popen(sweep, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as started:
        _wait_until(lambda: len(run("squeue", "--noheader", "--array").splitlines()) == 3, "all are queued")
        jobs = run("squeue", "--noheader", "--array", "--format=%i").split()
        (array,) = {job.split("_")[0] for job in jobs}
        run("scancel", f"{array}_2")
        running = ["squeue", "--noheader", "--states=RUNNING", "--format=%i"]
        _wait_until(lambda: run(*running).split() == [f"{array}_1"], "the second job runs")
        run("scancel", f"{array}_1")
        _, err = started.communicate(timeout=600)
    assert started.returncode == 1
    for number in (1, 2):
        assert f"job {array}_{number} ended without a result; its output is in there/.submitit" in err
    assert "sacct" not in err
    assert len(measured_in(tmp_path / "there")) == 1
    assert (tmp_path / "there" / "leaderboard.md").is_file()
