"""R-Drop: a model's predictions under two different dropout masks should agree (2106.14448)."""

import torch
from torch import Tensor, nn

from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.errors import LabError
from attention_lab.special_symbols import PAD


def duplicate(batch: TransductionBatch) -> TransductionBatch:
    """The batch followed by itself, so that one pass gives each copy its own dropout."""
    tensors = (torch.cat([field, field]) for field in batch if isinstance(field, Tensor))
    return TransductionBatch._make([*tensors, batch.unseen * 2])


def divergence(logits: Tensor, target: Tensor) -> Tensor:
    """The divergence between the halves of a `duplicate`d batch, per target symbol (2106.14448, eq. 2).

        1/2 [KL(p_1 || p_2) + KL(p_2 || p_1)]
        = 1/2 sum_y (p_1(y) - p_2(y)) (log p_1(y) - log p_2(y))

    Args:
        logits: `[2B, T, V]`.
        target: `[2B, T]`; padding is ignored.
    """
    first, second = logits.float().log_softmax(-1).chunk(2)
    each = ((first.exp() - second.exp()) * (first - second)).sum(-1) / 2
    mask = target.chunk(2)[0] != PAD
    return each.where(mask, 0.0).sum() / mask.sum()


def check_has_dropout(model: nn.Module) -> None:
    """Raise LabError if the model has no dropout, because both passes would then be the same."""
    if not any(isinstance(part, nn.Dropout) and part.p > 0 for part in model.modules()):
        raise LabError(
            "task.r_drop compares two passes under different dropout, but the model has no nn.Dropout above "
            "0: raise it (model.dropout in this project's models), or set task.r_drop=0"
        )
