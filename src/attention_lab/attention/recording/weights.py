"""Exact weights of one call of a fused kernel, recomputed from its inputs a block of rows at a time."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attention_lab.attention.masks import known_all_true
from attention_lab.attention.recorder import Selection

BLOCK = 2**23
"""Scores that are held at a time, at least one row: 32 MiB in float32."""

LOWEST = -9000.0
"""Scores at or below this are masked: models fill with -1e4 or lower, and may add it to scores."""
Modify = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor | None]]
"""Maps scores `[B, H, Q, K]` and indices of examples, heads, queries and keys to scores and a mask."""


@dataclass(frozen=True)
class KernelCall:
    """One call of a kernel: `softmax(cap(scale q k^T) + bias)` over the visible keys and the sink.

    Attributes:
        query: `[B, H, Q, d]`.
        key: `[B, G, K, d]`; each of the G heads serves H / G heads of the queries.
        scale: factor on the scores.
        mask: broadcastable to `[B, H, Q, K]`: boolean, True = attend, or a bias that is added to the scores.
        causal: a query sees the keys up to its own position, counted from the first query and key.
        shift: the position of the first query, for `causal` and `window`.
        window: how many keys a query sees on either side, or before it if causal, its own included.
        softcap: limits the scores to `softcap * tanh(score / softcap)`, before the mask.
        sinks: `[H]`, the score of a key without a value, which takes a share of the weights.
        modify: changes and masks the scores, as in FlexAttention (2412.05496).
    """

    query: Tensor
    key: Tensor
    scale: float
    mask: Tensor | None = None
    causal: bool = False
    shift: int = 0
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None
    modify: Modify | None = None

    def weights(self, selection: Selection, before: int = 0) -> tuple[Tensor, Tensor | None]:
        """Weights `[B, H, Q, K]` of the selected examples, heads and queries, and their mask.

        They are computed at least in float32. A row without a visible key has zero weights.

        Args:
            selection: what to compute.
            before: the number of queries in earlier calls of the same attention.
        """
        examples, heads, queries = self._indices(selection, before)
        size = len(examples), len(heads), len(queries), self.key.shape[-2]
        dtype = torch.promote_types(self.query.dtype, torch.float32)
        shared = self.query.shape[1] // self.key.shape[1]
        # The batch is indexed first, so that only the chosen examples are copied.
        key = self.key[examples][:, heads // shared].to(dtype).mT
        chosen = self.query[examples][:, heads][:, :, queries].to(dtype)
        blocks = [*_blocks(len(queries), size[0] * size[1] * size[3])]
        if len(blocks) == 1:  # nothing to join, so the mask is not copied
            weights, mask = self._of_rows(chosen, key, examples, heads, queries)
            return weights, None if mask is None else mask.expand(size)
        weights = torch.empty(size, dtype=dtype, device=self.query.device)
        masked = self.causal or any(x is not None for x in (self.window, self.mask, self.modify))
        masks = torch.empty(size, dtype=torch.bool, device=self.query.device) if masked else None
        for rows in blocks:
            some = chosen[:, :, rows]
            weights[:, :, rows], mask = self._of_rows(some, key, examples, heads, queries[rows])
            if masks is not None:
                masks[:, :, rows] = True if mask is None else mask
        return weights, masks

    def _of_rows(
        self, chosen: Tensor, key: Tensor, examples: Tensor, heads: Tensor, queries: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The weights of some rows, and their mask."""
        scores = torch.matmul(chosen, key).mul_(self.scale)
        scores, mask = self._masked(scores, examples, heads, queries)
        return self._normalised(scores, heads), mask

    def _indices(self, selection: Selection, before: int) -> tuple[Tensor, Tensor, Tensor]:
        """The selected examples, heads and queries, as indices."""
        batch, heads, queries, _ = self.query.shape
        all_indices = [torch.arange(size, device=self.query.device) for size in (batch, heads, queries)]
        of = [selection.of_batch(batch), selection.of_heads(heads), selection.of_queries(queries, before)]
        first, second, third = (indices[index] for indices, index in zip(all_indices, of, strict=True))
        return first, second, third

    def _masked(
        self, scores: Tensor, examples: Tensor, heads: Tensor, queries: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """The scores of some rows with their bias, `-inf` where masked, and the mask."""
        keys = torch.arange(scores.shape[-1], device=scores.device)
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        visible: Tensor | None = None
        if self.modify is not None:
            scores, visible = self.modify(scores, examples, heads, queries, keys)
        if self.mask is not None:
            mask = _part(self.mask, examples, heads, queries)
            if mask.dtype == torch.bool:
                visible = _both(visible, mask)
            else:
                # A kernel adds this bias as it is: a row of lowest values everywhere attends to all keys.
                scores = scores + mask
                visible = _both(visible, attended(mask))
                return scores, visible
        if self.causal or self.window is not None:
            ago = queries[:, None] + self.shift - keys
            if self.window is not None:
                visible = _both(visible, ago.abs() < self.window)
            if self.causal:
                visible = _both(visible, ago >= 0)
        if visible is None:
            return scores, None
        # The user may still use what the function has returned, so nothing is changed in place.
        fill = scores.masked_fill_ if self.modify is None else scores.masked_fill
        return fill(~visible, -torch.inf), visible

    def _normalised(self, scores: Tensor, heads: Tensor) -> Tensor:
        """The softmax of the scores of some rows, with the sink; zero in a row without a key."""
        if self.sinks is not None:
            sinks = self.sinks[heads].to(scores.dtype)[:, None, None].expand(*scores.shape[:-1], 1)
            return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
        weights = scores.softmax(-1)
        if known_all_true(~weights[..., :1].isnan()):  # a softmax gives NaN to a whole row
            return weights
        return weights.masked_fill_(scores.isneginf().all(-1, keepdim=True), 0.0)

    def packed(self, heads: int, queries: int) -> "KernelCall":
        """The same call with all heads and one query each, if the heads of a group were passed as queries."""
        if self.query.shape[1:3] == (heads, queries) or queries != 1:
            return self
        batch, groups, shared, size = self.query.shape
        if groups * shared != heads:
            return self
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[1] * mask.shape[2] == heads:
            mask = mask.reshape(len(mask), heads, 1, mask.shape[-1])
        return replace(self, query=self.query.reshape(batch, heads, 1, size), mask=mask)


def attended(bias: Tensor) -> Tensor:
    """Which scores or biases do not mean "masked": those above `LOWEST`, and NaN."""
    return (bias <= LOWEST).logical_not_()


def attended_scores(scores: Tensor, dim: int) -> Tensor:
    """Which scores, of keys along `dim`, are not low enough to mean "masked".

    All scores of a row may be low without a mask, such as negative squared distances.
    """
    if not scores.numel():
        return attended(scores)
    filled = -3e4 if scores.dtype == torch.float16 else -1e8  # no model computes scores below this
    lowest = torch.where(scores.amax(dim, keepdim=True) > LOWEST, LOWEST, filled)
    return (scores <= lowest).logical_not_()


def without_nan(weights: Tensor, mask: Tensor | None) -> Tensor:
    """The weights, with zeros in rows without a key, where a softmax gives NaN; a copy.

    If there is no mask, all rows of NaN are taken for such rows.
    """
    empty = weights.isnan().all(-1, keepdim=True)
    return weights.masked_fill(empty if mask is None else empty & ~mask.any(-1, keepdim=True), 0.0)


def _both(one: Tensor | None, other: Tensor) -> Tensor:
    return other if one is None else one & other


def _part(mask: Tensor, *index: Tensor) -> Tensor:
    """The selected examples, heads and queries of a mask that is broadcast to `[B, H, Q, K]`."""
    mask = mask[(None,) * (4 - mask.dim())]
    for dimension, indices in enumerate(index):
        if mask.shape[dimension] > 1:
            mask = mask.index_select(dimension, indices)
    return mask


def _blocks(rows: int, cells: int) -> Iterator[slice]:
    """The rows in blocks of at most `BLOCK` scores, for rows of `cells` scores each."""
    step = max(1, BLOCK // max(1, cells))
    for start in range(0, rows, step):
        yield slice(start, start + step)
