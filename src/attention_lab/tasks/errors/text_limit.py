"""Limit the text of tests and predictions: a checkpoint may have symbols of thousands of characters."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.special_symbols import PAD

MOST_TEXT = 1 << 26
"""Maximum number of characters of a test's inputs, outputs and references, or of a prediction's outputs."""
GROWTH = 100
"""Further characters allowed for each symbol of a test, or for each character of a prediction's inputs."""


def outputs_too_long() -> LabError:
    """The error for a prediction whose outputs have more characters than these limits allow."""
    return LabError(
        f"the outputs have more than {MOST_TEXT:,} characters plus {GROWTH} for each character of the "
        "inputs: the symbols of this model are too long"
    )


class TextLimit:
    """Counts the characters of examples before they are made into text."""

    def __init__(self) -> None:
        self._left = MOST_TEXT

    def count(self, symbols: Sequence[str], ids: Tensor, first: int = 0) -> None:
        """Count the characters of a tensor of ids.

        Args:
            symbols: the symbols whose ids start at `first`.
            ids: of any shape; `PAD` is left out if ids start after it.
            first: the id of the first symbol; those before it have no characters.

        Raises:
            LabError: they are too many, together with those counted before.
        """
        if max(map(len, symbols), default=0) <= GROWTH:
            return
        lengths = torch.tensor([*[0] * first, *map(len, symbols)])
        kept = ids[ids != PAD] if first > PAD else ids
        self._left += GROWTH * kept.numel() - int(lengths[kept.cpu()].sum())
        if self._left < 0:
            raise LabError(
                f"the inputs and outputs have more than {MOST_TEXT:,} characters plus {GROWTH} for each "
                "symbol: the symbols of this model are too long"
            )
