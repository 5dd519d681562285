"""Float64 references, written straight from the formulas, one query and one key at a time."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from attention_lab.attention import Kernel, Score

Pair = Callable[[Score, Tensor, Tensor, int | None], Tensor]


def _of_head(parameter: Tensor, head: int | None) -> Tensor:
    return parameter if head is None else parameter[head]


def _u(score: Score, q: Tensor, k: Tensor, head: int | None) -> Tensor:
    assert isinstance(score, Kernel)
    return (q - k) * _of_head(score.width, head).flatten()


def _additive(score: Score, q: Tensor, k: Tensor, head: int | None) -> Tensor:
    w_q, w_k, w_v = (_of_head(getattr(score, f"{name}_weight"), head) for name in ("query", "key", "value"))
    return (w_v.squeeze(-1) * torch.tanh(w_q @ q + w_k @ k)).sum()


def _log(kernel: Tensor) -> Tensor:
    return kernel.log() if kernel > 0 else torch.full_like(kernel, -math.inf)


PAIRS: dict[str, Pair] = {
    "Additive": _additive,
    "Dot": lambda score, q, k, head: (q * k).sum(),
    "ScaledDot": lambda score, q, k, head: (q * k).sum() / math.sqrt(len(k)),
    "General": lambda score, q, k, head: q @ _of_head(score.weight, head) @ k,
    "Gaussian": lambda score, q, k, head: -(_u(score, q, k, head) ** 2).sum() / 2,
    "Laplacian": lambda score, q, k, head: -_u(score, q, k, head).abs().sum(),
    "Epanechnikov": lambda score, q, k, head: _log((1 - (_u(score, q, k, head) ** 2).sum()).clamp_min(0)),
    "Boxcar": lambda score, q, k, head: _log(((_u(score, q, k, head) ** 2).sum() <= 1).to(q) + 0 * q.sum()),
    "Constant": lambda score, q, k, head: 0 * (q.sum() + k.sum()),
}
"""The score of one query and one key."""


def attend(
    score: Score, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Context `[B, H, Q, dv]` and weights `[B, H, Q, K]`; `mask` has the weights' shape."""
    pair = PAIRS[type(score).__name__]
    contexts, rows = [], []
    for b, h, q in torch.cartesian_prod(*(torch.arange(n) for n in query.shape[:3])).tolist():
        head = h if score.heads is not None else None
        kernels = [
            torch.exp(pair(score, query[b, h, q], key[b, h, k], head) / temperature)
            if mask[b, h, q, k]
            else None
            for k in range(key.shape[2])
        ]
        total = sum((kernel for kernel in kernels if kernel is not None), torch.zeros((), dtype=query.dtype))
        weights = torch.stack(
            [total.new_zeros(()) if kernel is None or total == 0 else kernel / total for kernel in kernels]
        )
        rows.append(weights)
        contexts.append(sum(weight * v for weight, v in zip(weights, value[b, h], strict=True)))
    shape = query.shape[:3]
    return torch.stack(contexts).reshape(*shape, -1), torch.stack(rows).reshape(*shape, -1)
