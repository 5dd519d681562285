"""Softmax attention, forward and backward: our path against PyTorch's fused kernels and FlexAttention."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from attention_lab.attention import Attention, Gaussian, ScaledDot, Score
from benchmarks.measuring.forward_backward import attention_inputs, forward_backward
from benchmarks.measuring.harness import Comparison, Least, Method, Work

FEATURES = 64
SIZES: dict[str, dict[torch.dtype, Sequence[tuple[int, int, int]]]] = {
    "cpu": {torch.bfloat16: ((512, 4, 12), (16, 4, 64)), torch.float32: ((2, 4, 512), (1, 4, 2048))},
    "cuda": {torch.bfloat16: ((32, 16, 512), (8, 16, 2048), (2, 16, 8192))},
}
"""Number of sequences, heads and length, by device and dtype."""
QUICK = (1, 2, 64)
NOTES = {
    "cpu": "In bfloat16, textbook code rounds the scores, and ours computes in float32.",
    "cuda": "FlexAttention is compiled, which is not timed.",
}
BACKENDS = {
    "cpu": {"flash": SDPBackend.FLASH_ATTENTION},
    "cuda": {
        "flash": SDPBackend.FLASH_ATTENTION,
        "efficient": SDPBackend.EFFICIENT_ATTENTION,
        "cudnn": SDPBackend.CUDNN_ATTENTION,
    },
}
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Scaled dot products, plain and causal, then a Gaussian score, which no kernel offers."""
    gpu = device.type == "cuda"
    for dtype, size in _cases(device, quick):
        inputs = _inputs(size, device, dtype)
        for causal in (False, True):
            yield Comparison(
                _title("Causal" if causal else "Every key", size, dtype),
                _scaled_dot(inputs, causal, compiled=gpu),
                reference=partial(_exact, partial(_textbook, causal=causal), inputs),
                note=NOTES[device.type] if dtype == torch.bfloat16 else "",
                least=_least(size, dtype, causal) if gpu else None,
            )
    size = QUICK if quick else (8, 16, 2048) if gpu else (1, 4, 2048)
    inputs = _inputs(size, device, torch.float32)
    yield Comparison(
        _title("Gaussian scores", size, torch.float32),
        _gaussian(inputs, compiled=gpu),
        reference=partial(_exact, _gaussian_textbook, inputs),
        note="FlexAttention adds the keys' part of the score in a `score_mod`; ours makes it a feature."
        if gpu
        else "",
        least=_least(size, torch.float32, False) if gpu else None,
    )


def _cases(device: torch.device, quick: bool) -> Iterator[tuple[torch.dtype, tuple[int, int, int]]]:
    for dtype, sizes in SIZES[device.type].items():
        for size in (QUICK,) if quick else sizes:
            yield dtype, size


def _title(what: str, size: Sequence[int], dtype: torch.dtype) -> str:
    batch, heads, length = size
    return f"{what}, {batch} x {length:,}, {heads} heads of {FEATURES}, {str(dtype).removeprefix('torch.')}"


def _inputs(size: Sequence[int], device: torch.device, dtype: torch.dtype) -> list[Tensor]:
    return [x.to(dtype) for x in attention_inputs((*size, FEATURES), device)]


def _least(size: Sequence[int], dtype: torch.dtype, causal: bool) -> Least:
    """Two products forward and five backward (one is a recomputation); each tensor read or written once."""
    batch, heads, length = size
    products = 7 * 2 * batch * heads * length**2 * FEATURES / (2 if causal else 1)
    moved = 8 * batch * heads * length * FEATURES * dtype.itemsize
    return Least(products, moved, "TF/s bf16 GEMM" if dtype == torch.bfloat16 else "GF/s f32 GEMM")


def _method(name: str, make: Callable[[], Attend], inputs: Sequence[Tensor]) -> Method:
    def prepare() -> Work:
        return partial(forward_backward, make(), inputs)

    return Method(name, prepare)


def _scaled_dot(inputs: Sequence[Tensor], causal: bool, *, compiled: bool) -> list[Method]:
    """Textbook code, PyTorch's kernels, FlexAttention and ours."""
    backends = BACKENDS[inputs[0].device.type]
    methods = [_method("textbook", lambda: partial(_textbook, causal=causal), inputs)]
    methods += [
        _method(f"scaled_dot_product_attention, {name}", partial(partial, _by, backend, causal), inputs)
        for name, backend in backends.items()
    ]
    if compiled:
        methods.append(_method("FlexAttention", partial(_flex, causal=causal), inputs))
    return [*methods, _method("ours", partial(_ours, ScaledDot, causal), inputs)]


def _gaussian(inputs: Sequence[Tensor], *, compiled: bool) -> list[Method]:
    methods = [_method("textbook", lambda: _gaussian_textbook, inputs)]
    if compiled:
        methods.append(_method("FlexAttention, score_mod", _gaussian_flex, inputs))
    return [*methods, _method("ours", partial(_ours, Gaussian, False), inputs)]


def _exact(attend: Attend, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results in float64, one sequence at a time to limit the memory."""
    one_by_one = zip(*(torch.split(x.double(), 1) for x in inputs), strict=True)
    parts = [forward_backward(attend, one) for one in one_by_one]
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def _textbook(query: Tensor, key: Tensor, value: Tensor, *, causal: bool) -> Tensor:
    scores = query @ key.mT * FEATURES**-0.5
    if causal:
        seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        scores = scores.masked_fill(~seen, -torch.inf)
    context: Tensor = scores.softmax(-1) @ value
    return context


def _gaussian_textbook(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """`softmax(-|(q - k) w|^2 / 2) v` with `w^2 = 1 / sqrt(d)`, our score's default."""
    distance = query.square().sum(-1, keepdim=True) - 2 * query @ key.mT + key.square().sum(-1).unsqueeze(-2)
    context: Tensor = (distance * (-0.5 * FEATURES**-0.5)).softmax(-1) @ value
    return context


def _by(backend: SDPBackend, causal: bool, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    with sdpa_kernel(backend):
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)


def _ours(score: type[Score], causal: bool) -> Attend:
    attention = Attention(score(FEATURES, FEATURES)).requires_grad_(False)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context: Tensor = attention.to(query)(query, attention.remember(key, value, causal=causal))
        return context

    return attend


@cache
def _compiled_flex() -> Any:
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention)


def _flex(*, causal: bool) -> Attend:
    from torch.nn.attention.flex_attention import create_block_mask

    flex, masks = _compiled_flex(), {}

    def seen(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return q >= k

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        length = query.shape[-2]
        if causal and length not in masks:
            masks[length] = create_block_mask(seen, None, None, length, length, device=query.device.type)
        context: Tensor = flex(query, key, value, block_mask=masks.get(length))
        return context

    return attend


def _gaussian_flex() -> Attend:
    flex = _compiled_flex()

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        of_key = key.square().sum(-1) * (-0.5 * FEATURES**-0.5)

        def with_key(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
            changed: Tensor = score + of_key[b, h, k]
            return changed

        context: Tensor = flex(query, key, value, score_mod=with_key)
        return context

    return attend
