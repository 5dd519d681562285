"""Attention within a band, |j - t| <= D, and recording the weights of a few examples."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention import (
    Attention,
    Band,
    Mechanism,
    Normalizer,
    ScaledDot,
    Sparsemax,
    band_mask,
    causal_mask,
    lengths_mask,
    recording,
)
from attention_lab.models.parts.encoder import Encoder
from benchmarks.measuring.forward_backward import attention_inputs, forward_backward
from benchmarks.measuring.harness import Comparison, Growth, Method, Work

HEADS, FEATURES, WIDTH = 8, 32, 64
LOOKED_AT = 4


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """Forward and backward at one length, with the error; then evaluation with and without recording."""
    width = 8 if quick else WIDTH
    for causal, padded in ((False, False), (True, False), (False, True)):
        batch, length = (4 if padded else 1), 200 if quick else 1024 if padded else 4096
        mask = _padding(batch, length, device) if padded else None
        inputs = attention_inputs((batch, HEADS, length, FEATURES), device)
        exact = [x.double() for x in inputs]
        yield Comparison(
            f"{_named(causal, width)}, batch {batch}, {'lengths up to' if padded else 'length'} {length:,}, "
            f"{HEADS} heads of {FEATURES}",
            _methods(inputs, width, causal, mask),
            reference=partial(_reference, exact, width, causal, mask),
            note="The mask of all pairs is made beforehand and not counted.",
        )
    yield _sparse(device, quick)
    yield _recorded(device, quick)


def growth(device: torch.device, quick: bool) -> Iterator[Growth]:
    """Forward and backward at growing lengths."""
    sizes = (256, 512) if quick else (512, 1024, 2048, 4096, 8192, 16384)
    width = 8 if quick else WIDTH
    for causal in (False, True):
        yield Growth(
            f"{_named(causal, width)}, forward and backward, {HEADS} heads of {FEATURES}",
            "length",
            sizes,
            partial(_at_length, width=width, causal=causal, device=device),
        )


def _at_length(length: int, *, width: int, causal: bool, device: torch.device) -> list[Method]:
    return _methods(attention_inputs((1, HEADS, length, FEATURES), device), width, causal, None)


def _named(causal: bool, width: int) -> str:
    return f"0 <= t - j <= {width}" if causal else f"|j - t| <= {width}"


def _padding(batch: int, length: int, device: torch.device) -> Tensor:
    """Lengths from half of `length` to all of it."""
    lengths = torch.linspace(length // 2, length, batch, device=device).long()
    return lengths_mask(lengths, length).unsqueeze(1)


def _methods(inputs: Sequence[Tensor], width: int, causal: bool, mask: Tensor | None) -> list[Method]:
    methods = [
        Method("scaled_dot_product_attention", partial(_masked, inputs, width, causal, mask)),
        Method("softmax of masked scores", partial(_textbook, inputs, width, causal, mask)),
        Method("ours, strips of keys", partial(_ours, inputs, width, causal, mask)),
    ]
    if mask is None and inputs[0].is_cuda:
        methods.append(Method("FlexAttention, block mask", partial(_flex, inputs, width, causal)))
    if mask is None:  # with a mask, its rows without a key are not zero
        methods.append(
            Method("local-attention", partial(_peer, inputs, width, causal), needs="local_attention")
        )
    return methods


def _pairs(
    length: int, width: int, causal: bool, mask: Tensor | None, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Which key each query sees (all keys if it would see none), and which queries see any."""
    inside = band_mask(length, length, width, device)
    inside = inside & causal_mask(length, length, device) if causal else inside
    inside = inside if mask is None else inside & mask
    alive = inside.any(-1, keepdim=True)
    return inside | ~alive, alive


def _textbook(inputs: Sequence[Tensor], width: int, causal: bool, mask: Tensor | None) -> Work:
    inside, alive = _pairs(inputs[0].shape[-2], width, causal, mask, inputs[0].device)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        scores = query @ key.mT / FEATURES**0.5
        weights: Tensor = scores.masked_fill(~inside, -torch.inf).softmax(-1).masked_fill(~alive, 0.0)
        return weights @ value

    return partial(forward_backward, attend, inputs)


