"""The kernels of `triton_scores`; imported only if Triton is installed."""

import triton
import triton.language as tl


def _scores(
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    w_pointer: tl.tensor,
    out_pointer: tl.tensor,
    queries: tl.tensor,
    keys: tl.tensor,
    hidden: tl.tensor,
    weight_stride: tl.tensor,
    rate: tl.tensor,
    row_tile: tl.constexpr,
    column_tile: tl.constexpr,
    hidden_tile: tl.constexpr,
) -> None:
    """One program computes a tile of queries by keys of one example. All tensors are contiguous."""
    across = tl.cdiv(keys, column_tile)
    tiles = tl.cdiv(queries, row_tile) * across
    tile, example = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    q = (tile // across) * row_tile + tl.arange(0, row_tile)
    k = (tile % across) * column_tile + tl.arange(0, column_tile)
    a_pointer += example * queries * hidden
    b_pointer += example * keys * hidden
    w_pointer += example * weight_stride
    out_pointer += example * queries * keys
    total = tl.zeros((row_tile, column_tile), tl.float32)
    for start in range(0, hidden, hidden_tile):
        h = start + tl.arange(0, hidden_tile)
        a = tl.load(
            a_pointer + q[:, None] * hidden + h, mask=(q[:, None] < queries) & (h < hidden), other=0.0
        )
        b = tl.load(b_pointer + k[:, None] * hidden + h, mask=(k[:, None] < keys) & (h < hidden), other=0.0)
        w = tl.load(w_pointer + h, mask=h < hidden, other=0.0)  # weight 0 beyond the end
        r = tl.sigmoid((a[:, None, :] + b[None, :, :]) * rate)
        total += tl.sum(r * w, axis=2)
    inside = (q[:, None] < queries) & (k < keys)
    tl.store(out_pointer + q[:, None].to(tl.int64) * keys + k, total, mask=inside)


def _rows(
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    g_pointer: tl.tensor,
    slopes_pointer: tl.tensor,
    values_pointer: tl.tensor,
    queries: tl.tensor,
    keys: tl.tensor,
    hidden: tl.tensor,
    rate: tl.tensor,
    row_tile: tl.constexpr,
    hidden_tile: tl.constexpr,
) -> None:
    """One program computes a tile of queries by hidden units of one example, over all keys."""
    across = tl.cdiv(hidden, hidden_tile)
    tiles = tl.cdiv(queries, row_tile) * across
    tile, example = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    q = (tile // across) * row_tile + tl.arange(0, row_tile)
    h = (tile % across) * hidden_tile + tl.arange(0, hidden_tile)
    inside = (q[:, None] < queries) & (h < hidden)
    place = example * queries * hidden + q[:, None] * hidden + h
    b_pointer += example * keys * hidden
    g_pointer += example * queries * keys
    a = tl.load(a_pointer + place, mask=inside, other=0.0)
    slopes = tl.zeros((row_tile, hidden_tile), tl.float32)
    values = tl.zeros((row_tile, hidden_tile), tl.float32)
    for k in range(keys):
        b = tl.load(b_pointer + k * hidden + h, mask=h < hidden, other=0.0)
        g = tl.load(g_pointer + q.to(tl.int64) * keys + k, mask=q < queries, other=0.0)
        r = tl.sigmoid((a + b[None, :]) * rate)
        value = g[:, None] * r
        values += value
        slopes += value * (1 - r)
    tl.store(slopes_pointer + place, slopes, mask=inside)
    tl.store(values_pointer + place, values, mask=inside)


scores = triton.jit(_scores)
rows = triton.jit(_rows)
