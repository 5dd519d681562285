"""What a task shows of an example: its text, and every attention's weights with labels."""

from typing import NamedTuple

from torch import Tensor


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
        gold: gold key of each query, -1 where there is none; None without gold alignment.
    """

    input: str
    output: str
    expected: str
    weights: dict[str, Tensor]
    masks: dict[str, Tensor]
    queries: list[str]
    keys: list[str]
    gold: Tensor | None = None