def _reference(inputs: Sequence[Tensor], width: int, causal: bool, mask: Tensor | None) -> list[Tensor]:
    """The textbook's code in float64, one head at a time, since all at once would take gigabytes."""
    heads = [
        _textbook([x[:, head : head + 1] for x in inputs], width, causal, mask)() for head in range(HEADS)
    ]
    return [torch.cat(parts, 1) for parts in zip(*heads, strict=True)]


def _masked(inputs: Sequence[Tensor], width: int, causal: bool, mask: Tensor | None) -> Work:
    inside, alive = _pairs(inputs[0].shape[-2], width, causal, mask, inputs[0].device)

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=inside).masked_fill(~alive, 0.0)

    return partial(forward_backward, attend, inputs)


def _ours(
    inputs: Sequence[Tensor],
    width: int,
    causal: bool,
    mask: Tensor | None,
    normalizer: Normalizer | None = None,
) -> Work:
    attention = Attention(ScaledDot(FEATURES, FEATURES), normalizer, window=Band(FEATURES, width=width))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        context: Tensor = attention(query, attention.remember(key, value, mask, causal=causal))
        return context

    return partial(forward_backward, attend, inputs)


def _by_weights(inputs: Sequence[Tensor], width: int, normalizer: Normalizer) -> Work:
    """Our attention computing all weights, most of which the window makes zero."""
    attention = Attention(ScaledDot(FEATURES, FEATURES), normalizer, window=Band(FEATURES, width=width))

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention.weights(query, attention.remember(key, value)) @ value

    return partial(forward_backward, attend, inputs)


def _peer(inputs: Sequence[Tensor], width: int, causal: bool) -> Work:
    from local_attention import LocalAttention

    local = LocalAttention(
        window_size=width,
        causal=causal,
        look_backward=1,
        look_forward=0 if causal else 1,
        exact_windowsize=True,
        autopad=True,
        use_rotary_pos_emb=False,
    )
    return partial(forward_backward, local, inputs)


def _flex(inputs: Sequence[Tensor], width: int, causal: bool) -> Work:
    """Compiled FlexAttention (2412.05496), which skips blocks of pairs outside the band."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def inside(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return (q - k <= width) & (k - q <= (0 if causal else width))

    length = inputs[0].shape[-2]
    mask = create_block_mask(inside, None, None, length, length, device=inputs[0].device.type)
    return partial(forward_backward, partial(torch.compile(flex_attention), block_mask=mask), inputs)


def _sparse(device: torch.device, quick: bool) -> Comparison:
    """A normalizer that no fused kernel computes."""
    length, width = (200, 8) if quick else (1024, WIDTH)
    inputs = attention_inputs((1, HEADS, length, FEATURES), device)
    exact = [x.double() for x in inputs]
    return Comparison(
        f"Sparsemax, {_named(False, width)}, length {length:,}, {HEADS} heads of {FEATURES}",
        [
            Method("all weights", partial(_by_weights, inputs, width, Sparsemax())),
            Method("ours, strips of keys", partial(_ours, inputs, width, False, None, Sparsemax())),
        ],
        reference=_by_weights(exact, width, Sparsemax()),
    )


def _recorded(device: torch.device, quick: bool) -> Comparison:
    """A forward pass of a batch of which only a few examples are recorded."""
    batch, length, size = (6, 40, 16) if quick else (64, 512, 64)
    torch.manual_seed(0)
    encoder = (
        Encoder(Mechanism(ScaledDot), d_model=size, heads=4, layers=2, feedforward=2 * size).eval().to(device)
    )
    x, lengths = torch.randn(batch, length, size, device=device), torch.full((batch,), length, device=device)

    @torch.no_grad()
    def run(examples: slice | None) -> list[Tensor]:
        with recording(encoder, examples) as weights:
            output = encoder(x, lengths)
        assert all(len(one) for one in weights.values())
        return [output]

    @torch.no_grad()
    def plain() -> list[Tensor]:
        return [encoder(x, lengths)]

    @torch.no_grad()
    def reference() -> list[Tensor]:
        return [deepcopy(encoder).double()(x.double(), lengths)]

    return Comparison(
        f"An encoder of 2 layers in evaluation, batch {batch}, length {length}, d {size}, 4 heads",
        [
            Method("without weights", lambda: plain),
            Method(f"weights of {LOOKED_AT} examples recorded", lambda: partial(run, slice(LOOKED_AT))),
            Method("weights of all recorded", lambda: partial(run, None)),
        ],
        reference=reference,
        note="Recording computes weights in addition to the fused kernel, for the recorded examples.",
    )
