"""The drop-in for torch.nn.MultiheadAttention against the original, and where it is better."""

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attention_lab import MultiheadAttention, recording
from attention_lab.attention import (
    Additive,
    Band,
    Entmax15,
    Gaussian,
    Linear,
    Mechanism,
    ScaledDot,
    causal_mask,
)

OPTIONS: list[dict[str, Any]] = [
    {},
    {"batch_first": True},
    {"bias": False},
    {"kdim": 5, "vdim": 7},
    {"add_bias_kv": True},
    {"add_zero_attn": True},
    {"add_bias_kv": True, "add_zero_attn": True, "batch_first": True, "kdim": 3},
]
BATCH, HEADS, SIZE, QUERIES, KEYS = 3, 2, 8, 4, 6


def _pair(**options: Any) -> tuple[MultiheadAttention, nn.MultiheadAttention]:
    """Ours and torch's, made with the same seed; with biases, which torch starts at zero."""
    modules = []
    for cls in (MultiheadAttention, nn.MultiheadAttention):
        torch.manual_seed(1)
        module = cls(SIZE, HEADS, **options).double()
        for name, parameter in module.named_parameters():
            if name.endswith("bias"):
                nn.init.normal_(parameter)
        modules.append(module)
    return modules[0], modules[1]


def _inputs(**options: Any) -> list[Tensor]:
    sizes = [(QUERIES, SIZE), (KEYS, options.get("kdim", SIZE)), (KEYS, options.get("vdim", SIZE))]
    made = [torch.randn(BATCH, *size, dtype=torch.float64) for size in sizes]
    made = made if options.get("batch_first") else [x.transpose(0, 1) for x in made]
    return [x.detach().requires_grad_() for x in made]


def _mask(kind: str, *shape: int) -> Tensor | None:
    """A mask in torch's meaning, True = ignored, that leaves the first key to every query."""
    if kind == "none":
        return None
    mask = torch.rand(*shape) < 0.5
    mask[..., 0] = False
    if kind == "float":
        return torch.randn(*shape, dtype=torch.float64).masked_fill(mask, -torch.inf)
    return mask


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_starts_with_the_weights_of_torch_and_shares_its_state_dict(options: dict[str, Any]) -> None:
    ours, theirs = _pair(**options)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert all(torch.equal(ours.state_dict()[name], value) for name, value in theirs.state_dict().items())
    theirs.load_state_dict(ours.state_dict())
    ours.load_state_dict(theirs.state_dict())


@pytest.mark.parametrize("kind", ["none", "bool", "float", "float by head"])
@pytest.mark.parametrize("padded", ["none", "bool", "float"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.filterwarnings("ignore:Support for mismatched key_padding_mask:UserWarning")
def test_outputs_weights_and_gradients_are_those_of_torch(
    options: dict[str, Any], kind: str, padded: str
) -> None:
    ours, theirs = _pair(**options)
    inputs = _inputs(**options)
    shape = (BATCH * HEADS, QUERIES, KEYS) if kind.endswith("head") else (QUERIES, KEYS)
    masks = {"attn_mask": _mask(kind.split()[0], *shape), "key_padding_mask": _mask(padded, BATCH, KEYS)}
    for average in (True, False):
        output, weights = ours(*inputs, **masks, average_attn_weights=average)
        expected, expected_weights = theirs(*inputs, **masks, average_attn_weights=average)
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(weights, expected_weights)
        direction = torch.randn_like(output)
        torch.testing.assert_close(
            torch.autograd.grad(output, [*inputs, *ours.parameters()], direction),
            torch.autograd.grad(expected, [*inputs, *theirs.parameters()], direction),
        )
    assert torch.equal(ours(*inputs, **masks, need_weights=False)[0], output)
    assert ours(*inputs, **masks, need_weights=False)[1] is None


def test_one_example_without_a_batch() -> None:
    ours, theirs = _pair()
    x, mask = torch.randn(5, SIZE).double(), torch.tensor([False, False, True, False, True])
    for average in (True, False):
        output = ours(x, x, x, key_padding_mask=mask, average_attn_weights=average)
        torch.testing.assert_close(
            output, theirs(x, x, x, key_padding_mask=mask, average_attn_weights=average)
        )


@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}], ids=str)
def test_causal_with_and_without_its_mask(options: dict[str, Any]) -> None:
    ours, theirs = _pair(batch_first=True, **options)
    x, mask = torch.randn(2, 5, SIZE).double(), ~causal_mask(5)
    expected = theirs(x, x, x, attn_mask=mask)
    torch.testing.assert_close(ours(x, x, x, attn_mask=mask), expected)
    torch.testing.assert_close(ours(x, x, x, attn_mask=mask, is_causal=True), expected)
    torch.testing.assert_close(ours(x, x, x, is_causal=True), expected)


