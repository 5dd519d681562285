"""Scores: products of queries and keys, or numbers that a layer computes from the features of a position."""

from torch import Tensor, nn

from attention_lab.attention.recording.by_hand.calls import COSINE, LAYERS, TorchCall
from attention_lab.attention.recording.by_hand.contractions import summed
from attention_lab.attention.recording.by_hand.known_tensors import Product, Scores, is_composed
from attention_lab.attention.recording.by_hand.times_values import of_example

_MOST_HEADS = 32


def is_of_positions(x: Tensor, vector: Tensor) -> bool:
    """Whether a product has one number for each position: that of its features and a vector."""
    return of_example(x, x) and not x.is_nested and vector.numel() == x.shape[-1]


def depend_on_example(both: list[Tensor]) -> bool:
    """Whether the factors of an elementwise product both depend on the example, as queries and keys do."""
    return all(x.dim() > 2 and not isinstance(x._base, nn.Parameter) for x in both)


def of_layer(x: Tensor, matrix: Tensor, output: Tensor) -> Scores | None:
    """The output of a linear layer or a convolution, if it may be scores of one head or a few."""
    if matrix.dim() > 2:  # a convolution, whose positions come last
        return Scores() if len(matrix) == 1 and of_example(x, x) else None
    if is_of_positions(x, matrix):
        return Scores()
    if type(output) is not Tensor or output.is_nested or not of_example(x, x):
        return None
    return Scores(heads=-1) if 1 < output.shape[-1] <= _MOST_HEADS else None


def of_product(
    call: TorchCall, both: list[Tensor], known: list[object], result: Tensor
) -> Product | Scores | None:
    """What is known of a product without weights, from what is known of its factors: it may be scores."""
    if call.func in COSINE:
        return Product(plain=False, batched=True) if depend_on_example(both) else None
    if not all(of_example(x, x) for x in both):
        return Scores() if is_of_positions(*both) else None
    for index, one in enumerate(known):
        if isinstance(one, Product) and one.forget and one.query in summed(call, both, index):
            one.forget()  # keys times values of linear attention, now multiplied with queries
    composed, dims = any(map(is_composed, known)), [x.dim() for x in both]
    return Product(not composed, min(dims) > 2 or result.dim() < max(dims), composed)


def scores_after(call: TorchCall, known: Scores, found: Tensor, result: Tensor) -> Scores | None:
    """What is known of the result of a function of scores, which may be any activation but not a layer."""
    if call.func in LAYERS or not (call.is_of_weights or result.shape == found.shape):
        return None
    if known.heads is None or not call.is_view:
        return known
    heads = call.moved(known.heads, found)
    return None if heads is None else Scores(heads)


def scores_over(known: object, key: int) -> Product | Scores | None:
    """What is known of scores over keys; None for a router, which normalises over its outputs."""
    if isinstance(known, Product) or (isinstance(known, Scores) and known.heads != key):
        return known
    return None
