"""Additive scores and their gradients a few pairs at a time: at most `CHUNK` hidden units exist at once."""

import math
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from attention_lab.attention.fast.additive.forms import Form

CHUNK = 2**20
"""Hidden units in memory at once. Smaller chunks fit a nearer cache, but cost more calls and barriers."""

Tile = tuple[slice, slice, slice]


def tiles(examples: int, queries: int, keys: int, hidden: int) -> Iterator[Tile]:
    """Slices of examples, queries and keys that cover all pairs; keys are split last, examples first."""
    n = max(1, CHUNK // max(1, queries * keys * hidden))
    q = queries if n > 1 else min(queries, max(1, CHUNK // max(1, keys * hidden)))
    k = keys if q > 1 else min(keys, max(1, CHUNK // max(1, hidden)))
    for i in range(0, examples, n):
        for j in range(0, queries, max(1, q)):
            for m in range(0, keys, max(1, k)):
                yield slice(i, i + n), slice(j, j + q), slice(m, m + k)


class Chunks:
    """The pairs of x `[N, Q, h]` and y `[N, K, h]`, the results of `form.enter` on queries and keys.

    Args:
        form: the activation.
        x: from the queries.
        y: from the keys.
        state: the state of all pairs as saved by `scores`; read, never written.
    """

    def __init__(
        self, form: Form, x: Float[Tensor, "N Q h"], y: Float[Tensor, "N K h"], state: Tensor | None = None
    ) -> None:
        self.form, self.x, self.y, self.state = form, x, y, state
        self._buffer = x.new_empty(0)
        self.shape = (x.shape[0], x.shape[1], y.shape[1], x.shape[2])

    def _states(self) -> Iterator[tuple[Tile, Tensor]]:
        for tile in tiles(*self.shape):
            n, q, k = tile
            x, y = self.x[n, q].unsqueeze(2), self.y[n, k].unsqueeze(1)
            shape = (*x.shape[:2], *y.shape[2:])
            size = math.prod(shape)
            if self._buffer.numel() < size:  # allocate once: new pages cost more than computing
                self._buffer = x.new_empty(size)
            yield tile, self.form.state(x, y, self._buffer[:size].view(shape))

    def scores(self, weight: Float[Tensor, "W h"]) -> Float[Tensor, "N Q K"]:
        """`sum_h w_h value(s_h)` of all pairs, with one w or one for each example.

        If all pairs fit into one chunk, their state is saved in `state`.
        """
        examples, queries, keys, _ = self.shape
        scores = self.x.new_empty(examples, queries, keys)
        for (n, q, k), s in self._states():
            value = self.form.value(s)
            of = weight[0] if len(weight) == 1 else weight[n, None, :, None]
            found = value @ of
            scores[n, q, k] = found if len(weight) == 1 else found.squeeze(-1)
            if len(s) * s.shape[1] * s.shape[2] == examples * queries * keys:
                self.state = s
        return scores

    def gradient_sums(
        self, gradient: Float[Tensor, "N Q K"], weights: int
    ) -> tuple[Float[Tensor, "N Q h"], Float[Tensor, "N K h"], Float[Tensor, "W h"]]:
        """The gradients of queries, keys and weights, up to factors that `scores.backward` supplies.

        They are `sum_k g slope(s)`, `sum_q g slope(s)`, and `sum g value(s)` for each of the weights.
        """
        if self.state is not None:
            return self._gradient_sums(self.state, gradient, weights, None)
        of_x, of_y = torch.zeros_like(self.x), torch.zeros_like(self.y)
        of_w = self.x.new_zeros(weights, self.shape[-1])
        for (n, q, k), s in self._states():
            rows, columns, values = self._gradient_sums(s, gradient[n, q, k], weights, s)
            of_x[n, q] += rows
            of_y[n, k] += columns
            of_w[n if weights > 1 else slice(None)] += values
        return of_x, of_y, of_w

    def _gradient_sums(
        self, s: Tensor, gradient: Tensor, weights: int, out: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The result of `gradient_sums` for one tile with the states s."""
        size, queries, _, hidden = s.shape
        value = self.form.value(s).view(size, -1, hidden)
        if weights == 1:
            of_w = (value.view(-1, hidden).mT @ gradient.reshape(-1)).unsqueeze(0)
        else:
            of_w = torch.bmm(gradient.reshape(size, 1, -1), value).squeeze(1)
        slope = self.form.slope(s, out).mul_(gradient.unsqueeze(-1))
        return slope.sum(2), slope.squeeze(1) if queries == 1 else slope.sum(1), of_w
