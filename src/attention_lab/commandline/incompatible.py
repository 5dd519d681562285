"""Choices that have no meaning together, and why: one table, read by the program, its page and its tests."""

from collections.abc import Mapping
from typing import NamedTuple


class Refusal(NamedTuple):
    """What is refused: the choices of a group in some models.

    Attributes:
        models: choices of `model=`.
        group: the group.
        choices: the choices of that group that these models do not take.
        reason: why.
    """

    models: tuple[str, ...]
    group: str
    choices: tuple[str, ...]
    reason: str


PLACES = ("band", "local_m", "local_p")
REFUSALS = (
    Refusal(("nw",), "window", PLACES, "the samples of a regression have no order"),
    Refusal(("graph",), "window", PLACES, "the nodes of a graph have no order"),
    Refusal(
        ("cnn", "rnn"), "window", PLACES, "its one query reads the whole sequence and has no place in it"
    ),
    Refusal(("nw",), "scoring", ("location",), "the samples of a regression have no order"),
    Refusal(("graph",), "scoring", ("location", "query_free"), "the nodes of a graph have no order"),
    Refusal(("nw",), "normalizer", ("sigmoid",), "a kernel regression is a mean, whose weights sum to one"),
    Refusal(
        ("nw",),
        "pooling",
        ("hard", "gumbel", "exact", "monotonic"),
        "a kernel regression is a mean, not one of the samples",
    ),
    Refusal(
        ("multihead", "transformer", "cnn", "rnn", "lm", "graph"),
        "pooling",
        ("hard", "exact", "monotonic"),
        "it sums or draws the position of one symbol, and here no symbol is read at one position; "
        "pooling=gumbel draws hard here too",
    ),
    Refusal(("image2seq",), "pooling", ("monotonic",), "the cells of a picture are not read in one order"),
    Refusal(("image2seq",), "window", PLACES, "the cells of a picture are not read in one order"),
)


def refusal(choices: Mapping[str, str]) -> Refusal | None:
    """The first refusal of these choices, each by the name of its group; None if they go together."""
    for one in REFUSALS:
        if choices.get("model") in one.models and choices.get(one.group) in one.choices:
            return one
    return None
