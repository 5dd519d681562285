"""Flags may stand before, between and after the options."""

import pytest

from attention_lab.commandline.flags import flags_first


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("data=reverse -m seed=1,2", "-m data=reverse seed=1,2"),
        ("a=1 --config-dir mine b=2 --cfg job c=3", "--config-dir mine --cfg job a=1 b=2 c=3"),
        ("a=1 -cd mine ~b", "-cd mine a=1 ~b"),
        ("a=1 --config-dir=mine b=2 b=2", "--config-dir=mine a=1 b=2 b=2"),
        ("a=1 -cd mine -p mine b=2", "-cd mine -p mine a=1 b=2"),
        ("-m a=1 b=2", "-m a=1 b=2"),
        ("a=1 b=2 -m", "a=1 b=2 -m"),
        ("a=1 --unknown b=2", "a=1 --unknown b=2"),
        ("", ""),
    ],
)
def test_flags_come_first(given: str, wanted: str) -> None:
    assert flags_first(given.split()) == wanted.split()
