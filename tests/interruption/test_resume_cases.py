"""Messages and errors of resuming, and of runs that are interrupted from outside."""

import errno
import signal
import threading
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from attention_lab.errors import LabError, Stopped
from attention_lab.files import writing
from attention_lab.interruption import signals
from attention_lab.interruption.folder_lock import lock_folder
from attention_lab.interruption.resume_option import expand_resume
from attention_lab.interruption.training_guard import TrainingGuard
from attention_lab.tasks import Regression, Transduction

CONF = Path(__file__).parents[2] / "conf"
NW = ["model=nw", "data.train_size=10", "trainer.max_epochs=3", "pictures=0"]
TOY = [
    "data.train_size=20",
    "data.validation_size=4",
    "data.test_size=4",
    "data.max_length=4",
    "data.batch_size=5",
]
SEQ2SEQ = [
    *("model=seq2seq", "data=reverse", *TOY, "model.embedding_size=4", "model.hidden_size=4", "pictures=0"),
    *("trainer.max_epochs=2", "callbacks.attention_maps.examples=1", "callbacks.resumable.every_seconds=0"),
]


def _files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_finished_run_says_so_and_is_left_unchanged(command) -> None:
    done = command(*NW)
    before = {path: path.stat().st_mtime_ns for path in (done.folder / "checkpoints").iterdir()}
    again = command(f"resume={done.folder}")
    assert again.status == 0, again.err
    assert "The run has already finished" in again.out
    assert before == {path: path.stat().st_mtime_ns for path in (done.folder / "checkpoints").iterdir()}
    # A run stopped after its last step: resuming only runs the test.
    results = (done.folder / "metrics.json").read_text()
    (done.folder / "metrics.json").unlink()
    best = torch.load(done.folder / "checkpoints" / "best.ckpt", weights_only=True)
    done = done._replace(folder=done.folder.rename(done.folder.with_name("moved")))
    refused = command(f"resume={done.folder}", "trainer.max_epochs=4")
    assert refused.status == 1
    assert "has trainer.max_epochs=3, not 4: leave that option as it was" in refused.err
    assert refused.err.count("\n") == 1
    tested = command(f"resume={done.folder}", "pictures=1")
    assert tested.status == 0, tested.err

    def repeatable(text: str) -> list[str]:
        return [line for line in text.splitlines() if "fit/s" not in line and "peak" not in line]

    assert repeatable((done.folder / "metrics.json").read_text()) == repeatable(results)
    assert not (done.folder / "error.txt").exists()
    last = torch.load(done.folder / "checkpoints" / "last.ckpt", weights_only=True)
    (kept_best,) = (state for name, state in last["callbacks"].items() if name.startswith("BestCheckpoint"))
    assert kept_best["best_model_path"].endswith("best.ckpt")
    assert best["global_step"] > 0


