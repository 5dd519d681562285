"""Check the parts of an attention and what they return, with a message that says what is expected."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from attention_lab.argument_checks import check_number, kind_of
from attention_lab.attention.masks import broadcast, check_count
from attention_lab.attention.scores import Score
from attention_lab.attention.windows import Span
from attention_lab.errors import LabError, PartError

_TORCH_PARAMETERS = {
    *("in_proj_weight", "in_proj_bias", "q_proj_weight", "k_proj_weight", "v_proj_weight"),
    *("bias_k", "bias_v", "out_proj.weight", "out_proj.bias"),
}
_KINDS = {
    "attention_lab.attention.normalizers": "normalizer",
    "attention_lab.attention.pooling": "pooling",
    "attention_lab.attention.windows": "window",
}
"""The kinds of parts, by the module that defines their classes."""


def check_parts(score: object, **others: object) -> None:
    """Raise TypeError if the score is not a `Score` or incomplete, or another part cannot be called."""
    for name, part in {"score": score, **others}.items():
        kind = part.func if isinstance(part, partial) else part
        if isinstance(kind, type):
            given = "a class" if kind is part else "a partial, which Mechanism takes"
            raise TypeError(f"Attention({name}=...) takes an instance, not {given}: {_called(kind)}")
        if part is not None and not callable(part):
            raise TypeError(f"Attention({name}=...) takes a module, not {kind_of(part)}")
        _check_kind("Attention", name, type(part))
    if hasattr(score, "_orig_mod"):  # what torch.compile returns
        kind = type(score._orig_mod).__name__
        raise TypeError(
            f"Attention(score) takes a Score, not a compiled one: compile the attention, or the model around "
            f"it, such as torch.compile(Attention({kind}(...)))"
        )
    if not isinstance(score, Score):
        raise TypeError(
            f"Attention(score) takes a Score, not {kind_of(score)}: define class MyScore(Score) with "
            "forward(query, keys)"
        )
    if "query_size" not in vars(score):
        raise TypeError(
            f"{type(score).__name__}.__init__ must call super().__init__(query_size, key_size, heads)"
        )


def check_window_size(window: object, score: Score) -> None:
    """Raise ValueError if a window was made for queries of another size, such as `Band(3)` for a width."""
    made_for = getattr(window, "query_size", score.query_size)
    if made_for != score.query_size:
        name = type(window).__name__
        raise ValueError(
            f"the window was made for queries of size {made_for}, the score for {score.query_size}: write "
            f"{name}({score.query_size}, ...) and give the width by its name"
        )


def check_makers(**makers: object) -> None:
    """Raise TypeError if a part of a mechanism is not the class or function that makes it."""
    for name, maker in makers.items():
        if isinstance(maker, nn.Module) or not callable(maker):
            kind = type(maker).__name__
            like = kind if isinstance(maker, nn.Module) else "MyPart"
            raise TypeError(
                f"Mechanism({name}=...) takes a class such as {like}, or partial({like}, option=...), which "
                f"makes the part for any sizes, not {kind_of(maker)}"
            )
        made = maker.func if isinstance(maker, partial) else maker
        if isinstance(made, type):
            _check_kind("Mechanism", name, made)


def kind_of_part(kind: type) -> str | None:
    """The kind of part that a class is, such as `score`, if it is or derives from one of this package."""
    kinds = [_KINDS[one.__module__] for one in kind.__mro__ if one.__module__ in _KINDS]
    return "score" if issubclass(kind, Score) else next(iter(kinds), None)


def _check_kind(call: str, name: str, kind: type) -> None:
    """Raise TypeError if a class of this package, or one derived from it, is another kind of part."""
    meant = kind_of_part(kind) or name
    if meant != name:
        raise TypeError(f"{call}({name}=...): {kind.__name__} is a {meant}: write {meant}=...")


def check_relative(relative: object, heads: int) -> None:
    """Reject relative positions for another number of heads.

    Raises:
        TypeError: they are a name or a class instead of an object with their methods.
        ValueError: they were made for another number of heads, whose biases would be shared or not fit.
    """
    if relative is None:
        return
    if not isinstance(relative, type) and hasattr(relative, "rotate"):
        made_for = getattr(relative, "heads", heads)
        if made_for != heads:
            kind = type(relative).__name__
            raise ValueError(f"MultiHead(relative=...): {kind} was made for {made_for} heads, not {heads}")
        return
    kind = relative.__name__ if isinstance(relative, type) else "Rotary"
    raise TypeError(
        f"MultiHead(relative=...) takes relative positions for its heads, such as {kind}(heads=8, size=64) "
        f"for 8 heads of size 64, not {kind_of(relative)}"
    )


def check_grid(grid: object) -> None:
    """Raise LabError if a grid is not None or two numbers of at least 1."""
    if grid is None:
        return
    if not isinstance(grid, Sequence) or isinstance(grid, str) or len(grid) != 2:
        raise LabError(f"grid must be two numbers, of rows and columns, not {grid!r}")
    for number in grid:
        check_number("a number in grid", number, least=1, whole=True)


def check_vectors(x: object, offset: object, size: int | None = None) -> None:
    """Reject what positions cannot be applied to: vectors `[..., L, size]`, or of any even size.

    Raises:
        TypeError: `x` is not a tensor.
        ValueError: it is not floating-point, or has the wrong shape.
        LabError: the offset of the first row is not a whole number of at least 0.
    """
    check_count("offset", offset, least=0)
    if torch.compiler.is_compiling():
        return
    if not isinstance(x, Tensor):
        raise TypeError(f"positions take a tensor, not {kind_of(x)}")
    if not x.is_floating_point():  # sines and cosines would be rounded
        raise ValueError(f"positions take floating-point vectors, such as embeddings, got {x.dtype}")
    if x.dim() < 2 or (x.shape[-1] % 2 if size is None else x.shape[-1] != size):
        shape = "[..., L, d] with d even" if size is None else f"[..., L, {size}]"
        raise ValueError(f"positions take vectors {shape}, got {list(x.shape)}")


def check_torch_module(module: object) -> None:
    """Raise TypeError if a module is not `torch.nn.MultiheadAttention`, or has other parameters than that."""
    if not isinstance(module, nn.MultiheadAttention):
        given = f"{kind_of(module)} of {type(module).__module__}"
        raise TypeError(f"from_torch takes a torch.nn.MultiheadAttention, not {given}")
    for name in module.state_dict():
        if name not in _TORCH_PARAMETERS and not name.startswith("attention."):  # those of our own score
            raise TypeError(
                f"from_torch cannot copy {name}: remove parametrizations, pruning and adapters from the "
                "module first, and add them to the copy"
            )


def _called(kind: type) -> str:
    options = "query_size=64, key_size=64" if issubclass(kind, Score) else "..."
    return f"write {kind.__name__}({options})"


def check_keys(keys: object, score: Score, key: Tensor) -> None:
    """Raise PartError if the keys that a score has prepared are not a tensor with a row for each key."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(keys, Tensor) or keys.dim() < 2 or keys.shape[-2] != key.shape[-2]:
        raise PartError(
            f"{type(score).__name__}.keys must return a tensor [..., {key.shape[-2]}, f] for keys "
            f"{list(key.shape)}, got {shape_or_kind(keys)}"
        )


