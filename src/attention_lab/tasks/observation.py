"""What a task shows of an example: its text, and every attention's weights with labels."""

from typing import NamedTuple

from torch import Tensor


class Picture(NamedTuple):
    """A picture that was attended to, cell by cell down each column of its grid.

    Attributes:
        ink: `[H, W]`, 0 (paper) to 1.
        cell: pixels of a side of a cell, of which H and W are multiples.
    """

    ink: Tensor
    cell: int


class Observation(NamedTuple):
    """One example as the model saw it, all on the CPU.

    Attributes:
        input: the example as text.
        output: what the model makes of it.
        expected: what it should be; empty where that is unknown.
        weights: weights `[H, Q, K]` of each attention by module name, before dropout.
        masks: the mask of each, of the same shape, True = attended.
        queries: labels of the Q rows.
        keys: labels of the K columns.
        gold: gold key `[Q]` or keys `[Q, G]` of each query, -1 where there is none; None if unknown.
        picture: what the keys are cells of, where the input is a picture.
        others: labels of the rows and columns of the attentions that have others than these, and no gold.
        x: positions `[Q]` of the queries and `[K]` of the keys, where both are numbers on one axis.
    """

    input: str
    output: str
    expected: str
    weights: dict[str, Tensor]
    masks: dict[str, Tensor]
    queries: list[str]
    keys: list[str]
    gold: Tensor | None = None
    picture: Picture | None = None
    others: dict[str, tuple[list[str], list[str]]] | None = None
    x: tuple[Tensor, Tensor] | None = None

    def labels(self, module: str) -> tuple[list[str], list[str]]:
        """The labels of the rows and of the columns of one attention."""
        return (self.others or {}).get(module, (self.queries, self.keys))
