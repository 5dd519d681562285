"""Flags may stand before, between and after the options; wrong ones are rejected in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from attention_lab.commandline.flags import flags_first, read_flags
from attention_lab.errors import LabError

TRAIN = Path(__file__).parents[2] / "train.py"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("data=reverse -m seed=1,2", "-m data=reverse seed=1,2"),
        ("a=1 --config-dir mine b=2 --cfg job c=3", "--config-dir mine --cfg job a=1 b=2 c=3"),
        ("a=1 -cd mine ~b", "-cd mine a=1 ~b"),
        ("a=1 --config-dir=mine b=2 b=2", "--config-dir=mine a=1 b=2 b=2"),
        ("a=1 -cd mine -p mine b=2", "-cd mine -p mine a=1 b=2"),
        ("-m a=1 b=2", "-m a=1 b=2"),
        ("a=1 b=2 -m", "-m a=1 b=2"),
        ("a=1 --info", "--info all a=1"),
        ("a=1 -i defaults b=2", "-i defaults a=1 b=2"),
        ("", ""),
    ],
)
def test_flags_come_first(given: str, wanted: str) -> None:
    assert flags_first(given.split()) == wanted.split()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--model=multihead", "--model=multihead is not a flag: write model=multihead, without dashes"),
        ("--seed 2", "--seed is not a flag: write options as name=value, without dashes, such as seed=2"),
        ("-model multihead", "-model is not a flag: write options as name=value"),
        ("model=lm -x", "-x is not a flag: write options as name=value"),
        ("--cfg", "--cfg/-c: expected one argument"),
        ("--cfg jobs", "--cfg/-c: invalid choice: 'jobs'"),
        ("--config mine", "ambiguous option: --config could match"),
        ("-m --cfg job seed=1", "--cfg and --multirun cannot be combined: leave out one of them"),
        ("--resolve", "--resolve needs --cfg or --help"),
        ("--experimental-rerun=", "--experimental-rerun reads a pickle"),
        ("--experimental-rerun job.pickle", "--experimental-rerun reads a pickle, which can run code"),
    ],
)
def test_a_wrong_flag_is_named(given: str, message: str) -> None:
    with pytest.raises(LabError) as error:
        read_flags(given.split())
    assert message in str(error.value)
    assert len(str(error.value).splitlines()) == 1


def test_flags_are_read_from_among_the_options() -> None:
    flags = read_flags(["a=1", "--config-dir", "mine", "b=2", "-m"])
    assert flags.overrides == ["a=1", "b=2"]
    assert (flags.config_dir, flags.multirun, flags.cfg) == ("mine", True, None)


def test_the_program_ends_with_one_line() -> None:
    done = subprocess.run([sys.executable, TRAIN, "--seed=2"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "Error: --seed=2 is not a flag: write seed=2, without dashes\n"
    assert not done.stdout
