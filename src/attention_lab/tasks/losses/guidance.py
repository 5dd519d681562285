"""Guided attention: the weights learn from a given alignment (Chen et al. 2016, 1607.01628)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attention_lab.attention import Soft
from attention_lab.errors import LabError
from attention_lab.models.ensemble import Ensemble
from attention_lab.models.seq2seq import EncoderDecoder
from attention_lab.models.transduction import TransductionModel

LEAST = 1e-6
"""Smallest weight in the logarithm, so that a normaliser that gives zero has no infinite loss."""


def guidance_loss(weights: Float[Tensor, "B T S"], alignment: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
    """Cross entropy between the weights and the alignment, per aligned step (1607.01628, eq. 7).

        -1/n sum_{t : p_t >= 0} log a_{t, p_t}

    Args:
        weights: the weights of each step over the source positions.
        alignment: the source position p of each step, -1 if it has none.

    Returns:
        The loss; 0 if no step is aligned.
    """
    aligned = alignment >= 0
    chosen = weights.gather(-1, alignment.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    losses = -chosen.float().clamp_min(LEAST).log()
    return torch.where(aligned, losses, 0.0).sum() / aligned.sum().clamp_min(1)


def check_guidance(model: TransductionModel | Ensemble) -> None:
    """Raise LabError if the attention of this model cannot be guided."""
    if not isinstance(model, EncoderDecoder) or not isinstance(model.latent, Soft):
        raise LabError(
            "task.guidance needs a recurrent decoder with soft attention: choose model=seq2seq pooling=soft"
        )
    if not model.decoder.steps_are_independent:
        raise LabError("task.guidance needs model.wiring=luong model.input_feeding=false")
