"""Runs on Weights & Biases, without a network: what is logged, where, and what is missing."""

import subprocess
from pathlib import Path

import pytest
from logged_run import SMALL

from attention_lab.errors import LabError
from attention_lab.loggers.base import read_run_id
from attention_lab.loggers.wandb import WandbRunLogger


@pytest.mark.slow
def test_wandb_gets_settings_heatmaps_and_results_and_goes_on_when_resumed(command) -> None:
    pytest.importorskip("wandb")
    done = command(*SMALL, "logger=wandb", "~logger.tensorboard", "logger.wandb.offline=true")
    assert (done.status, done.err) == (0, "")
    (record,) = done.folder.glob("wandb/offline-run-*")
    content = next(record.glob("*.wandb")).read_bytes()
    run_id = read_run_id(done.folder / "wandb_run_id.txt", "[a-z0-9]{8}")
    assert run_id is not None and record.name.endswith(run_id)
    wanted = ["model.hidden_size", "first try", "hello", "train/loss", "fit/seconds", "weights/heads/entropy"]
    assert [name for name in wanted if name.encode() not in content] == []
    assert len(list(record.glob("files/media/images/weights/example 1/*.png"))) == 1
    assert not list(done.folder.glob("*tfevents*"))
    assert f"W&B          wandb sync {done.folder.name}/wandb/offline-run-*\n" in done.out

    (done.folder / "metrics.json").unlink()
    resumed = command(f"resume={done.folder}", folder=done.folder)
    assert resumed.status == 0, resumed.err
    assert read_run_id(done.folder / "wandb_run_id.txt", ".*") == run_id


@pytest.mark.long
def test_wandb_without_a_login_says_what_to_do(command, monkeypatch) -> None:
    pytest.importorskip("wandb")
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", "/dev/null")
    done = command(*SMALL, "logger=wandb")
    assert done.status == 1
    assert done.err.startswith("Error: logger=wandb: ") and done.err.count("\n") == 1
    assert "logger.wandb.offline=true" in done.err


@pytest.mark.long
def test_wandb_prints_nothing_if_the_environment_says_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """As with `logger.wandb.offline=true`: the results already give the command to upload."""
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "offline")
    logger = WandbRunLogger(str(tmp_path))
    logger.log_metrics({"loss": 1.0}, 1)
    assert logger.how_to_view() == ("W&B", f"wandb sync {tmp_path}/wandb/offline-run-*")
    logger.close()
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))
    assert capfd.readouterr() == ("", "")


@pytest.mark.long
def test_wandb_switched_off_by_the_environment_has_nothing_to_view(tmp_path: Path, monkeypatch) -> None:
    wandb = pytest.importorskip("wandb")
    wandb.teardown()  # it keeps the environment of an earlier test
    monkeypatch.setenv("WANDB_MODE", "disabled")
    logger = WandbRunLogger(str(tmp_path))
    logger.log_metrics({"loss": 1.0}, 1)
    assert logger.how_to_view() is None
    logger.close()
    wandb.teardown()


@pytest.mark.parametrize("name", ["wandb", ".wandb"])
def test_wandb_takes_no_server_from_the_folder_of_a_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the working directory, wandb reads a file that names the server to which it sends the user's key."""
    pytest.importorskip("wandb")
    settings = tmp_path / "run" / name / "settings"
    settings.parent.mkdir(parents=True)
    settings.write_text("[default]\nbase_url = http://127.0.0.1:9\n")
    monkeypatch.chdir(tmp_path / "run")
    with pytest.raises(LabError, match=rf"^{name}/settings .*remove it, or start in another folder$"):
        WandbRunLogger(str(tmp_path / "run"), offline=True)
    WandbRunLogger(str(tmp_path / "another"), offline=True)  # the settings are the user's own


@pytest.mark.parametrize("repository", ["run/.git", "run", ".git"])
def test_wandb_asks_git_only_in_the_repository_of_the_program(
    repository: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repository around the run's folder, or the folder itself, may be from others."""
    pytest.importorskip("wandb")
    (tmp_path / repository).mkdir(parents=True)
    (tmp_path / repository / "HEAD").touch()
    run = tmp_path / "run"
    assert WandbRunLogger(str(run), offline=True)._wandb_init["settings"]["disable_git"]
    monkeypatch.setattr("attention_lab.loggers.wandb.__file__", str((tmp_path / repository).parent / "a.py"))
    assert ("disable_git" in WandbRunLogger(str(run), offline=True)._wandb_init["settings"]) == (
        repository == "run"
    )


@pytest.mark.long
def test_wandb_runs_no_command_that_a_repository_in_the_folder_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the user saves code, wandb asks git for the changes, and git runs `core.fsmonitor`."""
    pytest.importorskip("wandb")
    run, made = tmp_path / "run", tmp_path / "made"
    run.mkdir()
    (run / "config.yaml").touch()
    author = ["-c", "user.name=a", "-c", "user.email=a@b.org"]
    subprocess.run(["git", "init", "-q"], cwd=run, check=True)
    subprocess.run(["git", "add", "config.yaml"], cwd=run, check=True)
    subprocess.run(["git", *author, "commit", "-q", "-m", "a run"], cwd=run, check=True)
    subprocess.run(["git", "config", "core.fsmonitor", f"touch {made}; echo"], cwd=run, check=True)
    monkeypatch.setenv("WANDB_SAVE_CODE", "true")
    logger = WandbRunLogger(str(run), offline=True)
    logger.log_metrics({"loss": 1.0}, 1)
    logger.close()
    assert not made.exists()


@pytest.mark.parametrize("link", [True, False])
def test_wandb_writes_to_no_other_folder_than_its_own(link: bool, tmp_path: Path) -> None:
    """If there is a folder `.wandb`, perhaps a link, wandb would use it in place of `wandb`."""
    pytest.importorskip("wandb")
    other, run = tmp_path / "other", tmp_path / "run"
    other.mkdir()
    run.mkdir()
    (run / ".wandb").symlink_to(other) if link else (run / ".wandb").mkdir()
    with pytest.raises(LabError, match=r"run/\.wandb: wandb would write there, not to .*run/wandb"):
        WandbRunLogger(str(run), offline=True)
