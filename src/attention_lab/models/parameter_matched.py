"""Models of one size whatever their mechanism, so that a comparison of mechanisms is none of sizes."""

from typing import Any

import torch

from attention_lab.attention import Mechanism
from attention_lab.errors import LabError
from attention_lab.models.seq2seq import Seq2Seq
from attention_lab.sizes import TransductionSizes


class MatchedSeq2Seq(Seq2Seq):
    """A `Seq2Seq` with as many parameters as are asked for, whatever its attention takes of them.

    A score has from none (dot) to 2 h^2 parameters (additive). What it leaves of the number is spent on the
    embeddings of both sides, which have the one size that brings the count nearest; queries, keys, values and
    states keep `hidden_size`, so that every mechanism compares the same things. The count is a linear
    function of the embedding's size, known from two small models without memory.

    Args:
        mechanism: the attention of the decoder.
        sizes: the vocabularies.
        parameters: how many there are to be; within half of what one unit of embedding takes they are.
        embedding_size: is chosen, and has to be None.
        options: the others of `Seq2Seq`.

    Raises:
        LabError: a given `embedding_size`, or fewer parameters than the mechanism and the states take.
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
            raise LabError(f"model.parameters={parameters} is too few for this mechanism: {one} or more")
        super().__init__(mechanism, sizes, embedding_size=size, **options)


def count(model: torch.nn.Module) -> int:
    """How many parameters a model has."""
    return sum(parameter.numel() for parameter in model.parameters())
