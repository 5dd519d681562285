"""Learning-rate schedules, as factors on the optimiser's learning rate; a step is one optimiser step."""

import math

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler


def constant(optimizer: Optimizer, total_steps: int, *, warmup: float = 0.0) -> LRScheduler:
    """Linear warm-up over the fraction `warmup` of the steps, then constant."""
    rise = _warmup_steps(total_steps, warmup)
    return LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / rise))


def cosine(
    optimizer: Optimizer, total_steps: int, *, warmup: float = 0.05, final: float = 0.01
) -> LRScheduler:
    """Linear warm-up, then half a cosine down to the fraction `final` (1608.03983, eq. 5)."""
    rise = _warmup_steps(total_steps, warmup)

    def factor(step: int) -> float:
        if step < rise:
            return (step + 1) / rise
        progress = min(1.0, (step - rise) / max(1, total_steps - rise))
        return final + (1 - final) * 0.5 * (1 + math.cos(math.pi * progress))

    return LambdaLR(optimizer, factor)


def inverse_sqrt(optimizer: Optimizer, total_steps: int, *, warmup: float = 0.05) -> LRScheduler:
    """Linear warm-up, then the inverse square root of the step (1706.03762, eq. 3), 1 at the peak."""
    rise = _warmup_steps(total_steps, warmup)
    return LambdaLR(optimizer, lambda step: min((step + 1) / rise, math.sqrt(rise / (step + 1))))


def _warmup_steps(total_steps: int, warmup: float) -> int:
    return max(1, round(total_steps * warmup))
