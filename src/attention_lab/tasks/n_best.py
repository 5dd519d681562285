"""Several outputs for each input, with their scores."""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from attention_lab.data.reading.batches import TransductionBatch
from attention_lab.models.decoding import Decodable
from attention_lab.models.n_best import n_best_search

if TYPE_CHECKING:
    from attention_lab.tasks.transduction import Transduction


def output_limits(model: Any, batch: TransductionBatch) -> Tensor:
    """Most symbols of each output: three for each symbol of the source, and ten."""
    limits: Tensor = (3 * batch.source_lengths + 10).clamp_max(model.longest)
    return limits


@torch.no_grad()
def n_best_outputs(task: "Transduction", batch: TransductionBatch, n: int) -> list[list[tuple[str, float]]]:
    """The n best outputs of each example, or fewer, each with its score: see `n_best_search`.

    The beam is that of the task, or n if that is wider.
    """
    model: Decodable[Any] = task.model
    tokens, scores = n_best_search(
        model,
        batch.source,
        batch.source_lengths,
        output_limits(task.model, batch),
        max(n, task.beam_size),
        n,
        task.length_penalty,
    )
    return [
        [
            (task.codec.decode(ids), score)
            for ids, score in zip(outputs, found, strict=True)
            if score > -torch.inf
        ]
        for outputs, found in zip(tokens.cpu(), scores.tolist(), strict=True)
    ]
