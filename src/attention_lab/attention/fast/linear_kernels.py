"""The kernels of `linear_triton`; imported only if Triton is installed.

Causal linear attention is `n_i = sum_{j <= i} (q_i . k_j) v_j`, `z_i = sum_{j <= i} q_i . k_j` and
`o_i = n_i / z_i`. With the gradient g of o, those of n and z are `g / z` and `-(g . o) / z`; call them x
and y:

    dq_i = sum_{j <= i} (x_i . v_j + y_i) k_j
    dk_j = sum_{i >= j} (x_i . v_j + y_i) q_i
    dv_j = sum_{i >= j} (q_i . k_j) x_i

One program takes one sequence, chunk by chunk: all pairs inside a chunk, and one matrix for everything before
it, or after it for keys and values. Sums are in float32. Tensors are contiguous, `[N, L, features]`.
"""

import triton.language as tl

from attention_lab.attention.fast.triton_tools import kernel


def _rows(
    pointer: tl.tensor, row: tl.tensor, inside: tl.tensor, column: tl.tensor, width: tl.tensor
) -> tl.tensor:
    """The rows of a chunk `[C, width]`, with zeros beyond the end."""
    mask = inside[:, None] & (column < width)
    return tl.load(pointer + row[:, None] * width + column, mask=mask, other=0.0)


def _save(
    pointer: tl.tensor,
    row: tl.tensor,
    inside: tl.tensor,
    column: tl.tensor,
    width: tl.tensor,
    values: tl.tensor,
) -> None:
    """Write the rows of a chunk."""
    mask = inside[:, None] & (column < width)
    tl.store(pointer + row[:, None] * width + column, values, mask=mask)


def _inverse(z: tl.tensor) -> tl.tensor:
    """`1 / z`; 0 where a query has no key of any weight."""
    return tl.where(z > 0, 1.0 / tl.where(z > 0, z, 1.0), 0.0)


rows, save, inverse = kernel(_rows), kernel(_save), kernel(_inverse)


