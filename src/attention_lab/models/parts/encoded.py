"""What an encoder hands to a decoder."""

from typing import NamedTuple

from torch import Tensor


class Encoded(NamedTuple):
    """A batch of encoded sources.

    Attributes:
        keys: `[B, S, h]`, what the decoder's queries are compared with.
        values: `[B, S, h]`, what it reads; like the keys meaningless where masked.
        mask: boolean `[B, 1, S]`, True where there is source.
        finals: a summary `[B, h]` for each layer of the decoder, from which it starts.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor
    finals: list[Tensor]
