"""The kinds of tensors on the way from scores to weights times values: scores, weights, products, sums."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attention_lab.attention.recording.by_hand.calls import TorchCall
from attention_lab.attention.recording.site import Site


@dataclass(frozen=True)
class Product:
    """A product of two tensors that depend on the example, or what is computed from it without a layer.

    Attributes:
        plain: it has not been changed, except by a scale.
        batched: both tensors have a dimension for the examples, which a table of keys does not have.
        composed: it is a product of weights with weights, and not yet with values.
        forget: drops it from the recording, if it was recorded as weights times values.
        query: the dimension of the queries of these weights, counted from the end.
    """

    plain: bool = True
    batched: bool = False
    composed: bool = False
    forget: Callable[[], None] | None = None
    query: int | None = None

    def after(self, call: TorchCall, found: Tensor) -> "Product":
        """This product after a function that is not a layer was applied to its tensor `found`."""
        if not call.keeps_product:
            return replace(self, plain=False, forget=None)
        if self.query is None or not call.is_view:
            return self
        return replace(self, query=call.moved(self.query, found))


@dataclass(frozen=True)
class Scores:
    """One number for each position, or one for each head: the features of the position times a vector.

    Attributes:
        heads: the dimension of the heads, counted from the end; None if there is only one.
    """

    heads: int | None = None


@dataclass
class Map:
    """All weights of one normalisation, parts of which may be multiplied with different values.

    Attributes:
        site: the module that computes them.
        scores: what is known of the scores.
        weights: detached, and before dropout.
        mask: of the same shape, True = attended; None if unknown.
        keys: the number of keys.
        forget: drops what has been recorded of it; None if nothing has been.
        source: the map of the normalisation, if this one was computed from it.
        recorded: it has been recorded, or another map of as many weights that was computed from it.
    """

    site: Site
    scores: Product | Scores | None
    weights: Tensor
    mask: Tensor | None
    keys: int
    forget: Callable[[], None] | None = None
    source: "Map | None" = None
    recorded: bool = False

    @property
    def used(self) -> bool:
        """Whether it, or the map that it was computed from, has been recorded."""
        return self.recorded or (self.source is not None and self.source.recorded)

    @property
    def paired(self) -> bool:
        """Whether the scores are products of two tensors that both depend on the example."""
        return isinstance(self.scores, Product)

    @property
    def of_positions(self) -> bool:
        """Whether each score certainly belongs to a position of the example, and not to an expert."""
        known = self.scores
        return isinstance(known, Scores) or (isinstance(known, Product) and known.batched)


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
class Weighted:
    """Weights and values that are multiplied, in a product that sums over the keys or is summed later.

    Attributes:
        weights: what is known of the weights.
        factor: the weights.
        order: their dimensions, as in `Contraction`.
        values: the values.
        pooled: the weights have no dimension of their own for queries.
        query: the dimension of the queries in the product, counted from the end.
        key: the dimension of the keys in a product that is summed later, counted from the end.
    """

    weights: Weights
    factor: Tensor
    order: tuple[int, ...]
    values: Tensor
    pooled: bool
    query: int | None = None
    key: int | None = None


@dataclass(frozen=True)
class Exponentials:
    """Exponentials of scores; `scores` as in `Map`."""

    scores: Product | Scores | None


@dataclass(frozen=True)
class Sum:
    """The sum of exponentials or weights, or the logsumexp of scores, over dimension `key`."""

    of: Tensor
    key: int


def is_composed(known: object) -> bool:
    """Whether a tensor contains weights, which are not values if they are multiplied with other weights."""
    return isinstance(known, Weights) or (isinstance(known, Product) and known.composed)


def was_recorded(known: object) -> bool:
    """Whether a tensor contains weights that have been multiplied with values, and recorded."""
    return isinstance(known, Weights) and known.map.used


def is_plain(x: Tensor) -> bool:
    """Whether a tensor is neither sparse nor nested."""
    return x.layout is torch.strided and not x.is_nested
