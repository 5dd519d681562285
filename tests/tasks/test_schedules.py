"""Learning-rate schedules, step by step."""

import math

import pytest
import torch
from torch.optim.lr_scheduler import LRScheduler

from attention_lab.tasks import schedules


def _rates(make: object, steps: int, **options: float) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=2.0)
    schedule: LRScheduler = make(optimizer, steps, **options)  # type: ignore[operator]
    rates = []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return rates


def test_constant_after_a_linear_rise() -> None:
    assert _rates(schedules.constant, 5, warmup=0.4) == [1.0, 2.0, 2.0, 2.0, 2.0]
    assert _rates(schedules.constant, 3) == [2.0, 2.0, 2.0]


def test_cosine_falls_to_its_final_share() -> None:
    rates = _rates(schedules.cosine, 101, warmup=0.01, final=0.1)
    assert rates[0] == 2.0
    assert rates[51] == pytest.approx(2 * (0.1 + 0.9 * 0.5), abs=0.02)
    assert rates[-1] == pytest.approx(0.2, abs=0.01)
    assert rates == sorted(rates, reverse=True)
    assert _rates(schedules.cosine, 4, warmup=0.5, final=0.1) == pytest.approx([1.0, 2.0, 2.0, 1.1])


def test_inverse_square_root() -> None:
    rates = _rates(schedules.inverse_sqrt, 100, warmup=0.25)
    assert rates[24] == pytest.approx(2.0)
    assert rates[11] == pytest.approx(2.0 * 12 / 25)
    assert rates[99] == pytest.approx(2.0 * math.sqrt(25 / 100))
