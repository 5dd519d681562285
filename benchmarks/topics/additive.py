"""Additive attention scores against the textbook's code, forward and backward."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from attention_lab.attention.fast.additive import triton_scores
from attention_lab.attention.fast.additive.scores import additive_scores
from benchmarks.measuring.forward_backward import forward_backward, random_inputs
from benchmarks.measuring.harness import Comparison, Growth, Method

Score = Callable[[Tensor, Tensor, Tensor], Tensor]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Sizes from a single step of a decoder to long sequences."""
    sizes = [
        ("A step of a decoder, one query of B 64, K = 10", 64, 1, 10),
        ("Letters to phones, B 64, Q = K = 10", 64, 10, 10),
        ("B 64, Q = K = 32", 64, 32, 32),
        ("B 32, Q = K = 256", 32, 256, 256),
    ]
    if device.type == "cuda":
        sizes.append(("B 8, Q = K = 2,048", 8, 2048, 2048))
    for title, examples, queries, keys in sizes[: 1 if quick else None]:
        hidden = 8 if quick else 128 if keys > 1000 else 256  # textbook code needs 17 GB several times
        inputs = _inputs(examples, queries, keys, hidden, device)
        yield Comparison(
            f"{title}, h {hidden}",
            _methods(inputs, compiled=not quick),
            reference=partial(_by_example, inputs),
            note="Compiling itself is not timed: it takes 10 to 20 seconds, once.",
        )


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """Forward and backward at growing lengths."""
    longest = (4096, 8192) if device.type == "cuda" else ()
    sizes = (16, 32) if quick else (64, 128, 256, 512, 1024, 2048, *longest)
    yield Growth(
        "Additive scores, forward and backward, B 4, Q = K, h 64",
        "length",
        sizes,
        lambda length: _methods(_inputs(4, length, length, 64, device), compiled=not quick),
    )


def _inputs(examples: int, queries: int, keys: int, hidden: int, device: torch.device) -> list[Tensor]:
    """Projected queries and keys, w, and the weight of the scores."""
    shapes = ((examples, queries, hidden), (examples, keys, hidden), (hidden,), (examples, queries, keys))
    return random_inputs(*shapes, device=device)


def _methods(inputs: Sequence[Tensor], *, compiled: bool) -> list[Method]:
    methods: list[tuple[str, Score]] = [("textbook", _textbook), ("textbook, checkpointed", _checkpointed)]
    if compiled:
        methods.append(("textbook, torch.compile", _compiled_textbook()))
    if triton_scores.usable(inputs[0], "tanh"):  # which takes the place of the compiler's
        methods.append(("ours", additive_scores))
    else:
        methods.append(("ours, no compiler", partial(additive_scores, compiled=False)))
        if compiled:
            methods.append(("ours, compiled", partial(additive_scores, compiled=True)))
            methods.append(("ours, as it decides", additive_scores))
    return [Method(name, partial(partial, forward_backward, score, inputs)) for name, score in methods]


def _textbook(query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(query[:, :, None] + keys[:, None]) @ weight


def _checkpointed(query: Tensor, keys: Tensor, weight: Tensor) -> Tensor:
    scores: Tensor = checkpoint(_textbook, query, keys, weight, use_reentrant=False)
    return scores


@cache
def _compiled_textbook() -> Score:
    return torch.compile(_textbook, dynamic=True)


def _by_example(inputs: Sequence[Tensor]) -> list[Tensor]:
    """The textbook's results in float64, one example at a time to limit the memory."""
    query, keys, weight, gradient = (x.double() for x in inputs)
    parts = [
        forward_backward(_textbook, [query[i : i + 1], keys[i : i + 1], weight, gradient[i : i + 1]])
        for i in range(len(query))
    ]
    scores, of_query, of_keys, of_weight = zip(*parts, strict=True)
    return [torch.cat(scores), torch.cat(of_query), torch.cat(of_keys), torch.stack(of_weight).sum(0)]
