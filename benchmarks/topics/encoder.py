"""Multi-head self-attention and the encoder layer, against PyTorch's, x-transformers' and textbook code."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attention_lab.attention import Mechanism, MultiHead, ScaledDot, lengths_mask
from attention_lab.attention.fast.packed import make_packing
from attention_lab.models import Encoder
from benchmarks.measuring.harness import Comparison, Least, Method, Work
from benchmarks.peers.encoders import (
    textbook_encoder,
    textbook_multihead,
    torch_encoder,
    torch_multihead,
    x_encoder,
)

SIZES = {"cpu": ((16, 128), (8, 512), (2, 2048)), "cuda": ((64, 512), (16, 2048), (4, 8192))}
"""Number of sequences in a batch, and the length they are padded to, by device."""
SIZE, HEADS, DROPOUT = 256, 8, 0.1
MIXED, BUCKETED = 1 / 4, 9 / 10
"""Ratio of the shortest to the longest sequence: in random batches, and in batches of similar lengths."""
Forward = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Batch:
    """A padded batch.

    Args:
        x: `[B, L, d]`.
        visible: `[B, L]`, True = not padding.
        weight: factors for the output before it is summed; zero in the padding.
    """

    x: Tensor
    visible: Tensor
    weight: Tensor

    @property
    def lengths(self) -> Tensor:
        """The lengths of the sequences, `[B]`."""
        return self.visible.sum(-1)

    def double(self) -> "Batch":
        """The same batch in float64."""
        return Batch(self.x.double(), self.visible, self.weight.double())


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """At each size, attention, then the layer; dropout; savings by checkpointing; on a GPU, bf16 training."""
    sizes = ((3, 24),) if quick else SIZES[device.type]
    for batch, length in sizes:
        yield _attention(_batch(batch, length, MIXED, device))
    for shortest in (MIXED, BUCKETED):
        for batch, length in sizes:
            yield _layer(_batch(batch, length, shortest, device))
    yield _dropout(_batch(*sizes[0], BUCKETED, device))
    yield _checkpointing(_batch(*sizes[len(sizes) // 2], 1.0, device), layers=2 if quick else 6)
    if device.type == "cuda":
        yield _training(device, quick)


def _batch(count: int, length: int, shortest: float, device: torch.device) -> Batch:
    """A batch with lengths spread evenly from a fraction of the longest to the longest, in random order."""
    generator = torch.Generator().manual_seed(1)
    lengths = torch.linspace(length * shortest, length, count).round().long()
    visible = lengths_mask(lengths[torch.randperm(count, generator=generator)], length).squeeze(1)
    x, weight = (torch.randn(count, length, SIZE, generator=generator) for _ in range(2))
    return Batch(x.to(device), visible.to(device), (weight * visible.unsqueeze(-1)).to(device))


def _title(what: str, batch: Batch) -> str:
    count, length = batch.visible.shape
    padding = 1 - float(batch.visible.double().mean())
    return f"{what}, {count} x {length:,}, {padding:.0%} padding, d {SIZE}, {HEADS} heads"


def _work(batch: Batch, module: nn.Module, forward: Forward) -> Work:
    """Forward and backward; gives the output, and the gradients of the input and the first projection."""
    parameters = dict(module.named_parameters())
    compared = [parameters[name] for name in parameters if name in FIRST]

    def work() -> Sequence[Tensor]:
        x = batch.x.detach().requires_grad_()
        module.zero_grad()
        output = forward(x)
        torch.autograd.backward((output * batch.weight).sum())
        visible = batch.visible.unsqueeze(-1)
        gradients = [one.grad for one in (x, *compared) if one.grad is not None]
        return [output.detach() * visible, gradients[0] * visible, *gradients[1:]]

    return work


FIRST = (
    "project.weight",
    "layers.0.attention.project.weight",
    "in_proj_weight",
    "layers.0.self_attn.in_proj_weight",
)
"""The name of the projection to query, key and value in each of them."""


def _attention(batch: Batch) -> Comparison:
    visible, device = batch.visible, batch.x.device

    def textbook(given: Batch) -> Work:
        module = _multihead().to(given.x)
        return _work(given, module, lambda x: textbook_multihead(module, x, given.visible))

    def theirs() -> Work:
        module = torch_multihead(_multihead()).to(visible.device)
        return _work(
            batch, module, lambda x: module(x, x, x, key_padding_mask=~visible, need_weights=False)[0]
        )

    def ours() -> Work:
        module = _multihead().to(visible.device)
        return _work(batch, module, lambda x: module(x, visible.unsqueeze(1)))

    def ours_packed() -> Work:
        module = _multihead().to(visible.device)

        def forward(x: Tensor) -> Tensor:
            packing = make_packing(visible.unsqueeze(1), SIZE)
            assert packing is not None
            return packing.unpack(module(packing.pack(x), packing=packing))

        return _work(batch, module, forward)

    methods = [
        Method("torch.nn.MultiheadAttention", theirs),
        Method("textbook", lambda: textbook(batch)),
        Method("ours, with a mask", ours),
    ]
    if device.type == "cpu":
        methods.append(Method("ours, packed, as in an encoder", ours_packed))
    note = "Packed: without the padded positions."
    return Comparison(_title("Attention alone", batch), methods, lambda: textbook(batch.double())(), note)


def _layer(batch: Batch) -> Comparison:
    visible = batch.visible

    def textbook(given: Batch) -> Work:
        encoder = _encoder().to(given.x)
        return _work(given, encoder, lambda x: textbook_encoder(encoder, x, given.visible))

    def theirs() -> Work:
        module = torch_encoder(_encoder()).to(visible.device)
        return _work(batch, module, lambda x: module(x, src_key_padding_mask=~visible))

    def theirs_compiled() -> Work:
        module = torch_encoder(_encoder()).to(visible.device)
        module.compile()
        return _work(batch, module, lambda x: module(x, src_key_padding_mask=~visible))

    def ours_compiled() -> Work:
        encoder = _encoder().to(visible.device)
        encoder.compile()
        lengths = batch.lengths
        return _work(batch, encoder, lambda x: encoder(x, lengths))

    def x_transformers() -> Work:
        module = x_encoder(SIZE, HEADS, 1).to(visible.device)
        return _work(batch, module, lambda x: module(x, mask=visible))

    def ours() -> Work:
        encoder = _encoder().to(visible.device)
        lengths = batch.lengths
        return _work(batch, encoder, lambda x: encoder(x, lengths))

    methods = [
        Method("torch.nn.TransformerEncoderLayer", theirs),
        Method("textbook", lambda: textbook(batch)),
        Method("x-transformers, flash", x_transformers, needs="x_transformers", exact=False),
        Method("ours", ours),
    ]
    if visible.is_cuda:
        methods.insert(1, Method("torch.nn.TransformerEncoderLayer, compiled", theirs_compiled))
        methods.append(Method("ours, compiled", ours_compiled))
    note = (
        "Norms first, feed-forward 4d with ReLU, a final norm, no dropout; x-transformers has fewer biases."
    )
    title = _title("Encoder layer", batch)
    return Comparison(
        title, methods, lambda: textbook(batch.double())(), note, (float(batch.lengths.sum()), "tokens/s")
    )


def _dropout(batch: Batch) -> Comparison:
    """Training with the usual dropout, except of attention weights, which no fused CPU kernel supports."""
    visible, lengths = batch.visible, batch.lengths

    def theirs() -> Work:
        module = torch_encoder(_encoder(), DROPOUT).to(visible.device)
        return _work(batch, module, lambda x: module(x, src_key_padding_mask=~visible))

    def ours() -> Work:
        encoder = _encoder(dropout=DROPOUT).to(visible.device)
        return _work(batch, encoder, lambda x: encoder(x, lengths))

    methods = [
        Method("torch.nn.TransformerEncoderLayer", theirs, exact=False),
        Method("ours", ours, exact=False),
    ]
    note = "Dropout within the feed-forward network and after both parts; ours on the input too."
    title = _title(f"Encoder layer with dropout {DROPOUT}", batch)
    return Comparison(title, methods, note=note, work=(float(lengths.sum()), "tokens/s"))


def _checkpointing(batch: Batch, layers: int) -> Comparison:
    def work(checkpointing: bool) -> Work:
        encoder = _encoder(layers, checkpointing=checkpointing).to(batch.x.device)
        return _work(batch, encoder, encoder)

    methods = [
        Method("checkpointing=false", lambda: work(False)),
        Method("checkpointing=true", lambda: work(True)),
    ]
    count, length = batch.visible.shape
    return Comparison(f"Encoder of {layers} layers, {count} x {length:,}, no padding, d {SIZE}", methods)


def _training(device: torch.device, quick: bool) -> Comparison:
    """Complete training steps in bf16, with the fraction of the GPU's peak that their products reach."""
    count, length, size, heads, layers = (2, 64, 64, 2, 2) if quick else (8, 2048, 1024, 16, 12)
    x = torch.randn(count, length, size, device=device)
    # 2 for a multiplication and an addition; 3 for forward, gradient of the input, gradient of the weight
    work = 3 * layers * count * length * (2 * 12 * size**2 + 2 * 2 * length * size)

    def step(model: nn.Module, *, compiled: bool = False) -> Work:
        model.to(device)
        if compiled:
            model.compile()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def work() -> Sequence[Tensor]:
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(x).float().square().mean()
            torch.autograd.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            return [loss.detach()]

        return work

    def own(**options: Any) -> Encoder:
        options |= {"d_model": size, "heads": heads, "layers": layers, "feedforward": 4 * size}
        return Encoder(Mechanism(ScaledDot), dropout=0.0, **options)

    def theirs() -> nn.Module:
        layer = nn.TransformerEncoderLayer(size, heads, 4 * size, 0.0, batch_first=True, norm_first=True)
        return nn.TransformerEncoder(layer, layers, nn.LayerNorm(size), enable_nested_tensor=False)

    x_step = lambda: step(x_encoder(size, heads, layers))  # noqa: E731
    methods = [
        Method("torch.nn.TransformerEncoder", lambda: step(theirs()), exact=False),
        Method("torch.nn.TransformerEncoder, compiled", lambda: step(theirs(), compiled=True), exact=False),
        Method("x-transformers, flash", x_step, needs="x_transformers", exact=False),
        Method("ours", lambda: step(own()), exact=False),
        Method("ours, checkpointing", lambda: step(own(checkpointing=True)), exact=False),
        Method("ours, compiled", lambda: step(own(), compiled=True), exact=False),
    ]
    note = (
        "A training step: forward, backward, AdamW. TFLOP/s are those of the model (what checkpointing "
        "recomputes is not counted), compared with the measured rate of a large bf16 product."
    )
    title = f"Training in bf16, {layers} layers, {count} x {length:,}, no padding, d {size}, {heads} heads"
    return Comparison(title, methods, note=note, work=(count * length, "tokens/s"), least=Least(work))


def _multihead() -> MultiHead:
    torch.manual_seed(0)
    return MultiHead(Mechanism(ScaledDot), SIZE, HEADS)


def _encoder(layers: int = 1, **options: Any) -> Encoder:
    torch.manual_seed(0)
    options |= {"d_model": SIZE, "heads": HEADS, "layers": layers, "feedforward": 4 * SIZE}
    return Encoder(Mechanism(ScaledDot), **{"dropout": 0.0} | options)