def check_scores(scores: object, score: Score, query: Tensor, keys: Tensor) -> None:
    """Raise PartError if a score does not return a number for every query and key."""
    if torch.compiler.is_compiling():
        return
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        given = str(scores.dtype) if isinstance(scores, Tensor) else kind_of(scores)
        raise PartError(f"{type(score).__name__} must return floating-point scores, not {given}")
    expected = query.shape[-2], keys.shape[-2]
    if scores.shape[-2:] != expected:
        raise PartError(
            f"{type(score).__name__} must return scores [..., {expected[0]}, {expected[1]}] for queries "
            f"{list(query.shape)} and keys {list(keys.shape)}, got {list(scores.shape)}"
        )


def check_weights(weights: object, normalizer: object, scores: Tensor) -> None:
    """Raise PartError if a normaliser does not return a weight for every score."""
    if torch.compiler.is_compiling():
        return
    shape = weights.shape if isinstance(weights, Tensor) else torch.Size()
    # A mask, or a parameter for each head, may add dimensions or widen one of size 1.
    sizes = zip(reversed(scores.shape[:-2]), reversed(shape[:-2]), strict=False)
    agree = shape[-2:] == scores.shape[-2:] and all(size in (1, given) for size, given in sizes)
    if not agree or len(shape) < scores.dim():
        raise PartError(
            f"{type(normalizer).__name__} must return weights {list(scores.shape)}, one for each score, "
            f"got {shape_or_kind(weights)}"
        )
    _check_real(weights, normalizer, "weights")


