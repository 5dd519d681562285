"""The moving average of the weights, against its recursion in Python's floats."""

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from attention_lab.callbacks import AveragedWeights
from attention_lab.errors import LabError


def _averages(decay: float, values: list[float]) -> list[float]:
    """The weight of an averaged model after each of these values of the weight."""
    model = nn.Linear(1, 1, bias=False).double()
    model.register_buffer("count", torch.tensor(0))
    averaged = AveragedModel(model, multi_avg_fn=AveragedWeights(decay).update, use_buffers=True)
    result = []
    for number, value in enumerate(values):
        with torch.no_grad():
            model.weight.fill_(value)
        model.count.fill_(number)
        averaged.update_parameters(model)
        result.append(averaged.module.weight.item())
        assert averaged.module.count == number
    return result


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.998])
def test_it_is_the_recursion(decay: float) -> None:
    values = torch.randn(60, generator=torch.Generator().manual_seed(0)).tolist()
    expected = values[:1]
    for n, value in enumerate(values[1:], start=1):
        kept = min(decay, (1 + n) / (10 + n))
        expected.append(kept * expected[-1] + (1 - kept) * value)
    assert _averages(decay, values) == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_the_start_of_a_short_training_is_forgotten() -> None:
    assert abs(_averages(0.998, [1000.0] + [1.0] * 100)[-1] - 1) < 1e-3


def test_a_decay_out_of_range_is_refused() -> None:
    with pytest.raises(LabError, match=r"callbacks\.ema\.decay must be in \[0, 1\), got 1"):
        AveragedWeights(1.0)
