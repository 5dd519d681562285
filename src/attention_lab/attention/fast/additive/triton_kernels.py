"""The kernels of `triton_scores`; imported only if Triton is installed.

With E_a = exp(-rate a) and E_b = exp(-rate b), computed once per query and key, r = sigmoid(rate (a + b)) =
1 / d with d = 1 + E_a E_b. Two of them, consecutive terms of the same sum, share one division:
p = 1 / (d_0 d_1), r_0 = d_1 p, r_1 = d_0 p. On a GPU, the divisions limit the speed.

The exponents are clamped to [-`CLAMP`, `CLAMP`], and an example is computed this way only if the exponents of
its queries or those of its keys lie within [-`NEAR`, `NEAR`]. `forms.rational` shows why the error is at most
exp(NEAR - CLAMP) = 2e-8, less than the rounding of 1. If d_0 d_1 overflows, both r are below exp(-30) and
become 0. An example whose queries and keys both go beyond takes a sigmoid of each sum instead.

All tensors are contiguous. A last tile that would cross the end starts earlier, so no load needs a mask; it
stores only what no other tile stores.
"""

import triton.language as tl

from attention_lab.attention.fast.triton_tools import kernel

NEAR, CLAMP = tl.constexpr(20.0), tl.constexpr(38.0)


def _reciprocal(x: tl.tensor, nvidia: tl.constexpr) -> tl.tensor:
    """`1 / x`; on NVIDIA one instruction, with an error of one unit in the last place."""
    if nvidia:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


def _near(largest_pointer: tl.tensor, example: tl.tensor, examples: tl.tensor) -> tl.tensor:
    """Whether the exponents of the queries or of the keys of an example allow products of exponentials."""
    of_queries, of_keys = largest_pointer + example, largest_pointer + examples + example
    return (tl.load(of_queries) <= NEAR) | (tl.load(of_keys) <= NEAR)


reciprocal, near = kernel(_reciprocal), kernel(_near)


def _exponentials(
    a_pointer: tl.tensor,
    out_pointer: tl.tensor,
    largest_pointer: tl.tensor,
    rows: tl.tensor,
    hidden: tl.tensor,
    row_stride: tl.tensor,
    unit_stride: tl.tensor,
    rate: tl.tensor,
    row_tile: tl.constexpr,
    hidden_tile: tl.constexpr,
) -> None:
    """One program computes E_a for a tile of rows of one example, and updates its largest exponent."""
    tiles = tl.cdiv(rows, row_tile)
    tile, example = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    row = (tile * row_tile + tl.arange(0, row_tile)).to(tl.int64)
    a_pointer += example * rows * hidden
    out_pointer += example * rows * hidden
    largest = tl.zeros((row_tile, hidden_tile), tl.float32)
    for start in range(0, hidden, hidden_tile):
        h = start + tl.arange(0, hidden_tile)
        inside = (row[:, None] < rows) & (h < hidden)
        x = tl.load(a_pointer + row[:, None] * hidden + h, mask=inside, other=0.0) * -rate
        largest = tl.maximum(largest, tl.abs(x))
        x = tl.where(x > CLAMP, CLAMP, tl.where(x < -CLAMP, -CLAMP, x))  # a NaN stays
        tl.store(
            out_pointer + row[:, None] * row_stride + h.to(tl.int64) * unit_stride, tl.exp(x), mask=inside
        )
    tl.atomic_max(largest_pointer + example, tl.max(tl.max(largest, axis=1), axis=0))


