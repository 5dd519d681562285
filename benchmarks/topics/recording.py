"""Recording the attention of any model, against eager attention, attnread and attnview.

attnread requires a newer PyTorch than the tests use: `pip install --no-deps attnread attnview nnsight`.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import recording
from attention_lab.notebook import show
from benchmarks.measuring.harness import Comparison, Method, Work

LAYERS, HEADS = 4, 8


def comparisons(device: torch.device, quick: bool) -> Iterator[Comparison]:
    """All weights, one head, one example of many, a long input, and an HTML page of weights."""
    length = 32 if quick else 512
    model, tokens = _language_model(device), torch.randint(3, 900, (1, length), device=device)
    yield _weights(model, tokens)
    yield _one_head(model, tokens)
    yield _one_of_many(device, quick)
    yield _long(device, quick)
    yield _page(16 if quick else 512)


class Layer(nn.Module):
    """A causal layer of a third-party Transformer, with the fused kernel."""

    def __init__(self, size: int = 256) -> None:
        super().__init__()
        self.projections, self.output = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.feedforward = nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))
        self.norms = nn.ModuleList(nn.LayerNorm(size) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """The output `[B, L, size]` for an input of the same shape."""
        batch, length, size = x.shape
        parts = self.projections(self.norms[0](x)).view(batch, length, 3, HEADS, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        context = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(context.transpose(1, 2).reshape(batch, length, size))
        return x + self.feedforward(self.norms[1](x))  # type: ignore[no-any-return]


def _language_model(device: torch.device, implementation: str = "sdpa") -> nn.Module | None:
    """A small random Llama from transformers; None if transformers is not installed."""
    if find_spec("transformers") is None:
        return None
    transformers = import_module("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 256, "vocab_size": 1000}
    config = transformers.LlamaConfig(
        **sizes, num_hidden_layers=LAYERS, num_attention_heads=HEADS, num_key_value_heads=HEADS
    )
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation=implementation)
    return model.eval().requires_grad_(False).to(device)  # type: ignore[no-any-return]


@torch.no_grad()
def _recorded(model: nn.Module, inputs: Any, **options: Any) -> list[Tensor]:
    with recording(model, **options) as weights:
        model(inputs)
    return list(weights.values())


def _eager(model: nn.Module, tokens: Tensor) -> Work:
    """The method without a recorder: load the model with eager attention, and request its weights."""
    other = _language_model(tokens.device, "eager")
    assert other is not None
    other.load_state_dict(model.state_dict())

    @torch.no_grad()
    def run() -> list[Tensor]:
        return list(other(tokens, output_attentions=True).attentions)

    return run


def _attnread(model: nn.Module, tokens: Tensor, heads: Sequence[tuple[int, int]] | None) -> Work:
    extract_attention = import_module("attnread").extract_attention
    copied = deepcopy(model)  # attnread's hooks remain on the model

    def run() -> list[Tensor]:
        found: Mapping[Any, Tensor] = extract_attention(copied, {"input_ids": tokens}, heads=heads)
        if heads is not None:
            return [found["text", layer, head].unsqueeze(1) for layer, head in heads]
        return [
            torch.stack([found["text", layer, head] for head in range(HEADS)], 1) for layer in range(LAYERS)
        ]

    return run


def _exact(model: nn.Module, tokens: Tensor) -> list[Tensor]:
    """The weights in float64."""
    return _recorded(deepcopy(model).double(), tokens)


def _weights(model: nn.Module | None, tokens: Tensor) -> Comparison:
    title = f"All weights of a Llama of {LAYERS} layers, {HEADS} heads, {tokens.shape[1]:,} tokens"
    if model is None:
        return Comparison(title, [Method("transformers", lambda: list, needs="transformers")])
    methods = [
        Method("attn_implementation=eager, output_attentions", partial(_eager, model, tokens)),
        Method("ours, alongside sdpa", lambda: partial(_recorded, model, tokens)),
        Method("attnread 0.1, through sdpa", partial(_attnread, model, tokens, None), needs="attnread"),
    ]
    note = (
        "attnread reruns the model for every chunk of keys in every layer; that is how it sees into opaque "
        "kernels."
    )
    return Comparison(title, methods, reference=partial(_exact, model, tokens), note=note)


def _one_head(model: nn.Module | None, tokens: Tensor) -> Comparison:
    title = f"One head of one layer of it, {tokens.shape[1]:,} tokens"
    if model is None:
        return Comparison(title, [Method("transformers", lambda: list, needs="transformers")])
    name = "model.layers.2"

    def reference() -> list[Tensor]:
        return [_exact(model, tokens)[2][:, [5]]]

    def one_of_all() -> Work:
        everything = _eager(model, tokens)
        return lambda: [everything()[2][:, [5]]]

    methods = [
        Method("eager, all of it", one_of_all),
        Method("ours", lambda: partial(_recorded, model, tokens, names=[name], heads=[5])),
        Method("attnread 0.1", partial(_attnread, model, tokens, [(2, 5)]), needs="attnread"),
    ]
    return Comparison(title, methods, reference=reference)


def _one_of_many(device: torch.device, quick: bool) -> Comparison:
    """The cost of recording one example of a batch of 32."""
    batch, length = (4, 16) if quick else (32, 128)
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS))).eval().to(device)
    x = torch.randn(batch, length, 256, device=device)

    @torch.no_grad()
    def plain() -> list[Tensor]:
        return [model(x)]

    @torch.no_grad()
    def run() -> list[Tensor]:
        with recording(model, 0):
            return [model(x)]

    return Comparison(
        f"A forward pass of {LAYERS} layers, batch {batch}, length {length}, size 256",
        [Method("alone", lambda: plain), Method("one example recorded", lambda: run)],
        reference=plain,
        note="The error is that of the outputs against the same model without recording: not a bit differs.",
    )


def _long(device: torch.device, quick: bool) -> Comparison:
    """A long input with some of its queries recorded."""
    length, every = (256, 16) if quick else (8192, 64)
    torch.manual_seed(0)
    model = nn.Sequential(*(Layer() for _ in range(LAYERS))).eval().to(device)
    x = torch.randn(1, length, 256, device=device)

    @torch.no_grad()
    def plain() -> list[Tensor]:
        return [model(x)]

    return Comparison(
        f"{length:,} tokens, {LAYERS} layers of {HEADS} heads",
        [
            Method("the model alone", lambda: plain, exact=False),
            Method(
                f"{length // every} queries recorded",
                lambda: partial(_recorded, model, x, queries=range(0, length, every)),
                exact=False,
            ),
        ],
        note=f"All weights would take {LAYERS * HEADS * length**2 * 4 / 2**30:.1f} GiB.",
    )


def _page(length: int) -> Comparison:
    """An HTML page of the heads of one layer."""
    torch.manual_seed(0)
    weights = torch.randn(HEADS, length, length).softmax(-1)
    words = [f"word{number}" for number in range(length)]

    def theirs() -> Work:
        render_html = import_module("attnview").render_html
        return lambda: [torch.tensor(len(render_html(weights, tokens=words)))]

    return Comparison(
        f"A page of {HEADS} heads, {length:,} tokens",
        [
            Method("attnview 0.5", theirs, needs="attnview", exact=False),
            Method("ours", lambda: lambda: [torch.tensor(len(show(weights, words).html))], exact=False),
        ],
    )
