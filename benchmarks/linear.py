"""Linear attention against the masked reference of the same kernel, and against softmax attention."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention.fast.linear import linear_attention
from benchmarks.harness import Contest, Growth, Way

HEADS, FEATURES = 4, 64
Attend = Callable[[Tensor, Tensor, Tensor, bool], Tensor]


def contests(device: torch.device, quick: bool) -> Iterator[Contest]:
    """Forward and backward at one length, plain and causal, with the error."""
    length = 96 if quick else 2048
    for causal in (False, True):
        inputs = _inputs(length, device)
        reference = partial(_results, _pairs, [x.double().cpu() for x in inputs], causal)
        yield Contest(
            f"{_named(causal)}, {HEADS} heads of {FEATURES}, length {length:,}",
            _ways(inputs, causal),
            reference=reference,
            note="`scaled_dot_product_attention` is fused softmax attention, another kernel: no error.",
        )


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """Forward and backward at growing lengths."""
    sizes = (64, 128) if quick else (1024, 2048, 4096, 8192, 16384)
    for causal in (False, True):
        yield Growth(
            f"{_named(causal)}, forward and backward, {HEADS} heads of {FEATURES}",
            "length",
            sizes,
            partial(_grown, causal, device),
        )


def _grown(causal: bool, device: torch.device, length: int) -> list[Way]:
    return _ways(_inputs(length, device), causal)


def _named(causal: bool) -> str:
    return "Causal" if causal else "Every key"


def _inputs(length: int, device: torch.device) -> list[Tensor]:
    """Query, key, value, and what is multiplied with the context before it is summed."""
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(1, HEADS, length, FEATURES, generator=generator).to(device) for _ in range(4)]


def _ways(inputs: Sequence[Tensor], causal: bool) -> list[Way]:
    return [
        Way("all pairs, masked", lambda: partial(_results, _pairs, inputs, causal)),
        Way("scaled_dot_product_attention", lambda: partial(_results, _softmax, inputs, causal), exact=False),
        Way("ours, linear", lambda: partial(_results, _linear, inputs, causal)),
    ]


def _results(attend: Attend, inputs: Sequence[Tensor], causal: bool) -> list[Tensor]:
    """The context, and the gradients of query, key and value."""
    query, key, value = (x.detach().requires_grad_() for x in inputs[:3])
    context = attend(query, key, value, causal)
    return [context, *torch.autograd.grad(context, (query, key, value), inputs[3])]


def _feature(x: Tensor) -> Tensor:
    """The features elu(x) + 1 (2006.16236, eq. 7)."""
    return F.elu(x) + 1


def _pairs(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    """The definition: a weight for every pair (2006.16236, eq. 3)."""
    scores = _feature(query) @ _feature(key).mT
    scores = scores.tril() if causal else scores
    return scores / scores.sum(-1, keepdim=True) @ value


def _linear(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return linear_attention(_feature(query), _feature(key), value, causal=causal)


def _softmax(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal)
