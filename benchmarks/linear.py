"""Linear attention against the masked reference of the same kernel, and against softmax attention."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention.fast.linear import linear_attention
from benchmarks.forward_backward import attention_inputs, forward_backward
from benchmarks.harness import Contest, Growth, Way, Work

HEADS, FEATURES = 4, 64
Attend = Callable[..., Tensor]


def contests(device: torch.device, quick: bool) -> Iterator[Contest]:
    """Forward and backward at one length, plain and causal, with the error."""
    length = 96 if quick else 2048
    for causal in (False, True):
        inputs = attention_inputs((1, HEADS, length, FEATURES), device)
        yield Contest(
            f"{_named(causal)}, {HEADS} heads of {FEATURES}, length {length:,}",
            _ways(inputs, causal),
            reference=_work(_pairs, [x.double().cpu() for x in inputs], causal),
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
    return _ways(attention_inputs((1, HEADS, length, FEATURES), device), causal)


def _named(causal: bool) -> str:
    return "Causal" if causal else "Every key"


def _ways(inputs: Sequence[Tensor], causal: bool) -> list[Way]:
    return [
        Way("all pairs, masked", lambda: _work(_pairs, inputs, causal)),
        Way("scaled_dot_product_attention", lambda: _work(_softmax, inputs, causal), exact=False),
        Way("ours, linear", lambda: _work(_linear, inputs, causal)),
    ]


def _work(attend: Attend, inputs: Sequence[Tensor], causal: bool) -> Work:
    return partial(forward_backward, partial(attend, causal=causal), inputs)


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
