"""Linear attention against the masked reference of the same kernel, and against softmax attention."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention.fast.linear import linear_attention
from benchmarks.measuring.forward_backward import attention_inputs, forward_backward
from benchmarks.measuring.harness import Comparison, Growth, Method, Work

HEADS, FEATURES = 4, 64
GPU_BATCH = 32
"""Number of sequences on a GPU; a single one would not keep it busy."""
Attend = Callable[..., Tensor]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Forward and backward at one length, plain and causal, with the error."""
    batch, length = _batch(device), 96 if quick else 2048
    for causal in (False, True):
        for dtype in (torch.float32, torch.bfloat16) if device.type == "cuda" else (torch.float32,):
            inputs = [x.to(dtype) for x in attention_inputs((batch, HEADS, length, FEATURES), device)]
            yield Comparison(
                f"{_named(causal)}, {batch} x {length:,}, {HEADS} heads of {FEATURES}, "
                f"{str(dtype).removeprefix('torch.')}",
                _methods(inputs, causal),
                reference=partial(_exact, inputs, causal),
                note="`scaled_dot_product_attention` is fused softmax attention, another kernel: no error.",
                work=(batch * length, "tokens/s"),
            )


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """Forward and backward at growing lengths."""
    longest = (65_536,) if device.type == "cuda" else ()
    sizes = (64, 128) if quick else (1024, 2048, 4096, 8192, 16384, *longest)
    for causal in (False, True):
        yield Growth(
            f"{_named(causal)}, forward and backward, {_batch(device)} x {HEADS} heads of {FEATURES}",
            "length",
            sizes,
            partial(_grown, causal, device),
        )


def _grown(causal: bool, device: torch.device, length: int) -> list[Method]:
    return _methods(attention_inputs((_batch(device), HEADS, length, FEATURES), device), causal)


def _batch(device: torch.device) -> int:
    return GPU_BATCH if device.type == "cuda" else 1


def _named(causal: bool) -> str:
    return "Causal" if causal else "Every key"


def _methods(inputs: Sequence[Tensor], causal: bool) -> list[Method]:
    methods = [
        Method("all pairs, masked", lambda: _work(_pairs, inputs, causal)),
        Method("scaled_dot_product_attention", lambda: _work(_softmax, inputs, causal), exact=False),
    ]
    if causal and inputs[0].is_cuda:
        methods.append(Method("flash-linear-attention", lambda: _work(_peer(), inputs, causal), needs="fla"))
    return [*methods, Method("ours, linear", lambda: _work(_linear, inputs, causal))]


def _exact(inputs: Sequence[Tensor], causal: bool) -> list[Tensor]:
    """The definition in float64, one sequence at a time to limit the memory."""
    one_by_one = zip(*(torch.split(x.double(), 1) for x in inputs), strict=True)
    parts = [_work(_pairs, one, causal)() for one in one_by_one]
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def _peer() -> Attend:
    """The chunked kernels of flash-linear-attention, which expect heads after positions."""
    from fla.ops.linear_attn import chunk_linear_attn

    def attend(query: Tensor, key: Tensor, value: Tensor, causal: bool) -> Tensor:
        parts = (x.transpose(1, 2) for x in (_feature(query), _feature(key), value))
        context: Tensor = chunk_linear_attn(*parts, scale=1.0, normalize=True)[0]
        return context.transpose(1, 2)

    return attend


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
