"""Models with the same number of parameters for every mechanism, for comparisons at equal size."""

from typing import Any

import torch

from attention_lab.attention import Mechanism
from attention_lab.errors import LabError
from attention_lab.models.seq2seq import Seq2Seq
from attention_lab.sizes import TransductionSizes


class MatchedSeq2Seq(Seq2Seq):
    """A `Seq2Seq` with a given total number of parameters, whatever its attention needs.

    A score has between 0 (dot) and 2 h^2 + h parameters (additive). The rest goes into the embeddings of both
    sides, whose common size is chosen to bring the total closest to the target. Queries, keys, values and
    states keep `hidden_size`, so that every mechanism compares vectors of the same size. The total is linear
    in the embedding size, and is computed from two small models on the meta device.

    Args:
        mechanism: the attention of the decoder.
        sizes: the vocabularies.
        parameters: target number of parameters; the result differs by at most half the parameters of one
            unit of embedding size.
        embedding_size: must be None, because it follows from `parameters`.
        options: the other options of `Seq2Seq`.

    Raises:
        LabError: `embedding_size` is given, or `parameters` is too small for the mechanism and the states.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        sizes: TransductionSizes,
        *,
        parameters: int,
        embedding_size: int | None = None,
        **options: Any,
    ) -> None:
        if embedding_size is not None:
            raise LabError(
                "model.embedding_size follows from model.parameters: set model.embedding_size=null"
            )
        with torch.device("meta"):
            one, two = (count(Seq2Seq(mechanism, sizes, embedding_size=size, **options)) for size in (1, 2))
        size = 1 + round((parameters - one) / (two - one))
        if size < 1:
            raise LabError(f"model.parameters={parameters} is too few for this mechanism: set {one} or more")
        super().__init__(mechanism, sizes, embedding_size=size, **options)


def count(model: torch.nn.Module) -> int:
    """The number of parameters of a model."""
    return sum(parameter.numel() for parameter in model.parameters())