@pytest.mark.parametrize("need_weights", [True, False])
def test_rows_without_a_key_are_zero_and_have_finite_gradients(need_weights: bool) -> None:
    """pytorch#41508: a window and padding together leave a query without a key."""
    attention = MultiheadAttention(1, 1)
    x = torch.rand(3, 2, 1, requires_grad=True)
    padding = torch.tensor([[False, False, False], [False, True, True]])
    inf = torch.inf
    window = torch.tensor([[0.0, -inf, -inf], [0.0, 0.0, -inf], [-inf, 0.0, 0.0]])
    output, weights = attention(x, x, x, padding, need_weights=need_weights, attn_mask=window)
    assert output[2, 1] == 0
    assert weights is None or not weights[1, 2].any()
    output[0].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())
    assert x.grad is not None
    assert x.grad.isfinite().all()
    assert not x.grad[2, 1].any()


def test_a_head_without_keys_adds_nothing() -> None:
    """pytorch#160064: the weights of a masked head are zero, and asking for them changes nothing."""
    x, mask = torch.randn(1, 5, 3), torch.tensor([False, False, True]).view(-1, 1, 1).expand(-1, 5, 5)
    attention = MultiheadAttention(3, 3, batch_first=True)
    output, weights = attention(x, x, x, attn_mask=mask, average_attn_weights=False)
    assert not weights[0, 2].any()
    assert torch.equal(output, attention(x, x, x, attn_mask=mask, need_weights=False)[0])
    theirs = nn.MultiheadAttention(3, 3, batch_first=True)
    theirs.load_state_dict(attention.state_dict())
    torch.testing.assert_close(output, theirs(x, x, x, attn_mask=mask, need_weights=False)[0])


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_in_a_row_without_keys(need_weights: bool) -> None:
    """pytorch#152028: an empty row in training with dropout."""
    torch.manual_seed(0)
    attention = MultiheadAttention(8, 2, dropout=0.5, batch_first=True, bias=False)
    query, source, mask = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.zeros(3, 4)
    mask[0] = -torch.inf
    output, weights = attention(query, source, source, attn_mask=mask, need_weights=need_weights)
    assert not output[:, 0].any()
    assert weights is None or not weights[:, 0].any()
    output.square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in attention.parameters())


def test_returned_weights_are_those_before_dropout() -> None:
    attention = MultiheadAttention(SIZE, HEADS, dropout=0.5)
    x = torch.randn(6, 2, SIZE)
    torch.testing.assert_close(attention(x, x, x)[1].sum(-1), torch.ones(2, 6))
    with recording(attention) as seen:
        attention(x, x, x, need_weights=False)
    torch.testing.assert_close(seen[""].mean(1), attention(x, x, x)[1])


def _encoder(*, replace: bool) -> nn.TransformerEncoder:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(SIZE, HEADS, 16, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    for one in encoder.layers if replace else ():
        one.self_attn = MultiheadAttention.from_torch(one.self_attn)
    return encoder


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_in_an_encoder_of_torch_it_is_called_and_recorded_in_evaluation_too(padded: bool) -> None:
    x = torch.randn(2, 5, SIZE)
    padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]) if padded else None
    encoder = _encoder(replace=True)
    with torch.no_grad(), recording(encoder) as seen:
        output = encoder(x, src_key_padding_mask=padding)
    with torch.no_grad():
        expected = _encoder(replace=False)(x, src_key_padding_mask=padding)
    torch.testing.assert_close(output, expected)
    assert list(seen) == [f"layers.{index}.self_attn" for index in range(2)]
    assert all(weights.shape == (2, HEADS, 5, 5) for weights in seen.values())


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
@pytest.mark.parametrize("options", [{}, {"add_bias_kv": True, "add_zero_attn": True}], ids=str)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning")
def test_nested_tensors_give_what_each_example_alone_gives(layout: Any, options: dict[str, Any]) -> None:
    ours, _ = _pair(batch_first=True, **options)
    queries = [torch.randn(length, SIZE).double() for length in (4, 6)]
    sources = [torch.randn(length, SIZE).double() for length in (7, 2)]
    query, source = (torch.nested.nested_tensor(each, layout=layout) for each in (queries, sources))
    for pair in ([query, query], [query, source]):
        output, _ = ours(*pair, pair[1])
        assert output.is_nested
        for one, q, k in zip(output.unbind(), *(each.unbind() for each in pair), strict=True):
            torch.testing.assert_close(one, ours(q, k, k)[0])


