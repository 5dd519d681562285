"""Every mechanism found in the package against references, and what all of them promise."""

import pytest
import references
import torch
from mechanisms import (
    CASES,
    NORMALIZERS,
    POOLINGS,
    SCORES,
    WINDOWS,
    B,
    Case,
    K,
    Q,
    expected,
    gradients,
    masks,
    tensors,
)

from attention_lab.attention import Attention, recording

FUSED = {"Dot", "ScaledDot", "General", "Gaussian", "Constant", "Cosine", "QueryFree"}
WITHOUT_PLACES = [
    case for case in CASES if case.window == "Global" and not SCORES[case.score].depends_on_position
]

every_case = pytest.mark.parametrize("case", CASES, ids=str)
half_precision = pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"]
)


def run(attention: Attention, inputs: list[torch.Tensor], mask: torch.Tensor | None = None) -> torch.Tensor:
    query, key, value = inputs
    context: torch.Tensor = attention(query, attention.remember(key, value, mask))
    return context


def by_weights(attention: Attention, inputs: list[torch.Tensor], mask: torch.Tensor | None) -> torch.Tensor:
    """The context from the weights of all pairs, whatever path the attention takes by itself."""
    query, key, value = inputs
    memory = attention.remember(key, value, mask)
    context: torch.Tensor = attention.pooling(attention.weights(query, memory), memory.value)
    return context


