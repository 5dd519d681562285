"""Float64 references, written straight from the formulas, one query and one key at a time."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from attention_lab.attention import Attention, Kernel, Score

Pair = Callable[[Any, Tensor, Tensor, int | None, int], Tensor]


def _of_head(parameter: Tensor, head: int | None) -> Tensor:
    return parameter if head is None else parameter[head]


def _u(score: Score, q: Tensor, k: Tensor, head: int | None) -> Tensor:
    assert isinstance(score, Kernel)
    return (q - k) * _of_head(score.width, head).flatten()


ACTIVATIONS = {
    "tanh": lambda x: 1 - 2 / (1 + torch.exp(2 * x)),
    "relu": lambda x: (x + x.abs()) / 2,
    "leaky_relu": lambda x: 0.6 * x + 0.4 * x.abs(),
    "gelu": lambda x: x * (1 + torch.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + torch.exp(-x)),
}


def _additive(score: Any, q: Tensor, k: Tensor, head: int | None, j: int) -> Tensor:
    w_q, w_k, w_v = (_of_head(getattr(score, f"{name}_weight"), head) for name in ("query", "key", "value"))
    return (w_v.squeeze(-1) * ACTIVATIONS[score.activation](w_q @ q + w_k @ k)).sum()


def _concat(score: Any, q: Tensor, k: Tensor, head: int | None, j: int) -> Tensor:
    hidden = ACTIVATIONS[score.activation](_of_head(score.weight, head) @ torch.cat([q, k]))
    return (_of_head(score.value_weight, head).squeeze(-1) * hidden).sum()


def _cosine(score: Any, q: Tensor, k: Tensor, head: int | None, j: int) -> Tensor:
    cosine = (q * k).sum() / ((q**2).sum().sqrt() * (k**2).sum().sqrt())
    return _of_head(score.sharpness, head).sum() * cosine


def _phi(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, torch.exp(x.clamp_max(0)))


def _log(kernel: Tensor) -> Tensor:
    return kernel.log() if kernel > 0 else torch.full_like(kernel, -math.inf)


PAIRS: dict[str, Pair] = {
    "Additive": _additive,
    "Concat": _concat,
    "Cosine": _cosine,
    "Dot": lambda score, q, k, head, j: (q * k).sum(),
    "ScaledDot": lambda score, q, k, head, j: (q * k).sum() / math.sqrt(len(k)),
    "General": lambda score, q, k, head, j: q @ _of_head(score.weight, head) @ k,
    "Linear": lambda score, q, k, head, j: _log((_phi(q) * _phi(k)).sum()),
    "Location": lambda score, q, k, head, j: (_of_head(score.weight, head)[j] * q).sum() + 0 * k.sum(),
    "Gaussian": lambda score, q, k, head, j: -(_u(score, q, k, head) ** 2).sum() / 2,
    "Laplacian": lambda score, q, k, head, j: -_u(score, q, k, head).abs().sum(),
    "Epanechnikov": lambda score, q, k, head, j: _log((1 - (_u(score, q, k, head) ** 2).sum()).clamp_min(0)),
    "Boxcar": lambda score, q, k, head, j: _log(
        ((_u(score, q, k, head) ** 2).sum() <= 1).to(q) + 0 * q.sum()
    ),
    "Constant": lambda score, q, k, head, j: 0 * (q.sum() + k.sum()),
    "QueryFree": lambda score, q, k, head, j: _of_head(score.weight, head)[j] + 0 * (q.sum() + k.sum()),
}
"""The score of one query and one key, the j-th."""


def _softmax(s: Tensor) -> Tensor:
    kernel = torch.exp(s)
    return kernel / kernel.sum()


def _sparsemax(s: Tensor) -> Tensor:
    """1602.02068, algorithm 1."""
    ordered = s.sort(descending=True).values
    support = max(k for k in range(1, len(s) + 1) if 1 + k * ordered[k - 1] > ordered[:k].sum())
    threshold = (ordered[:support].sum() - 1) / support
    return torch.relu(s - threshold)


def _entmax15(s: Tensor) -> Tensor:
    """1905.05702, eq. 7: the threshold by bisection, then in closed form on the support that it leaves."""
    half = s / 2
    high = float(half.detach().max())
    low = high - 1
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (half - middle).clamp_min(0).square().sum() > 1 else (low, middle)
    inside = half[half > low]
    mean, square = inside.mean(), (inside**2).mean()
    threshold = mean - torch.sqrt(1 / len(inside) - (square - mean**2))
    return (half - threshold).clamp_min(0) ** 2


def _sigmoid(s: Tensor) -> Tensor:
    return 1 / (1 + len(s) * torch.exp(-s))


NORMALIZERS: dict[str, Callable[..., Tensor]] = {
    "Softmax": _softmax,
    "SinkSoftmax": lambda s, b: torch.exp(s) / (torch.exp(b) + torch.exp(s).sum()),
    "Sparsemax": _sparsemax,
    "Entmax15": _entmax15,
    "Sigmoid": _sigmoid,
}
"""The weights of a row of scores over temperature, of the keys that it may attend to, and of a sink."""


def _falloff(window: Any, distance: Tensor) -> Tensor:
    sigma = window.width / 2
    gaussian = torch.exp(-(distance**2) / (2 * sigma**2)) if sigma else torch.ones_like(distance)
    return {"none": torch.ones_like(distance), "gaussian": gaussian}[window.falloff]


def _band(window: Any, q: Tensor, head: int | None, t: int, seen: int) -> Callable[[int], Tensor | None]:
    return lambda j: _falloff(window, q.new_tensor(j - t)) if abs(j - t) <= window.width else None


def _local_p(window: Any, q: Tensor, head: int | None, t: int, seen: int) -> Callable[[int], Tensor | None]:
    weight, vector = (_of_head(x, head) / len(q) ** 0.5 for x in (window.scaled_weight, window.scaled_vector))
    p = seen / (1 + torch.exp(-(vector.squeeze(-1) * torch.tanh(weight @ q)).sum()))
    centre = float(p.detach())
    return lambda j: _falloff(window, j - p) if abs(j - centre) <= window.width else None


WINDOWS: dict[str, Callable[..., Callable[[int], Tensor | None]]] = {
    "Global": lambda window, q, head, t, seen: lambda j: torch.ones_like(q[0]),
    "Band": _band,
    "LocalP": _local_p,
}
"""For the query at position t that may see a number of keys: the factor of key j, or None outside."""


def _value_of_the_largest(weights: Tensor, value: Tensor) -> Tensor:
    return value[int(weights.argmax())] if weights.max() > 0 else 0 * value[0]


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "Soft": lambda weights, value: sum(a * v for a, v in zip(weights, value, strict=True)),  # type: ignore[misc]
    "Hard": _value_of_the_largest,
    "Gumbel": _value_of_the_largest,
    "Exact": _value_of_the_largest,
    "Monotonic": _value_of_the_largest,
}
"""The context of a row of weights, in evaluation."""


def scores(score: Score, query: Tensor, key: Tensor) -> Tensor:
    """Scores `[B, H, Q, K]`, pair by pair."""
    pair = PAIRS[type(score).__name__]
    batch, heads, queries, _ = query.shape
    keys = key.shape[2]
    found = [
        pair(score, query[b, h, q], key[b, h, k], h if score.heads is not None else None, k)
        for b, h, q, k in torch.cartesian_prod(*map(torch.arange, (batch, heads, queries, keys))).tolist()
    ]
    return torch.stack(found).reshape(batch, heads, queries, keys)


def attend(
    attention: Attention, all_scores: Tensor, query: Tensor, value: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Context `[B, H, Q, dv]` and weights `[B, H, Q, K]`; `mask` has the weights' shape."""
    normalize, window, pool = (
        table[type(part).__name__]
        for table, part in (
            (NORMALIZERS, attention.normalizer),
            (WINDOWS, attention.window),
            (POOLINGS, attention.pooling),
        )
    )
    contexts, rows = [], []
    for b, h, t in torch.cartesian_prod(*map(torch.arange, query.shape[:3])).tolist():
        head = h if attention.score.heads is not None else None
        factor = window(attention.window, query[b, h, t], head, t, int(mask[b, h, t].sum()))
        row = all_scores[b, h, t]
        kept = [
            j
            for j in range(len(row))
            if mask[b, h, t, j] and factor(j) is not None and float(row[j].detach()) > -math.inf
        ]
        weights = list(torch.zeros_like(row))
        if kept:
            temperature = attention.normalizer.temperature  # type: ignore[attr-defined]
            sink = [_of_head(x, head).squeeze() for x in attention.normalizer.parameters()]  # type: ignore[attr-defined]
            found = normalize(row[kept] / temperature, *sink)
            for place, j in enumerate(kept):
                weights[j] = found[place] * factor(j)
        rows.append(torch.stack(weights))
        contexts.append(pool(rows[-1], value[b, h]))
    shape = query.shape[:3]
    return torch.stack(contexts).reshape(*shape, -1), torch.stack(rows).reshape(*shape, -1)