def check_span(span: object, window: object, queries: int, keys: int) -> None:
    """Raise PartError if a window returns anything but a `Span`, or a mask that is not `[..., Q, K]`."""
    name = type(window).__name__
    if not isinstance(span, Span):
        given = type(span).__name__
        raise PartError(f"{name} must return a Span, such as Span(mask), True = inside, not {given}")
    if torch.compiler.is_compiling():
        return
    mask, factor = span.mask, span.factor
    right = isinstance(mask, Tensor) and mask.dtype == torch.bool
    if mask is not None and not (right and broadcast(mask.shape[-2:], (queries, keys))):
        raise PartError(_wrong_span("mask", name, f"boolean and [..., {queries}, {keys}]", mask))
    right = isinstance(factor, Tensor) and factor.is_floating_point()
    if factor is not None and not (right and broadcast(factor.shape[-2:], (queries, keys))):
        raise PartError(_wrong_span("factor", name, f"floating-point and [..., {queries}, {keys}]", factor))


def _wrong_span(part: str, name: str, wanted: str, given: object) -> str:
    found = f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else kind_of(given)
    return f"the {part} in the Span of {name} must be {wanted}, got {found}"


def check_masked(weights: Tensor, mask: Tensor | None, normalizer: object) -> bool:
    """Raise PartError if a normaliser gives a masked key any weight: a causal model would see the future.

    Returns:
        Whether this could be checked: something is masked.
    """
    if mask is None or not weights.numel() or bool(mask.all()):
        return False
    largest = weights.detach().masked_fill(mask, 0).abs().max().item()
    if largest != 0:
        name = type(normalizer).__name__
        raise PartError(
            f"{name} must give masked keys a weight of 0, got {largest:.3g}: "
            "end with weights.masked_fill(~mask, 0)"
        )
    return True


def check_context(context: object, pooling: object, weights: Tensor, value: Tensor) -> None:
    """Raise PartError if a pooling does not return a vector of the values' size for every query."""
    if torch.compiler.is_compiling():
        return
    expected = [*weights.shape[:-1], value.shape[-1]]
    shape = list(context.shape) if isinstance(context, Tensor) else []
    if shape[-2:] != expected[-2:] or len(shape) < len(expected):
        raise PartError(
            f"{type(pooling).__name__} must return contexts {expected} for weights {list(weights.shape)} and "
            f"values {list(value.shape)}, got {shape_or_kind(context)}"
        )
    _check_real(context, pooling, "contexts")


def _check_real(returned: object, part: object, what: str) -> None:
    """Raise PartError if a part has returned a tensor that is not floating-point."""
    if isinstance(returned, Tensor) and not returned.is_floating_point():
        raise PartError(f"{type(part).__name__} must return floating-point {what}, not {returned.dtype}")


def shape_or_kind(returned: object) -> str:
    """What a part has returned, for an error: the shape of a tensor, or what it is instead."""
    return str(list(returned.shape)) if isinstance(returned, Tensor) else kind_of(returned)