def _context(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    o_pointer: tl.tensor,
    z_pointer: tl.tensor,
    length: tl.tensor,
    features: tl.tensor,
    size: tl.tensor,
    chunk: tl.constexpr,
    feature_tile: tl.constexpr,
    size_tile: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """The contexts `o` and their normalisers `z`."""
    sequence = tl.program_id(0).to(tl.int64) * length
    i, f, d = tl.arange(0, chunk), tl.arange(0, feature_tile), tl.arange(0, size_tile)
    state = tl.zeros((feature_tile, size_tile), tl.float32)
    mass = tl.zeros((feature_tile,), tl.float32)
    for start in range(0, length, chunk):
        inside = start + i < length
        row = sequence + start + i
        q = rows(q_pointer, row, inside, f, features)
        k = rows(k_pointer, row, inside, f, features)
        v = rows(v_pointer, row, inside, d, size)
        pairs = tl.where(i[:, None] >= i, tl.dot(q, tl.trans(k), input_precision=precision), 0.0)
        n = tl.dot(pairs, v.to(tl.float32), input_precision=precision)
        n = tl.dot(q.to(tl.float32), state, n, input_precision=precision)
        z = tl.sum(pairs, axis=1) + tl.sum(q.to(tl.float32) * mass, axis=1)
        o = n / tl.where(z > 0, z, 1.0)[:, None]
        o = tl.where((z > 0)[:, None], o, 0.0)
        save(o_pointer, row, inside, d, size, o.to(v.dtype))
        tl.store(z_pointer + row, z, mask=inside)
        state = tl.dot(tl.trans(k), v, state, input_precision=precision)
        mass += tl.sum(k.to(tl.float32), axis=0)


def _query_gradient(
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    o_pointer: tl.tensor,
    z_pointer: tl.tensor,
    g_pointer: tl.tensor,
    y_pointer: tl.tensor,
    dq_pointer: tl.tensor,
    length: tl.tensor,
    features: tl.tensor,
    size: tl.tensor,
    chunk: tl.constexpr,
    feature_tile: tl.constexpr,
    size_tile: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """The gradients of normalisers and queries, `y` and `dq`."""
    sequence = tl.program_id(0).to(tl.int64) * length
    i, f, d = tl.arange(0, chunk), tl.arange(0, feature_tile), tl.arange(0, size_tile)
    state = tl.zeros((size_tile, feature_tile), tl.float32)
    mass = tl.zeros((feature_tile,), tl.float32)
    for start in range(0, length, chunk):
        inside = start + i < length
        row = sequence + start + i
        k = rows(k_pointer, row, inside, f, features)
        v = rows(v_pointer, row, inside, d, size)
        o = rows(o_pointer, row, inside, d, size).to(tl.float32)
        g = rows(g_pointer, row, inside, d, size).to(tl.float32)
        share = inverse(tl.load(z_pointer + row, mask=inside, other=0.0))
        x, y = g * share[:, None], -tl.sum(g * o, axis=1) * share
        pairs = tl.dot(x, tl.trans(v.to(tl.float32)), input_precision=precision) + y[:, None]
        pairs = tl.where(i[:, None] >= i, pairs, 0.0)
        dq = y[:, None] * mass
        dq = tl.dot(pairs, k.to(tl.float32), dq, input_precision=precision)
        dq = tl.dot(x, state, dq, input_precision=precision)
        save(dq_pointer, row, inside, f, features, dq.to(k.dtype))
        tl.store(y_pointer + row, y, mask=inside)
        state = tl.dot(tl.trans(v), k, state, input_precision=precision)
        mass += tl.sum(k.to(tl.float32), axis=0)


def _key_value_gradients(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    z_pointer: tl.tensor,
    g_pointer: tl.tensor,
    y_pointer: tl.tensor,
    dk_pointer: tl.tensor,
    dv_pointer: tl.tensor,
    length: tl.tensor,
    features: tl.tensor,
    size: tl.tensor,
    chunk: tl.constexpr,
    feature_tile: tl.constexpr,
    size_tile: tl.constexpr,
    precision: tl.constexpr,
) -> None:
    """The gradients of keys and values, `dk` and `dv`, from the last chunk to the first."""
    sequence = tl.program_id(0).to(tl.int64) * length
    i, f, d = tl.arange(0, chunk), tl.arange(0, feature_tile), tl.arange(0, size_tile)
    state = tl.zeros((feature_tile, size_tile), tl.float32)
    mass = tl.zeros((feature_tile,), tl.float32)
    chunks = tl.cdiv(length, chunk)
    for number in range(chunks):
        start = (chunks - 1 - number) * chunk
        inside = start + i < length
        row = sequence + start + i
        q = rows(q_pointer, row, inside, f, features)
        k = rows(k_pointer, row, inside, f, features)
        v = rows(v_pointer, row, inside, d, size)
        g = rows(g_pointer, row, inside, d, size).to(tl.float32)
        z = tl.load(z_pointer + row, mask=inside, other=0.0)
        y = tl.load(y_pointer + row, mask=inside, other=0.0)
        x = g * inverse(z)[:, None]
        pairs = tl.where(i[:, None] <= i, tl.dot(k, tl.trans(q), input_precision=precision), 0.0)
        dv = tl.dot(pairs, x, input_precision=precision)
        dv = tl.dot(k.to(tl.float32), state, dv, input_precision=precision)
        save(dv_pointer, row, inside, d, size, dv.to(v.dtype))
        v_exact, q_exact = v.to(tl.float32), q.to(tl.float32)
        pairs = tl.dot(v_exact, tl.trans(x), input_precision=precision) + y
        pairs = tl.where(i[:, None] <= i, pairs, 0.0)
        dk = tl.dot(v_exact, tl.trans(state), input_precision=precision) + mass
        dk = tl.dot(pairs, q_exact, dk, input_precision=precision)
        save(dk_pointer, row, inside, f, features, dk.to(k.dtype))
        state = tl.dot(tl.trans(q_exact), x, state, input_precision=precision)
        mass += tl.sum(q_exact * y[:, None], axis=0)


context = kernel(_context, ["length"])
query_gradient = kernel(_query_gradient, ["length"])
key_value_gradients = kernel(_key_value_gradients, ["length"])
