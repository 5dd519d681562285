"""Runs on several processes and machines, started as in docs/guides/clusters.md; takes minutes."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from folders import measured_in, read_table
from two_processes import free_port

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[2]
TINY = [
    *("model=seq2seq", "data=reverse", "data.train_size=128", "data.validation_size=32", "data.test_size=32"),
    *(
        "model.embedding_size=8",
        "model.hidden_size=8",
        "trainer.accelerator=cpu",
        "pictures=0",
        "logger=none",
    ),
]
SHORT = [*TINY, "trainer.max_steps=8"]
TWO = ["trainer=ddp", "trainer.devices=2"]
WATCH = """
import json, pathlib, pytorch_lightning as pl

class Watch(pl.Callback):
    def on_train_end(self, trainer, pl_module):
        said = {"lr": trainer.optimizers[0].defaults["lr"], "model": str(pl_module.model)}
        path = pathlib.Path(trainer.default_root_dir, f"rank_{trainer.global_rank}.json")
        path.write_text(json.dumps(said))

    def on_train_batch_end(self, trainer, *_):
        last = trainer.global_step == 2 and trainer.global_rank == 1
        if last and trainer.optimizers[0].defaults["lr"] == 0.004:
            raise RuntimeError("a rank crashes")
"""
"""A callback: each rank writes with what settings it trained, and the second crashes with one of them."""


def _start(*arguments: str, folder: Path, program: str = sys.executable) -> subprocess.Popen[str]:
    """`python train.py ...` with its output in a file of the folder."""
    options = (
        ["-m", "torch.distributed.run", *arguments[: arguments.index("--")]] if "--" in arguments else []
    )
    rest = arguments[arguments.index("--") + 1 :] if options else arguments
    command = [program, *options, str(REPOSITORY / "train.py"), *rest]
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    number = len(list(folder.glob("out*.log")))
    with (folder / f"out{number}.log").open("w") as log:
        return subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT, text=True
        )


def _train(*arguments: str, folder: Path) -> tuple[int, str]:
    """Exit status and output."""
    process = _start(*arguments, folder=folder)
    status = process.wait(timeout=1800)
    return status, max(folder.glob("out*.log"), key=lambda path: int(path.stem[3:])).read_text()


def _alive(folder: Path) -> list[str]:
    """Processes with the folder on their command line or as where they are."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            if process.name != str(os.getpid()) and (
                str(folder) in line or str(folder) in str((process / "cwd").readlink())
            ):
                found.append(line)
        except OSError:
            continue
    return found


def test_a_sweep_on_two_processes_with_a_job_that_crashes(tmp_path: Path) -> None:
    (tmp_path / "watching.py").write_text(WATCH)
    rates = [0.001, 0.002, 0.003, 0.004, 0.005, 0.006]
    status, out = _train(
        *("-m", *SHORT, *TWO, f"optimizer.lr={','.join(map(str, rates))}", "hydra.sweep.dir=sweep"),
        *("+callbacks.watch._target_=watching.Watch", "hydra.sweep.subdir=${optimizer.lr}"),
        folder=tmp_path,
    )
    assert _alive(tmp_path) == []
    assert status == 1
    assert out.rstrip().endswith(
        "Error: 1 of 6 jobs failed (optimizer.lr=0.004): RuntimeError: a rank crashes"
    )
    assert "RuntimeError: a rank crashes" in (tmp_path / "sweep" / "0.004" / "error.txt").read_text()
    whole = [rate for rate in rates if rate != 0.004]
    assert list(measured_in(tmp_path / "sweep")) == [str(rate) for rate in whole]
    for rate in whole:
        ranks = [
            json.loads((tmp_path / "sweep" / str(rate) / f"rank_{one}.json").read_text()) for one in (0, 1)
        ]
        assert ranks[0] == ranks[1]
        assert ranks[0]["lr"] == rate


def test_two_nodes_of_one_process_are_one_node_of_two(tmp_path: Path) -> None:
    status, out = _train(*SHORT, *TWO, "hydra.run.dir=here", folder=tmp_path)
    assert status == 0, out
    port = free_port()
    nodes = [
        _start(
            *("--nnodes=2", f"--node-rank={node}", "--nproc-per-node=1"),
            *("--master-addr=127.0.0.1", f"--master-port={port}", "--"),
            *(*SHORT, "trainer=ddp", "trainer.num_nodes=2", "hydra.run.dir=there"),
            folder=tmp_path,
        )
        for node in (0, 1)
    ]
    assert [node.wait(timeout=1800) for node in nodes] == [0, 0]
    assert measured_in(tmp_path / "there") == measured_in(tmp_path / "here")
    assert (tmp_path / "there" / "predictions.tsv").read_bytes() == (
        tmp_path / "here" / "predictions.tsv"
    ).read_bytes()


