"""`~` at the start of a path is the home folder, in every option."""

from pathlib import Path

import pytest
from omegaconf import OmegaConf

from attention_lab.commandline.home_folders import expand_in_configuration, with_home_folders


@pytest.fixture(autouse=True)
def _home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("data.file=~/a.tsv", "data.file=/home/me/a.tsv"),
        ("+data.file=~", "+data.file=/home/me"),
        ("ckpt_path='~/a b.ckpt'", "ckpt_path='/home/me/a b.ckpt'"),
        ('run="~/logs/sweep_*"', 'run="/home/me/logs/sweep_*"'),
        ("run=[~/a, '~/b']", "run=[/home/me/a, '/home/me/b']"),
        ("data.file=~/a.tsv,~/b.tsv", "data.file=/home/me/a.tsv,/home/me/b.tsv"),
        ("hydra.run.dir=~/logs/${now:%Y}", "hydra.run.dir=/home/me/logs/${now:%Y}"),
        ("logger.tensorboard.save_dir=~/logs", "logger.tensorboard.save_dir=/home/me/logs"),
        ("inputs=~/words.txt", "inputs=/home/me/words.txt"),
        # no paths:
        ("inputs=[~/a,b]", "inputs=[~/a,b]"),
        ("~callbacks.progress_bar", "~callbacks.progress_bar"),
        ("~data.x=~/a", "~data.x=/home/me/a"),
        ("data.file=a~/b", "data.file=a~/b"),
        ("data.file=nobody/~/b", "data.file=nobody/~/b"),
        ("data.file=~no-such-user/b", "data.file=~no-such-user/b"),
        ('notes="about, ~/x"', 'notes="about, ~/x"'),
        ("-m", "-m"),
    ],
)
def test_a_home_folder_at_the_start_of_a_path(given: str, path: str) -> None:
    assert with_home_folders([given]) == [path]


def test_a_home_folder_in_a_file_of_the_configuration() -> None:
    config = OmegaConf.create({"data": {"file": "~/a.tsv"}, "inputs": ["~/a"], "seed": 1, "run": "a~/b"})
    expand_in_configuration(config)
    assert config == {"data": {"file": "/home/me/a.tsv"}, "inputs": ["~/a"], "seed": 1, "run": "a~/b"}


@pytest.mark.long
def test_a_file_in_the_home_folder(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    folder = tmp_path / "home" / "here"
    done = command("model=seq2seq", "data=pairs", "data.file=~/none.tsv", folder=Path("~/here"))
    assert done.err.startswith(f"Error: {tmp_path}/home/none.tsv: No such file or directory")
    assert not (tmp_path / "~").exists()
    assert not folder.exists()
    done = command("stage=leaderboard", "run=~/none", folder=Path("~/here"))
    assert done.err.startswith(f"Error: run={tmp_path}/home/none is not a folder")