@pytest.mark.long
def test_a_model_without_parameters_continues_from_its_checkpoint(command) -> None:
    options = [*NW, "scoring=constant", "~callbacks.convergence"]
    done = command(*options)
    more = command(*options, f"ckpt_path={done.folder}/checkpoints/last.ckpt", "trainer.max_epochs=4")
    assert more.status == 0, more.err
    last = torch.load(more.folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["epoch"] == 4


def test_a_signal_saves_between_two_batches_and_ends_with_its_status(command, monkeypatch) -> None:
    original = TrainingGuard.on_before_backward

    def backward(guard: TrainingGuard, trainer: Any, module: Any, loss: Any) -> None:
        original(guard, trainer, module, loss)
        if trainer.global_step == 2:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(TrainingGuard, "on_before_backward", backward)
        stopped = command(*SEQ2SEQ, "callbacks.resumable.every_seconds=null")
    assert stopped.status == 143
    assert stopped.err.startswith("Stopped by SIGTERM; resume with python train.py resume=")
    last = torch.load(stopped.folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] == 3
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    done = command(*stopped.err.split()[-1:])
    assert done.status == 0, done.err
    training, folder, resuming = done.out.splitlines()[:3]
    assert training.startswith("Training     model=seq2seq data=") and folder.startswith("Folder  ")
    assert resuming == "Resuming at epoch 1/2, after step 3"
    assert (stopped.folder / "metrics.json").exists()
    refused = command(*stopped.err.split()[-1:], "trainer.max_epochs=4")  # of the finished run
    assert (refused.status, refused.out) == (1, "")
    assert "has trainer.max_epochs=2, not 4: leave that option as it was" in refused.err
    assert "ckpt_path=" in refused.err and refused.err.count("\n") == 1


@pytest.mark.slow
def test_a_signal_ends_a_sweep(command, monkeypatch) -> None:
    monkeypatch.setattr(TrainingGuard, "on_train_start", lambda *_: signal.raise_signal(signal.SIGINT))
    stopped = command("-m", *NW, "seed=1,2")
    assert stopped.status == 130
    assert "the sweep with its own command and resume=auto hydra.sweep.dir=" in stopped.err
    assert not (stopped.folder / "comparison.csv").exists()


@pytest.mark.long
def test_a_sweep_that_is_completed_leaves_its_finished_jobs_alone(command, tmp_path: Path) -> None:
    sweep = tmp_path / "sweep"
    assert command("-m", *NW, "seed=1,2", folder=sweep).status == 0
    first, second = (next(sweep.glob(f"*seed-{seed}")) / "metrics.json" for seed in (1, 2))
    second.unlink()
    before = first.read_bytes(), first.stat().st_mtime_ns
    again = command("-m", *NW, "seed=1,2,3", "resume=auto", folder=sweep)
    assert again.status == 0, again.err
    assert again.err == ""
    jobs = [line for line in again.out.splitlines() if "/3  seed=" in line]
    assert len(jobs) == 3 and all("  mse 0." in line for line in jobs)
    assert (first.read_bytes(), first.stat().st_mtime_ns) == before
    assert second.is_file() and "already finished" not in again.out
    refused = command("-m", *NW, "seed=1,2", "scoring=laplacian", "resume=auto", folder=sweep)
    assert refused.status == 1 and "leave that option as it was" in refused.err
    assert first.read_bytes() == before[0]


@pytest.mark.long
def test_a_damaged_checkpoint_falls_back_to_the_previous_one(command) -> None:
    done = command(*SEQ2SEQ)
    (done.folder / "metrics.json").unlink()
    last = done.folder / "checkpoints" / "last.ckpt"
    content = bytearray(last.read_bytes())
    with zipfile.ZipFile(last) as archive:
        weights = next(one for one in archive.namelist() if one.endswith("/data/0"))
        content[content.index(archive.read(weights))] ^= 1  # PyTorch does not notice
    last.write_bytes(content)
    torch.load(last, weights_only=True)
    again = command(f"resume={done.folder}")
    assert again.status == 0, again.err
    assert again.err == "Resume: last.ckpt is damaged or truncated; resuming from previous.ckpt instead\n"
    for path in (done.folder / "checkpoints").glob("[lp]*.ckpt"):
        path.write_bytes(b"")
    (done.folder / "metrics.json").unlink()
    again = command(f"resume={done.folder}")
    assert again.status == 0, again.err
    assert again.err == "Resume: no intact checkpoint; starting from the first step\n"


@pytest.mark.long
def test_a_loss_that_is_not_finite_ends_the_run_before_it_reaches_the_weights(command, monkeypatch) -> None:
    original = Transduction.training_step

    def step(task: Transduction, batch: Any, number: int) -> Any:
        loss = original(task, batch, number)
        return loss * float("nan") if task.global_step == 3 else loss

    monkeypatch.setattr(Transduction, "training_step", step)
    done = command(*SEQ2SEQ)
    assert done.status == 1
    assert done.err.startswith("Error: the loss is nan at step 3; the batch is saved in ")
    assert "lower optimizer.lr (now 0.00" in done.err
    assert done.err.count("\n") == 1
    fields = torch.load(done.folder / "bad_batch.pt", weights_only=True)
    assert fields["source"].shape[0] == 5
    lines = (done.folder / "bad_batch.txt").read_text().splitlines()
    assert all(line.split("\t")[0] == line.split("\t")[1][::-1] for line in lines)
    last = torch.load(done.folder / "checkpoints" / "last.ckpt", weights_only=True)
    assert last["global_step"] == 3
    assert all(bool(value.isfinite().all()) for value in last["state_dict"].values())


@pytest.mark.long
def test_weights_that_are_not_finite_are_not_saved(command, monkeypatch) -> None:
    def spoil(task: Regression) -> None:
        for parameter in task.parameters():
            parameter.data.fill_(float("nan"))

    monkeypatch.setattr(Regression, "on_train_epoch_end", spoil)
    done = command(*NW)
    assert done.status == 1
    assert "are not finite at step 1; the batch is saved in" in done.err
    assert not list((done.folder / "checkpoints").glob("last.ckpt"))


def test_a_full_disk_leaves_the_old_file_and_no_partial_one(tmp_path: Path, monkeypatch) -> None:
    file = tmp_path / "last.ckpt"
    writing.write_atomically(file, "old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(writing.os, "fsync", full)
    with pytest.raises(LabError, match=r"cannot write .*last.ckpt: No space left on device; free some space"):
        writing.write_atomically(file, b"new", previous=tmp_path / "previous.ckpt")
    assert file.read_text() == "old"
    assert _files(tmp_path) == {"last.ckpt"}
    monkeypatch.undo()
    writing.write_atomically(file, b"new", previous=tmp_path / "previous.ckpt")
    assert (file.read_text(), (tmp_path / "previous.ckpt").read_text()) == ("new", "old")


def test_one_run_at_a_time_in_a_folder(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(LabError, match="another run is using"), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        pass


def test_resume_expands_to_the_command_line_of_the_run(tmp_path: Path) -> None:
    hydra = tmp_path / "a run" / ".hydra"
    hydra.mkdir(parents=True)
    (hydra.parent / "config.yaml").write_text("stage: fit\n")
    (hydra / "hydra.yaml").write_text(
        "hydra:\n  runtime:\n    choices:\n      model: nw\n      data: ../model/nw\n      sweep: optuna\n"
    )
    expected = [
        "model=nw",
        "pictures=0",
        f'hydra.run.dir="{hydra.parent}"',
        "hydra.output_subdir=null",
        f'resume="{hydra.parent}"',
    ]
    assert expand_resume([f"resume={hydra.parent}", "pictures=0"], CONF) == expected
    assert expand_resume(expected, CONF) == expected
    assert expand_resume(["model=nw"], CONF) == ["model=nw"]
    (tmp_path / "early" / ".hydra").mkdir(parents=True)
    (tmp_path / "sweep" / "0" / ".hydra").mkdir(parents=True)
    (tmp_path / "sweep" / "multirun.yaml").touch()
    (tmp_path / "loop").symlink_to("loop")
    refused = {
        (f"resume={tmp_path}/loop",): "there is no such folder",
        (f"resume={hydra.parent}", "stage=test"): "resumes a training run: leave out stage=test",
        (f"resume={hydra.parent}", "-m"): "resumes one run in its own folder: leave out -m",
        (f"resume={hydra.parent}", "hydra.searchpath=[x]", "hydra.run.dir=y"): "leave out hydra.run.dir=y",
        (f"resume={tmp_path}/none",): "there is no such folder",
        (f"resume={tmp_path}",): f"give the folder of one run, such as {hydra.parent}$",
        (f"resume={tmp_path}/sweep",): "to resume a sweep, run its command again with resume=auto",
        (f"resume={tmp_path}/early",): "stopped before it started: run its command again",
        (f"resume={hydra}",): "not the folder of a run: it has no config.yaml",
        (f"resume={hydra.parent}/config.yaml",): f"give the folder of the run, {hydra.parent}",
        (f"resume={hydra}/hydra.yaml",): f"give the folder of the run, {hydra.parent}$",
    }
    for arguments, message in refused.items():
        with pytest.raises(LabError, match=message):
            expand_resume(arguments, CONF)


def test_a_second_signal_does_not_wait(monkeypatch) -> None:
    now = iter([10.0, 10.1, 10.2, 13.0])
    monkeypatch.setattr(signals.time, "monotonic", lambda: next(now))
    with signals.raise_on_signals(), signals.DeferredSignals() as deferred:
        signal.raise_signal(signal.SIGTERM)
        assert deferred.signum == signal.SIGTERM
        signal.raise_signal(signal.SIGINT)  # a terminal and a parent may both send one
        assert deferred.signum == signal.SIGTERM
        signal.raise_signal(signal.SIGTERM)  # `timeout` sends one to the program and one to its group
        with pytest.raises(Stopped):
            signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_existing_handlers_are_kept_and_other_threads_set_none(monkeypatch) -> None:
    seen: list[int] = []
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    before = signal.signal(signal.SIGTERM, lambda signum, _: seen.append(signum))
    try:
        with signals.raise_on_signals(), signals.DeferredSignals() as deferred:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGUSR1)
        assert (seen, deferred.signum) == ([signal.SIGTERM], signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGTERM, before)
    thread = threading.Thread(target=lambda: signals.raise_on_signals().__enter__())
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) == before


def test_slurm_is_asked_to_requeue_the_job(monkeypatch) -> None:
    calls: list[list[str]] = []
    monkeypatch.setattr(signals.subprocess, "run", lambda command, check: calls.append(command))
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    signals.requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "5")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "2")
    signals.requeue()
    assert calls == [["scontrol", "requeue", "7"], ["scontrol", "requeue", "5_2"]]