def test_jobs_of_a_queue_give_what_local_ones_give(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = ["-m", *SHORT, "scoring=dot,general", "seed=1,2"]
    local, out = _train(*sweep, "hydra.sweep.dir=here", folder=tmp_path)
    assert local == 0, out
    queued, out = _train(*sweep, "launcher=submitit_local", "hydra.sweep.dir=there", folder=tmp_path)
    assert queued == 0, out
    assert len(measured_in(tmp_path / "here")) == 4
    assert measured_in(tmp_path / "there") == measured_in(tmp_path / "here")
    assert (tmp_path / "there" / "leaderboard.md").is_file()


def test_a_job_of_a_queue_that_is_killed_has_failed(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    sweep = [
        "-m",
        *TINY,
        "trainer.max_epochs=200",
        "launcher=submitit_local",
        "seed=1,2",
        "hydra.sweep.dir=s",
    ]
    started = _start(*sweep, folder=tmp_path)
    end = time.monotonic() + 300
    while not list(tmp_path.glob("s/1_*/checkpoints/*")):
        assert time.monotonic() < end
        time.sleep(0.2)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if b"submitit.core._submit" in (process / "cmdline").read_bytes():
                folders = {str(link.readlink()) for link in (process / "fd").iterdir()}
                if any(str(tmp_path / "s" / "1_") in one for one in folders):
                    os.kill(int(process.name), signal.SIGKILL)
    assert started.wait(timeout=900) == 1
    out = (tmp_path / "out0.log").read_text()
    assert "Error: 1 of 2 jobs failed (seed=2): job " in out and "Traceback" not in out
    assert len(measured_in(tmp_path / "s")) == 1 and (tmp_path / "s" / "leaderboard.md").is_file()


def test_a_search_of_two_processes_of_which_one_is_killed(tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    command = [
        "sweep=optuna",
        *TINY,
        "trainer.max_epochs=3",
        "sweep.study=s",
        "sweep.trials=6",
        "sweep.heartbeat=2",
    ]
    one, two = _start(*command, folder=tmp_path), _start(*command, folder=tmp_path)
    folder = tmp_path / "logs" / "search" / "s"
    storage = f"sqlite:///{folder}/study.db"
    running = optuna.trial.TrialState.RUNNING
    end = time.monotonic() + 300
    while time.monotonic() < end:  # until both are at work
        time.sleep(1)
        if len(list(folder.glob("trial_*"))) >= 2:
            study = optuna.load_study(study_name="s", storage=storage)
            if len(study.get_trials(states=[running])) == 2:
                break
    one.send_signal(signal.SIGKILL)
    assert two.wait(timeout=1800) == 0, (tmp_path / "out1.log").read_text()
    one.wait()
    trials = read_table(folder / "trials.csv")
    ended = [row for row in trials if row["state"] in ("complete", "pruned")]
    killed = [row for row in trials if row["state"] == "killed"]
    assert len(ended) == 6
    assert len(killed) == 1
    assert len(trials) == 7
    settings = [tuple(value for key, value in row.items() if "." in key) for row in trials]
    assert len(set(settings)) == 6  # that of the killed one twice
    assert _train(*command, folder=tmp_path)[0] == 0
    assert read_table(folder / "trials.csv") == trials


def test_a_search_whose_trials_use_two_processes(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    pruner = [
        "sweep/pruner=none",
        "sweep.pruner._target_=optuna.pruners.ThresholdPruner",
        "+sweep.pruner.upper=0.0",
    ]
    search = ["sweep=optuna", *TINY, *TWO, "trainer.max_epochs=2", "sweep.trials=1"]
    status, out = _train(*search, *pruner, "sweep.study=pruned", folder=tmp_path)
    assert status == 0, out
    (row,) = read_table(tmp_path / "logs" / "search" / "pruned" / "trials.csv")
    assert row["state"] == "pruned" and row["why"].startswith("at validation 1, validation/token_error_rate")
    status, out = _train(*search, "sweep/pruner=none", "sweep.study=whole", folder=tmp_path)
    assert status == 0, out
    folder = tmp_path / "logs" / "search" / "whole"
    (row,) = read_table(folder / "trials.csv")
    best = json.loads((folder / "trial_0" / "metrics.json").read_text())["fit/best"]
    assert row["state"] == "complete" and float(row["validation/token_error_rate"]) == pytest.approx(
        best, rel=1e-3
    )
    status, out = _train(
        *search, "task.label_smoothing=2.0", "sweep.study=bad", "sweep.failures=1", folder=tmp_path
    )
    assert status == 1 and "\nError: task.label_smoothing=2.0: choose a fraction from 0 to 1" in out
    assert _alive(tmp_path) == []
