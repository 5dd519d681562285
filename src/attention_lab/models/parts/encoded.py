"""The output of an encoder, in the form that a decoder takes."""

from typing import NamedTuple

from torch import Tensor


class Encoded(NamedTuple):
    """A batch of encoded sources.

    Attributes:
        keys: `[B, S, h]`, compared with the decoder's queries.
        values: `[B, S, h]`, read by the decoder; like the keys, undefined where masked.
        mask: boolean `[B, 1, S]`, False for padding.
        finals: for each layer of the decoder, a summary `[B, h]` that sets its initial state.
        condition: `[B, e]`, added to the embedding of each symbol that the decoder reads.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    finals: list[Tensor]
    condition: Tensor | None = None