def test_every_part_has_a_reference() -> None:
    assert set(SCORES) == set(references.PAIRS)
    assert set(NORMALIZERS) == set(references.NORMALIZERS)
    assert set(WINDOWS) == set(references.WINDOWS)
    assert set(POOLINGS) == set(references.POOLINGS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mask_name", masks())
@pytest.mark.parametrize("heads", [1, 2])
@every_case
def test_equals_the_formula(case: Case, heads: int, mask_name: str) -> None:
    """Context, weights and all gradients, by the path that training takes and by weights."""
    mask, per_head = masks()[mask_name], heads if heads > 1 else None
    attention, inputs = case.make(per_head, temperature=1.7).double(), tensors(heads)
    context, weights = expected(attention, inputs, mask)
    wanted = gradients(context, attention, inputs)
    with recording(attention) as seen:
        recorded = run(attention, inputs, mask)
    assert torch.allclose(seen[""], weights, atol=1e-10, rtol=0)
    for output in (recorded, by_weights(attention, inputs, mask)):
        assert torch.allclose(output, context, atol=1e-10, rtol=0)
        for got, want in zip(gradients(output, attention, inputs), wanted, strict=True):
            assert torch.allclose(got, want, atol=1e-10, rtol=0)

    single, floats = case.make(per_head, temperature=1.7), tensors(heads, torch.float32)
    output = run(single, floats, mask)
    assert torch.allclose(output.double(), context, atol=1e-5, rtol=0)
    for got, want in zip(gradients(output, single, floats), wanted, strict=True):
        assert torch.allclose(got.double(), want, atol=1e-5, rtol=1e-5)


@every_case
def test_takes_the_fused_path_exactly_when_it_can(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    fused = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or fused(*a, **k)
    )
    attention, inputs = case.make(2), tensors(2, torch.float32)
    run(attention, inputs)
    plain = case.normalizer in ("Softmax", "SinkSoftmax") and case.pooling == "Soft"
    plain = plain and attention.window(inputs[0], K, None, 0).factor is None
    assert bool(calls) == (plain and case.score in FUSED)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("poison", [1e9, float("nan"), float("inf")])
@every_case
def test_padding_leaks_neither_value_nor_gradient(case: Case, poison: float, causal: bool) -> None:
    attention, (query, key, value) = case.make(2), tensors(2, torch.float32)
    mask = masks()["padding"]
    assert mask is not None
    if causal:
        mask = mask & torch.ones(Q, K, dtype=torch.bool).tril()
    clean = run(attention, [query, key, value], mask)
    clean_gradients = gradients(clean, attention, [query, key, value])
    hidden = torch.arange(K)[:, None] >= torch.tensor([K, 2])[:, None, None, None]
    bad_key, bad_value = (x.detach().masked_fill(hidden, poison).requires_grad_() for x in (key, value))
    context = run(attention, [query, bad_key, bad_value], mask)
    assert torch.allclose(context, clean, atol=1e-6, rtol=0)
    found = gradients(context, attention, [query, bad_key, bad_value])
    for got, want in zip(found, clean_gradients, strict=True):
        assert torch.allclose(got, want, atol=2e-6, rtol=0)


@every_case
def test_poison_behind_a_mask_per_query(case: Case) -> None:
    attention, (query, key, value) = case.make(), tensors(1, torch.float32)
    mask = torch.ones(Q, K, dtype=torch.bool)
    mask[0, 4] = False
    clean = run(attention, [query, key, value], mask)
    value = value.detach().clone()
    value[:, :, 4] = 1e9
    context = run(attention, [query, key, value], mask)
    assert torch.allclose(context[:, :, 0], clean[:, :, 0], atol=1e-6, rtol=0)


@pytest.mark.parametrize("case", WITHOUT_PLACES, ids=str)
def test_permuting_the_keys_permutes_the_weights(case: Case) -> None:
    attention, (query, key, value) = case.make(2).double(), tensors(2)
    order = torch.tensor([3, 0, 4, 1, 2])
    weights = attention.weights(query, attention.remember(key, value))
    permuted = attention.weights(query, attention.remember(key[:, :, order], value[:, :, order]))
    assert torch.allclose(weights[..., order], permuted, atol=1e-12)


@half_precision
@every_case
def test_half_precision_is_near(case: Case, dtype: torch.dtype) -> None:
    attention, inputs = case.make(2), tensors(2, torch.float32)
    if case.score == "Boxcar" or case.window == "LocalP":
        inputs = [tensor * 0.1 for tensor in inputs]  # keep every key away from the edge, where it drops out
    wanted = run(attention, inputs)
    likely = attention.weights(inputs[0], attention.remember(inputs[1], inputs[2]))
    context = run(attention.to(dtype), [tensor.to(dtype) for tensor in inputs])
    assert context.dtype == dtype
    if case.pooling == "Soft":
        # The logarithm of Epanechnikov's kernel is steep at the edge of its support.
        assert torch.allclose(context.float(), wanted, atol=4e-2 if case.score == "Epanechnikov" else 2e-2)
    else:  # one of two keys that weigh all but the same is as right as the other
        distance = (context.float().unsqueeze(-2) - inputs[2].unsqueeze(-3)).abs().amax(-1)
        chosen = distance.argmin(-1, keepdim=True)
        assert (distance.gather(-1, chosen) <= 2e-2).all()
        assert (likely.gather(-1, chosen).squeeze(-1) >= likely.amax(-1) - 2e-2).all()


@pytest.mark.parametrize(("size", "mask_name"), [(1.0, "padding"), (1.0, "empty rows"), (30.0, "none")])
@half_precision
@every_case
def test_half_precision_is_finite(case: Case, dtype: torch.dtype, size: float, mask_name: str) -> None:
    """Values and gradients on both paths, evaluated and trained, also where a key or a query is zero."""
    attention, inputs = case.make(2).to(dtype), tensors(2, dtype)
    query, key, value = (x.detach() * size for x in inputs)
    query[:, :, -1] = 0
    key[1, :, 2:] = value[1, :, 2:] = 0  # as padding has it
    inputs = [x.requires_grad_() for x in (query, key, value)]
    for training in (False, True) if case.pooling != "Soft" else (True,):
        attention.train(training)
        for compute in (run, by_weights):
            context = compute(attention, inputs, masks()[mask_name])
            assert context.dtype == dtype and context.isfinite().all()
            assert all(x.isfinite().all() for x in gradients(context, attention, inputs))


@every_case
def test_a_memory_serves_any_number_of_queries_and_any_selection(case: Case) -> None:
    attention, inputs = case.make().double(), tensors(1)
    query, key, value = (x[:, 0] for x in inputs)
    memory = attention.remember(key, value, torch.arange(K) < torch.tensor([K, 2])[:, None, None])
    together = attention(query, memory)
    apart = torch.cat([attention(query[:, t : t + 1], memory, offset=t) for t in range(Q)], 1)
    assert torch.allclose(together, apart, atol=1e-12)
    swapped = attention(query[[1, 0, 0]], memory.select(torch.tensor([1, 0, 0])))
    assert torch.allclose(swapped, together[[1, 0, 0]], atol=1e-12)


@every_case
def test_causal_attention_equals_the_mask_at_once_and_step_by_step(case: Case) -> None:
    """The causal flag, whatever path it takes, and a memory that grows as in a decoder."""
    attention, (query, key, value) = case.make(2).double(), tensors(2)
    key, value = key[:, :, :Q], value[:, :, :Q]
    wanted = run(attention, [query, key, value], torch.ones(Q, Q, dtype=torch.bool).tril())
    flagged = attention(query, attention.remember(key, value, causal=True))
    assert torch.allclose(flagged, wanted, atol=1e-12)
    memory, steps = None, []
    for t in range(Q):
        new = attention.remember(key[:, :, t : t + 1], value[:, :, t : t + 1], causal=True)
        memory = new if memory is None else memory.extend(new)
        steps.append(attention(query[:, :, t : t + 1], memory, offset=t))
    assert torch.allclose(torch.cat(steps, 2), wanted, atol=1e-12)


@every_case
def test_a_bias_is_added_to_the_scores(case: Case) -> None:
    attention, (query, key, value) = case.make(2, temperature=1.3).double(), tensors(2)
    bias = torch.randn(2, Q, K, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    mask = masks()["empty rows"]
    found = references.scores(attention.score, query, key) + bias
    everywhere = torch.ones(B, 2, Q, K, dtype=torch.bool) & mask
    wanted, _ = references.attend(attention, found, query, value, everywhere)
    context = attention(query, attention.remember(key, value, mask), bias=bias)
    assert torch.allclose(context, wanted, atol=1e-10)