MECHANISMS = {
    "additive": Mechanism(Additive),
    "gaussian": Mechanism(Gaussian),
    "linear": Mechanism(Linear),
    "entmax15": Mechanism(ScaledDot, normalizer=Entmax15),
    "band": Mechanism(ScaledDot, window=lambda query_size, heads: Band(query_size, heads, width=1)),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_any_mechanism_in_its_place(name: str) -> None:
    theirs = nn.MultiheadAttention(SIZE, HEADS, batch_first=True).double()
    attention = MultiheadAttention.from_torch(theirs, MECHANISMS[name])
    assert torch.equal(attention.in_proj_weight, theirs.in_proj_weight)
    x = torch.randn(2, 5, SIZE).double().requires_grad_()
    padding = torch.tensor([[False] * 5, [True] * 5])
    output, weights = attention(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    expected = (weights @ _values(attention, x)).transpose(1, 2).flatten(-2)
    torch.testing.assert_close(output, attention.out_proj(expected))
    assert not weights[1].any()
    output.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def _values(attention: MultiheadAttention, x: Tensor) -> Tensor:
    value = x @ attention.in_proj_weight[2 * SIZE :].mT + attention.in_proj_bias[2 * SIZE :]
    return value.view(*x.shape[:2], HEADS, -1).transpose(1, 2)


def test_copies_and_pickles() -> None:
    attention = MultiheadAttention(SIZE, HEADS, mechanism=Mechanism(Additive)).eval()
    x = torch.randn(3, 2, SIZE)
    for again in (copy.deepcopy(attention), pickle.loads(pickle.dumps(attention))):
        assert torch.equal(again(x, x, x)[0], attention(x, x, x)[0])


def test_what_was_frozen_stays_frozen() -> None:
    module = nn.MultiheadAttention(SIZE, HEADS)
    module.in_proj_weight.requires_grad_(False)
    again = MultiheadAttention.from_torch(module, Mechanism(Additive))
    frozen = [name for name, parameter in again.named_parameters() if not parameter.requires_grad]
    assert frozen == ["in_proj_weight"]
    own = MultiheadAttention.from_torch(again.requires_grad_(False), Mechanism(Additive))
    assert not any(parameter.requires_grad for parameter in own.parameters())


@pytest.mark.parametrize("options", [{}, {"kdim": 5, "vdim": 7}, {"add_bias_kv": True}], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_a_batch_without_examples(options: dict[str, Any], causal: bool) -> None:
    attention = MultiheadAttention(SIZE, HEADS, batch_first=True, **options)
    query, key, value = (
        torch.zeros(0, KEYS, size, requires_grad=True)
        for size in (SIZE, options.get("kdim", SIZE), options.get("vdim", SIZE))
    )
    ignored = torch.zeros(0, KEYS, KEYS, dtype=torch.bool)
    output, weights = attention(
        query, key, value, ignored[:, 0], attn_mask=None if causal else ignored, is_causal=causal
    )
    output.sum().backward()
    assert output.shape == (0, KEYS, SIZE)
    assert weights.shape[:2] == (0, KEYS)
    assert query.grad is not None


def test_inputs_of_the_wrong_size_are_named() -> None:
    attention = MultiheadAttention(SIZE, HEADS, kdim=5, vdim=3)
    query, key, value = (torch.randn(4, 2, size) for size in (SIZE, 5, 3))
    for name, option, wrong in (
        ("query", f"embed_dim={SIZE}", (key, key, value)),
        ("key", "kdim=5", (query, query, value)),
        ("value", "vdim=3", (query, key, key)),
    ):
        with pytest.raises(ValueError, match=rf"{name} must have the size {option}, got \[4, 2, "):
            attention(*wrong)


def test_masks_of_the_wrong_size_are_named() -> None:
    attention, x = MultiheadAttention(SIZE, HEADS), torch.randn(4, 2, SIZE)
    with pytest.raises(ValueError, match=r"attn_mask must be \[4, 4\], got \[4, 3\]"):
        attention(x, x, x, attn_mask=torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"key_padding_mask must be \[2, 4\], got \[4, 2\]"):
        attention(x, x, x, key_padding_mask=torch.zeros(4, 2, dtype=torch.bool))
    for option, size in (("attn_mask", (4, 4)), ("key_padding_mask", (2, 4))):
        with pytest.raises(ValueError, match=rf"{option} must be boolean .* got torch\.int64; .*_mask == 0"):
            attention(x, x, x, **{option: torch.ones(size, dtype=torch.int64)})
    with pytest.raises(AssertionError, match="batch_first"):
        attention(*[torch.nested.nested_tensor([x[0]], layout=torch.jagged)] * 3)
