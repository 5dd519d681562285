"""Checkpoints saved before classes were moved still load."""

from pathlib import Path

import pytest
import torch

import attention_lab
from attention_lab.untrusted.configuration import MOVED, is_own_class, with_moved_classes
from attention_lab.untrusted.run_parts import is_listed

SAVED = Path(__file__).parent / "checkpoints" / "before_the_rooms.ckpt"
"""A checkpoint of `models.matched.MatchedSeq2Seq`, now `models.parameter_matched.MatchedSeq2Seq`."""


def test_a_checkpoint_from_before_the_move_gives_the_same_weights_and_attention() -> None:
    trained = attention_lab.load(SAVED)
    (seen,) = trained.observe(["abc"])
    total = sum(float(parameter.detach().double().sum()) for parameter in trained.model.parameters())
    assert total == pytest.approx(23.445152490030523, abs=1e-9)
    expected = torch.tensor([0.2316718251, 0.2791865766, 0.2867839634, 0.2023576647])
    torch.testing.assert_close(seen.weights["decoder.attention"][0, 0], expected, atol=1e-6, rtol=0)


def test_moved_classes_are_where_the_table_lists_them() -> None:
    for old, new in MOVED.items():
        assert is_own_class(new) or is_listed(new)
        assert not is_own_class(old) and not is_listed(old)


def test_targets_are_renamed_at_any_depth_and_nothing_else() -> None:
    old, new = next(iter(MOVED.items()))
    node = {"_target_": old, "parts": [{"_target_": old, "name": old}], "size": 3}
    assert with_moved_classes(node) == {"_target_": new, "parts": [{"_target_": new, "name": old}], "size": 3}
