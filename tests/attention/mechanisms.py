"""Every mechanism of the package, found by looking, and a small setting to try it in."""

import inspect
from functools import partial
from itertools import chain
from types import ModuleType
from typing import Any, NamedTuple

import references
import torch
from torch import Tensor, nn

from attention_lab.attention import (
    Attention,
    Epanechnikov,
    Kernel,
    Mechanism,
    QueryFree,
    ScaledDot,
    Score,
    normalizers,
    pooling,
    windows,
)
from attention_lab.attention.fast.additive.forms import ACTIVATIONS
from attention_lab.attention.windows import FALLOFFS

B, Q, K, D = 2, 4, 5, 3


def _below(kind: type[Score]) -> list[type[Score]]:
    """The class and all classes of the package that derive from it; not those of tests."""
    ours = [one for one in kind.__subclasses__() if one.__module__.startswith("attention_lab.")]
    return [kind, *chain.from_iterable(map(_below, ours))]


def _parts(module: ModuleType) -> dict[str, type[nn.Module]]:
    """The public modules that a file defines."""
    return {
        name: kind
        for name, kind in inspect.getmembers(module, inspect.isclass)
        if issubclass(kind, nn.Module) and kind.__module__ == module.__name__ and not name.startswith("_")
    }


SCORES = {kind.__name__: kind for kind in _below(Score) if kind not in (Score, Kernel)}
NORMALIZERS, WINDOWS, POOLINGS = map(_parts, (normalizers, windows, pooling))
NARROW: dict[str, dict[str, Any]] = {"Band": {"width": 1}, "LocalP": {"width": 2.0}}
"""Options with which a window leaves something out of a few keys."""


def _other_falloffs(window: type[nn.Module]) -> list[str]:
    """What a window takes as fall-off but its default; nothing for one that has no such option."""
    option = inspect.signature(window).parameters.get("falloff")
    return [] if option is None else [name for name in FALLOFFS if name != option.default]


class Case(NamedTuple):
    """A choice of parts by name, with options of the score."""

    score: str = "ScaledDot"
    normalizer: str = "Softmax"
    window: str = "Global"
    pooling: str = "Soft"
    activation: str | None = None
    falloff: str | None = None

    def __str__(self) -> str:
        """Where it differs from scaled dot product attention."""
        parts = [part for part, usual in zip(self, Case(), strict=True) if part != usual and part is not None]
        return "-".join(parts) or self.score

    def make(self, heads: int | None = None, temperature: float = 1.0) -> Attention:
        """The attention, in evaluation mode, its parameters drawn from a seed."""
        torch.manual_seed(0)
        options = {} if self.activation is None else {"activation": self.activation}
        falloff = {} if self.falloff is None else {"falloff": self.falloff}
        mechanism = Mechanism(
            partial(SCORES[self.score], **options),
            partial(NORMALIZERS[self.normalizer], temperature),
            POOLINGS[self.pooling],
            partial(WINDOWS[self.window], **NARROW.get(self.window, {}), **falloff),
        )
        attention = mechanism(D, D, heads)
        if isinstance(attention.score, Kernel):
            nn.init.uniform_(attention.score.width, 0.5, 0.8)
        if isinstance(attention.score, QueryFree):  # all are 0 at the start
            nn.init.normal_(attention.score.weight)
        return attention.eval()


CASES = [
    *(Case(score) for score in SCORES),
    *(
        Case(score, activation=name)
        for score in ("Additive", "Concat")
        for name in ACTIVATIONS
        if name != "tanh"
    ),
    *(
        Case(score, normalizer)
        for normalizer in NORMALIZERS
        for score in (ScaledDot.__name__, Epanechnikov.__name__)
        if normalizer != "Softmax"
    ),
    *(Case(window=window) for window in WINDOWS if window != "Global"),
    *(Case(window=name, falloff=other) for name, kind in WINDOWS.items() for other in _other_falloffs(kind)),
    *(Case(pooling=pooling) for pooling in POOLINGS if pooling != "Soft"),
]
"""Every part there is, the others as usual; normalisers also with a kernel that leaves keys out itself."""


def tensors(heads: int, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    """Queries, keys and values with gradients, drawn from a seed."""
    generator = torch.Generator().manual_seed(1)
    shapes = ((Q, D), (K, D), (K, 2))
    drawn = [torch.randn(B, heads, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
    return [tensor.to(dtype).requires_grad_() for tensor in drawn]


def masks() -> dict[str, Tensor | None]:
    """Masks of every kind."""
    padding = (torch.arange(K) < torch.tensor([K, 2])[:, None])[:, None, None]
    full = torch.rand(B, 1, Q, K, generator=torch.Generator().manual_seed(1)) > 0.4
    empty = full.clone()
    empty[:, :, 1] = False
    return {
        "none": None,
        "padding": padding,
        "empty example": padding & torch.tensor([True, False])[:, None, None, None],
        "per query": full,
        "empty rows": empty,
        "causal": torch.ones(Q, K, dtype=torch.bool).tril(),
    }


def gradients(output: Tensor, attention: Attention, inputs: list[Tensor], keep: bool = False) -> list[Tensor]:
    """Gradients of a combination of the output in inputs and parameters; zeros where there is none."""
    direction = torch.cos(torch.arange(output.numel(), dtype=torch.float64)).reshape(output.shape).to(output)
    leaves = [*inputs, *(one for one in attention.parameters() if one.requires_grad)]
    if not output.requires_grad:
        return [torch.zeros_like(x) for x in leaves]
    found = torch.autograd.grad((output * direction).sum(), leaves, allow_unused=True, retain_graph=keep)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(leaves, found, strict=True)]


def expected(attention: Attention, inputs: list[Tensor], mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """Context and weights by the references."""
    query, key, value = inputs
    everywhere = torch.ones(*query.shape[:3], key.shape[2], dtype=torch.bool)
    found = references.scores(attention.score, query, key)
    visible = everywhere if mask is None else everywhere & mask
    result: tuple[Tensor, Tensor] = references.attend(attention, found, query, value, visible)
    return result
