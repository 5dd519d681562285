"""What `scaled_dot_product_attention` is given: a GPU's kernels reject masks that the CPU's accept."""

from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attention_lab.attention.fast.fused import fused_attention

B, H, Q, K, D = 2, 3, 4, 5, 8


@pytest.fixture
def _as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its efficient kernel fails for a mask whose only column it would have to repeat for every key."""
    kernel = F.scaled_dot_product_attention

    def checked(
        query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, **options: object
    ) -> Tensor:
        if attn_mask is not None:
            assert attn_mask.shape[-1] == key.shape[-2], "(*bias): last dimension must be contiguous"
            assert attn_mask.stride(-1) == 1  # otherwise all weights are in memory
        return kernel(query, key, value, attn_mask=attn_mask, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(F, "scaled_dot_product_attention", checked)


@pytest.mark.usefixtures("_as_on_a_gpu")
@pytest.mark.parametrize("columns", [*product((None, 1, K), (None, 1, K))])
@pytest.mark.parametrize("rows", [1, Q])
@pytest.mark.parametrize("with_sink", [False, True])
def test_a_mask_or_a_bias_with_one_column_for_all_keys(
    columns: tuple[int | None, int | None], rows: int, with_sink: bool
) -> None:
    torch.manual_seed(0)
    of_mask, of_bias = columns
    tensors = [torch.randn(B, H, size, D, dtype=torch.float64) for size in (Q, K, K)]
    mask = None if of_mask is None else torch.rand(B, 1, rows, of_mask) > 0.5
    bias = None if of_bias is None else torch.randn(H, rows, of_bias, dtype=torch.float64)
    sink = torch.randn(H, 1, 1, dtype=torch.float64) if with_sink else None
    leaves = [x.requires_grad_() for x in (*tensors, bias) if x is not None]

    def results(context: Tensor) -> list[Tensor]:
        return [context, *torch.autograd.grad((context * weight).sum(), leaves)]

    weight = torch.randn(B, H, Q, D, dtype=torch.float64)
    query, key, value = tensors
    found = results(fused_attention(query, key, value, mask, bias=bias, sink=sink, scale=0.5))
    scores = query @ key.mT * 0.5 + (0.0 if bias is None else 0.5 * bias)
    visible = torch.ones(()).bool() if mask is None else mask
    scores = scores.masked_fill(~visible, -torch.inf)
    last = torch.full((B, H, Q, 1), -torch.inf) if sink is None else sink.expand(B, H, Q, 1)
    scores = torch.cat([scores, last.double()], -1)
    empty = (scores == -torch.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    torch.testing.assert_close(found, results(weights[..., :-1] @ value))


@pytest.mark.long
@pytest.mark.usefixtures("_as_on_a_gpu", "unchecked_shapes")
def test_a_mask_with_one_column_in_compiled_code() -> None:
    """For any number of keys; a mask with one column and one key is another program."""
    compiled = torch.compile(fused_attention, backend="eager", fullgraph=True, dynamic=True)
    for keys in (5, 7, 1):
        query, key, value = torch.randn(B, H, Q, D), *torch.randn(2, B, H, keys, D).unbind()
        for mask in (torch.rand(B, 1, 1, 1) > 0.5, torch.rand(B, 1, Q, keys) > 0.5):
            bias = torch.randn(H, Q, 1)
            found = compiled(query, key, value, mask, bias=bias)
            torch.testing.assert_close(found, fused_attention(query, key, value, mask, bias=bias))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_training_on_short_sequences_in_half_precision_is_computed_in_float32(
    dtype: torch.dtype, autocast: bool, causal: bool
) -> None:
    """On the CPU, the kernel's backward pass takes up to six times as long in half precision."""
    torch.manual_seed(0)
    query, key, value, weight = (torch.randn(B, H, 9, D).to(dtype) for _ in range(4))
    mask = None if causal else torch.arange(9) < torch.tensor([9, 4]).reshape(B, 1, 1, 1)

    def results(dtype: torch.dtype, *, autocast: bool) -> list[Tensor]:
        leaves = [x.detach().to(dtype).requires_grad_() for x in (query, key, value)]
        with torch.autocast("cpu", weight.dtype, enabled=autocast):
            context = fused_attention(*leaves, mask, causal=causal, scale=0.5)
        gradients = torch.autograd.grad((context.float() * weight.float()).sum(), leaves)
        return [x.to(weight.dtype) for x in (context, *gradients)]

    found = results(torch.float32 if autocast else dtype, autocast=autocast)
    wanted = results(torch.float32, autocast=False)
    torch.testing.assert_close(found, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("length", [9, 512])
def test_only_short_sequences_with_gradients_leave_half_precision(
    monkeypatch: pytest.MonkeyPatch, length: int, grad: bool
) -> None:
    kernel, given = F.scaled_dot_product_attention, []

    def noted(query: Tensor, *args: Tensor, **options: object) -> Tensor:
        given.append(query.dtype)
        return kernel(query, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    tensors = [torch.randn(1, 1, length, D, dtype=torch.bfloat16, requires_grad=grad) for _ in range(3)]
    assert fused_attention(*tensors).dtype == torch.bfloat16
    assert given == [torch.float32 if grad and length == 9 else torch.bfloat16]


@pytest.mark.parametrize(("queries", "of_value", "padded"), [(2, 40, False), (9, 40, True), (2, 8, False)])
def test_few_queries_do_not_pad_the_keys_to_the_size_of_the_values(
    monkeypatch: pytest.MonkeyPatch, queries: int, of_value: int, padded: bool
) -> None:
    """The kernel for any sizes is then up to three times as fast as padding for the flash kernel."""
    torch.manual_seed(0)
    kernel, given = F.scaled_dot_product_attention, []

    def noted(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
        given.append((key.shape[-1], value.shape[-1]))
        return kernel(query, key, value, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(F, "scaled_dot_product_attention", noted)
    shapes = [(queries, D), (K, D), (K, of_value)]
    leaves = [torch.randn(B, H, *shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
    query, key, value = leaves
    mask = torch.arange(K) < torch.tensor([0, 3]).reshape(B, 1, 1, 1)
    context = fused_attention(query, key, value, mask, scale=0.5)
    assert given == [(40, 40) if padded else (D, of_value)]
    weights = (query @ key.mT * 0.5).masked_fill(~mask, -1e9).softmax(-1) * mask
    upstream = torch.randn_like(context)
    found, wanted = ([x, *torch.autograd.grad(x, leaves, upstream)] for x in (context, weights @ value))
    torch.testing.assert_close(found, wanted)
