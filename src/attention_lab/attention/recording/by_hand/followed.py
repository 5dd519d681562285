"""What is known of a tensor on the way from scores to weights times values."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from attention_lab.attention.recording.site import Site


@dataclass
class Map:
    """All weights of one normalisation, parts of which may be multiplied with different values.

    Attributes:
        site: the module that computes them.
        paired: whether the scores are products of two tensors that both depend on the example.
        weights: detached, and before dropout.
        mask: of the same shape, True = attended; None if unknown.
        keys: the number of keys.
        forget: drops what has been recorded of it; None if nothing has been.
    """

    site: Site
    paired: bool
    weights: Tensor
    mask: Tensor | None
    keys: int
    forget: Callable[[], None] | None = None


@dataclass(frozen=True)
class Weights:
    """Normalised scores that have not yet been multiplied with values.

    Attributes:
        map: the weights of which they are a part.
        key: the dimension that runs over the keys, counted from the end.
        mask: of the same shape, True = attended; None if unknown.
        before: the weights before dropout; None if there was no dropout.
        logarithm: they are still logarithms.
    """

    map: Map
    key: int
    mask: Tensor | None
    before: Tensor | None = None
    logarithm: bool = False


@dataclass(frozen=True)
class Product:
    """A product of two tensors that depend on the example, or what is computed from it without a layer.

    Attributes:
        plain: it has been scaled at most.
        forget: drops it from the recording, if it was recorded as weights times values.
    """

    plain: bool = True
    forget: Callable[[], None] | None = None


@dataclass(frozen=True)
class Exponentials:
    """Exponentials of scores; `paired` as in `Map`."""

    paired: bool


@dataclass(frozen=True)
class Sum:
    """The sum of exponentials or weights, or the logsumexp of scores, over dimension `key`."""

    of: Tensor
    key: int
