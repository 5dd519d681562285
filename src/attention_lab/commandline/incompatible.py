"""Choices that make no sense together, in one table for the program, the documentation and the tests."""

from collections.abc import Mapping
from typing import NamedTuple


class Incompatibility(NamedTuple):
    """Choices of a group that some models do not support.

    Attributes:
        models: choices of `model=`.
        group: the group.
        choices: the choices in the group that these models do not support.
        reason: why not.
    """

    models: tuple[str, ...]
    group: str
    choices: tuple[str, ...]
    reason: str


POSITIONAL_WINDOWS = ("band", "local_m", "local_p")
INCOMPATIBLE = (
    Incompatibility(("nw",), "window", POSITIONAL_WINDOWS, "the samples of a regression have no order"),
    Incompatibility(("graph",), "window", POSITIONAL_WINDOWS, "the nodes of a graph have no order"),
    Incompatibility(
        ("cnn", "rnn"),
        "window",
        POSITIONAL_WINDOWS,
        "its only query, that of the readout, has no position in the sequence",
    ),
    Incompatibility(("nw",), "scoring", ("location",), "the samples of a regression have no order"),
    Incompatibility(("graph",), "scoring", ("location", "query_free"), "the nodes of a graph have no order"),
    Incompatibility(
        ("nw",),
        "normalizer",
        ("sigmoid", "sink"),
        "kernel regression is a weighted mean, whose weights sum to one",
    ),
    Incompatibility(
        ("nw",),
        "pooling",
        ("hard", "gumbel", "exact", "monotonic"),
        "kernel regression predicts a weighted mean, not the value of one sample",
    ),
    Incompatibility(
        ("multihead", "transformer", "cnn", "rnn", "lm", "graph"),
        "pooling",
        ("hard", "exact", "monotonic"),
        "the loss of this pooling needs a single attention, whose position determines each output symbol; "
        "pooling=gumbel also samples single positions",
    ),
    Incompatibility(
        ("image2seq",), "pooling", ("monotonic",), "the cells of an image are not read in one order"
    ),
    Incompatibility(
        ("image2seq",), "window", POSITIONAL_WINDOWS, "the cells of an image are not read in one order"
    ),
)


def find_incompatibility(choices: Mapping[str, str]) -> Incompatibility | None:
    """The first incompatibility among these choices, given by group; None if they are compatible."""
    for one in INCOMPATIBLE:
        if choices.get("model") in one.models and choices.get(one.group) in one.choices:
            return one
    return None
