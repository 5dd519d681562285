"""The command that a stopped run prints, with which it can be resumed."""

import importlib
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode

from attention_lab.errors import Stopped
from attention_lab.interruption import signals
from attention_lab.interruption.exit_messages import exit_after_signal
from attention_lab.interruption.ranks import OWNED_BY_SWEEP
from attention_lab.interruption.resume import resume_command


@pytest.mark.parametrize(
    ("config", "allowed"),
    [
        (
            "model: {_target_: attention_lab.models.Seq2Seq}\ntrainer: {_target_: pytorch_lightning.Trainer}",
            "",
        ),
        (
            "model: {_target_: mine.models.Net}\ncallbacks: {one: {_target_: mine.Log}}\n"
            "data: {_target_: theirs.Data}",
            " 'allow=[mine,theirs]'",
        ),
        (
            "callbacks:\n  stop: {_target_: pytorch_lightning.callbacks.EarlyStopping}\n"
            "  mean: {_target_: pytorch_lightning.callbacks.EMAWeightAveraging}\n"
            "optimizer: {_target_: torch.optim.Muon}\n"
            "schedule: {_target_: torch.optim.lr_scheduler.CosineAnnealingLR}",
            " 'allow=[torch.optim,pytorch_lightning.callbacks]'",
        ),
        ("{", ""),
        (None, ""),
    ],
)
def test_the_command_to_resume_allows_the_packages_of_its_own_classes(
    config: str | None, allowed: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    if config is not None:
        (tmp_path / "run" / "config.yaml").write_text(config)
    with monkeypatch.context() as patch:  # a signal may have come while torch was being imported
        patch.setattr(importlib, "import_module", None)
        assert resume_command(tmp_path / "run") == f"python train.py resume=run{allowed}"


def test_the_name_of_a_folder_does_not_control_the_console(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hydra = SimpleNamespace(mode=RunMode.RUN, runtime=SimpleNamespace(choices={}))
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    with pytest.raises(SystemExit) as ended:
        exit_after_signal(Stopped(signal.SIGTERM), tmp_path / "a\x1b[2J\u202eb", training=True)
    assert ended.value.code == 128 + signal.SIGTERM
    err = capsys.readouterr().err
    assert err.startswith("Stopped by SIGTERM; resume with python train.py ") and err.count("\n") == 1
    assert "a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b" in err


def test_a_job_and_its_own_process_do_not_both_say_how_to_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(HydraConfig, "get", lambda: SimpleNamespace(mode=RunMode.RUN))
    monkeypatch.setenv(OWNED_BY_SWEEP, "1")
    with pytest.raises(SystemExit) as ended:
        exit_after_signal(Stopped(signal.SIGTERM), tmp_path, training=True)
    assert ended.value.code == 128 + signal.SIGTERM
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("rank", ["0", "1"])
def test_one_process_of_a_slurm_job_reports_and_queues_it_again(
    rank: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hydra = SimpleNamespace(mode=RunMode.RUN, runtime=SimpleNamespace(choices={}))
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    for name, value in {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2", "SLURM_PROCID": rank}.items():
        monkeypatch.setenv(name, value)
    queued: list[str] = []
    monkeypatch.setattr(signals, "requeue", lambda: queued.append(rank))
    with pytest.raises(SystemExit) as ended:
        exit_after_signal(Stopped(signal.SIGUSR1), tmp_path, training=True)
    assert ended.value.code == 128 + signal.SIGUSR1
    err = capsys.readouterr().err
    if rank == "0":
        told = "Stopped by SIGUSR1; SLURM is asked to queue this job again, or resume with python train.py "
        assert err.startswith(told) and queued == ["0"]
    else:
        assert (err, queued) == ("", [])
