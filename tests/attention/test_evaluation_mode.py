"""Temporary evaluation mode."""

from contextlib import suppress

from torch import nn

from attention_lab.attention.evaluation_mode import evaluation_mode


def test_frozen_parts_stay_frozen_even_after_an_error() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())).train()
    model[1][0].eval()
    modes = [part.training for part in model.modules()]
    with suppress(RuntimeError), evaluation_mode(model):
        assert not any(part.training for part in model.modules())
        raise RuntimeError
    assert [part.training for part in model.modules()] == modes == [True, True, True, False, True]