def _scores(
    x_pointer: tl.tensor,
    y_pointer: tl.tensor,
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    largest_pointer: tl.tensor,
    w_pointer: tl.tensor,
    out_pointer: tl.tensor,
    examples: tl.tensor,
    queries: tl.tensor,
    keys: tl.tensor,
    hidden: tl.tensor,
    weight_stride: tl.tensor,
    rate: tl.tensor,
    row_tile: tl.constexpr,
    column_tile: tl.constexpr,
    nvidia: tl.constexpr,
) -> None:
    """One program computes a tile of queries by keys of one example, from E_a `[h, Q]` and E_b `[h, K]`."""
    across = tl.cdiv(keys, column_tile)
    tiles = tl.cdiv(queries, row_tile) * across
    tile, example = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    first_q, first_k = (tile // across) * row_tile, (tile % across) * column_tile
    q_start, k_start = tl.minimum(first_q, queries - row_tile), tl.minimum(first_k, keys - column_tile)
    q, k = tl.arange(0, row_tile), tl.arange(0, column_tile)
    w_pointer += example * weight_stride
    total = tl.zeros((row_tile, column_tile), tl.float32)
    if near(largest_pointer, example, examples):
        x = x_pointer + (example * queries * hidden + q_start)
        y = y_pointer + (example * keys * hidden + k_start)
        for _four in range(hidden // 4):
            for _pair in tl.static_range(2):
                d_0 = tl.load(x + q[:, None]) * tl.load(y + k) + 1.0
                d_1 = tl.load((x + queries) + q[:, None]) * tl.load((y + keys) + k) + 1.0
                total += (tl.load(w_pointer) * d_1 + tl.load(w_pointer + 1) * d_0) * reciprocal(
                    d_0 * d_1, nvidia
                )
                x += 2 * queries
                y += 2 * keys
                w_pointer += 2
        for _one in range(hidden % 4):
            d = tl.load(x + q[:, None]) * tl.load(y + k) + 1.0
            total += tl.load(w_pointer) * reciprocal(d, nvidia)
            x += queries
            y += keys
            w_pointer += 1
    else:
        a = a_pointer + (example * queries + q_start) * hidden
        b = b_pointer + (example * keys + k_start) * hidden
        for h in range(hidden):
            z = tl.load((a + h) + q[:, None] * hidden) + tl.load((b + h) + k * hidden)
            total += tl.load(w_pointer + h) * tl.sigmoid(z * rate)
    out = out_pointer + ((example * queries + q_start) * keys + k_start)
    new = (q_start + q >= first_q)[:, None] & (k_start + k >= first_k)
    tl.store(out + q[:, None].to(tl.int64) * keys + k, total, mask=new)


def _gradient_sums(
    x_pointer: tl.tensor,
    y_pointer: tl.tensor,
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    largest_pointer: tl.tensor,
    g_pointer: tl.tensor,
    slopes_pointer: tl.tensor,
    values_pointer: tl.tensor,
    examples: tl.tensor,
    queries: tl.tensor,
    keys: tl.tensor,
    hidden: tl.tensor,
    rate: tl.tensor,
    row_tile: tl.constexpr,
    hidden_tile: tl.constexpr,
    with_values: tl.constexpr,
    nvidia: tl.constexpr,
) -> None:
    """The gradient: one program computes a tile of queries by hidden units of one example, over all keys.

    The sums are `slopes` and `values`, from E_a `[Q, h]`, E_b `[K, h]` and the gradient `[K, Q]`.
    """
    across = tl.cdiv(hidden, hidden_tile)
    tiles = tl.cdiv(queries, row_tile) * across
    tile, example = tl.program_id(0) % tiles, (tl.program_id(0) // tiles).to(tl.int64)
    first_q, first_h = (tile // across) * row_tile, (tile % across) * hidden_tile
    q_start, h_start = tl.minimum(first_q, queries - row_tile), tl.minimum(first_h, hidden - hidden_tile)
    q, h = tl.arange(0, row_tile)[:, None], tl.arange(0, hidden_tile)
    place = ((example * queries + q_start) * hidden + h_start) + (q * hidden + h)
    g = g_pointer + (example * queries * keys + q_start)
    of_keys = example * keys * hidden + h_start
    slopes = tl.zeros((row_tile, hidden_tile), tl.float32)
    values = tl.zeros((row_tile, hidden_tile), tl.float32)
    if near(largest_pointer, example, examples):
        x = tl.load(x_pointer + place)
        y = y_pointer + of_keys
        for _ in range(keys // 2):
            d_0, d_1 = x * tl.load(y + h) + 1.0, x * tl.load((y + hidden) + h) + 1.0
            p = reciprocal(d_0 * d_1, nvidia)
            r_0, r_1 = d_1 * p, d_0 * p
            g_0, g_1 = tl.load(g + q), tl.load((g + queries) + q)
            if with_values:
                values += g_0 * r_0
                values += g_1 * r_1
            slopes += g_0 * (r_0 - r_0 * r_0)
            slopes += g_1 * (r_1 - r_1 * r_1)
            y += 2 * hidden
            g += 2 * queries
        if keys % 2:
            r_0 = reciprocal(x * tl.load(y + h) + 1.0, nvidia)
            g_0 = tl.load(g + q)
            values += g_0 * r_0
            slopes += g_0 * (r_0 - r_0 * r_0)
    else:
        a = tl.load(a_pointer + place)
        b = b_pointer + of_keys
        for _ in range(keys):
            r = tl.sigmoid((a + tl.load(b + h)) * rate)
            value = tl.load(g + q) * r
            values += value
            slopes += value * (1 - r)
            b += hidden
            g += queries
    new = (q_start + q >= first_q) & (h_start + h >= first_h)
    tl.store(slopes_pointer + place, slopes, mask=new)
    if with_values:
        tl.store(values_pointer + place, values, mask=new)


exponentials = kernel(_exponentials, ["rows", "hidden", "row_stride", "unit_stride"])
scores = kernel(_scores, ["examples", "queries", "keys", "hidden", "weight_stride"])
gradient_sums = kernel(_gradient_sums, ["examples", "queries", "keys", "hidden"])
