"""What TensorBoard finds through the entry point, and that it always starts."""

import sys
from argparse import Namespace
from importlib.metadata import entry_points

import pytest
from tensorboard.plugins.base_plugin import TBContext

from attention_lab.tensorboard_plugin.loader import Loader
from attention_lab.tensorboard_plugin.plugin import AttentionPlugin


def test_the_package_brings_the_plugin() -> None:
    (found,) = entry_points(group="tensorboard_plugins", name="attention_lab")
    assert found.load() is Loader


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, {"attention_lab": 0}),
        ({"images": 5}, {"images": 5, "attention_lab": 0}),
        ({"attention_lab": 7},) * 2,
    ],
)
def test_all_steps_are_kept_unless_the_command_line_says_otherwise(
    given: dict[str, int], kept: dict[str, int]
) -> None:
    flags = Namespace(samples_per_plugin=given)
    Loader().fix_flags(flags)
    assert flags.samples_per_plugin == kept


@pytest.mark.parametrize("flags", [Namespace(), Namespace(samples_per_plugin=None)])
def test_other_flags_are_left_alone(flags: Namespace) -> None:
    before = vars(flags).copy()
    Loader().fix_flags(flags)
    assert vars(flags) == before


def test_a_plugin_that_cannot_be_imported_is_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "attention_lab.tensorboard_plugin.plugin", None)
    assert Loader().load(TBContext()) is None
    assert "The Attention tab is not available" in caplog.text


def test_the_plugin_is_made() -> None:
    plugin = Loader().load(TBContext())
    assert isinstance(plugin, AttentionPlugin)
    assert not plugin.is_active()
