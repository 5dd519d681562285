"""Positional encodings: added to the embeddings, or acting inside attention.

`Absolute` positions are added once, before the first layer. `Relative` ones act in every head of every
layer: they rotate queries and keys before the score, or add a bias to the scores. All of them take an
offset, so that decoding step by step gives the same result as the parallel pass.
"""

from typing import Unpack

from attention_lab.attention.positions.absolute import Absolute, Learned, Sinusoidal, sinusoids
from attention_lab.attention.positions.biases import Alibi, Quadratic, T5Bias
from attention_lab.attention.positions.relative import Layout, Relative, Rotary
from attention_lab.errors import LabError

__all__ = [
    "POSITIONS",
    "Absolute",
    "Alibi",
    "Layout",
    "Learned",
    "Quadratic",
    "Relative",
    "Rotary",
    "Sinusoidal",
    "T5Bias",
    "make_absolute",
    "make_relative",
    "sinusoids",
]

POSITIONS: dict[str, type[Absolute] | type[Relative] | None] = {
    "sinusoidal": Sinusoidal,
    "learned": Learned,
    "rotary": Rotary,
    "alibi": Alibi,
    "quadratic": Quadratic,
    "t5": T5Bias,
    "none": None,
}
"""Positional encodings by their name in the configuration."""


def make_absolute(name: str, size: int, length: int) -> Absolute | None:
    """The absolute positions called `name` for embeddings of `size`; None if `name` is not of that kind."""
    kind = _kind(name)
    return kind(size, length) if kind is not None and issubclass(kind, Absolute) else None


def make_relative(name: str, heads: int, size: int, **layout: Unpack[Layout]) -> Relative | None:
    """The relative positions called `name` for one layer, see `Relative`; None if it is not of that kind."""
    kind = _kind(name)
    if kind is None or not issubclass(kind, Relative):
        return None
    return kind(heads, size, **layout)


def _kind(name: str) -> type[Absolute] | type[Relative] | None:
    if name not in POSITIONS:
        raise LabError(f"model.positions={name} is unknown: choose {', '.join(POSITIONS)}")
    return POSITIONS[name]
