"""`nn.MultiheadAttention` and `nn.TransformerEncoder` are recorded on all of their paths."""

import warnings
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from written_elsewhere import B, D, H, L, inputs

from attention_lab.attention import recording


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("masks", ["none", "padding", "causal", "both", "bias"])
def test_the_fast_path_of_torch_is_taken_and_recorded(norm_first: bool, masks: str) -> None:
    """Weights as without the fast path; the fused layer reads any number but zero in a mask as "masked"."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(H * D, H, 8, batch_first=True, norm_first=norm_first)
    model, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval(), inputs()
    padding = torch.zeros(B, L, dtype=torch.bool)
    padding[1, 4:] = True
    causal = nn.Transformer.generate_square_subsequent_mask(L)
    options: dict[str, Any] = {} if masks in ("none", "padding") else {"mask": causal}
    if masks in ("padding", "both"):
        options |= {"src_key_padding_mask": padding} | ({"mask": causal < 0} if masks == "both" else {})
    if masks == "bias":
        options["mask"] = torch.where(causal == 0, 0.0, 0.7)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*nested tensors")
        plain = model(x, **options)
        with recording(model) as fast, recording(model, [1], queries=slice(2)) as some:
            assert torch.equal(model(x, **options), plain)
        if masks == "bias":
            options["mask"] = causal
        torch.backends.mha.set_fastpath_enabled(False)
        try:
            with recording(model) as slow:
                assert not torch.equal(model(x, **options), plain), "another path"
        finally:
            torch.backends.mha.set_fastpath_enabled(True)
    assert list(fast) == list(slow) == [f"layers.{number}.self_attn" for number in range(2)]
    for name, weights in slow.items():
        queries = ~padding if masks in ("padding", "both") else torch.ones(B, L, dtype=torch.bool)
        found = fast[name].transpose(1, 2)[queries]
        assert torch.allclose(found, weights.transpose(1, 2)[queries], atol=1e-6)
        assert torch.allclose(some[name], fast[name][[1], :, :2], atol=1e-6)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize(
    "options", [{}, {"kdim": 6, "vdim": 7}, {"add_bias_kv": True, "add_zero_attn": True}]
)
def test_multihead_attention_in_every_form(options: dict[str, Any], batched: bool) -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(16, 4, batch_first=True, dropout=0.2, **options).eval()
    module.in_proj_bias = nn.Parameter(torch.randn(48))
    query, key = torch.randn(2, 3, 16), torch.randn(2, 5, options.get("kdim", 16))
    value = torch.randn(2, 5, options.get("vdim", 16))
    padding, bias = torch.tensor([[False] * 5, [False] * 3 + [True] * 2]), torch.randn(3, 5)
    if not batched:
        query, key, value, padding = query[1], key[1], value[1], padding[1]
    masks = {
        "key_padding_mask": torch.zeros_like(padding, dtype=torch.float).masked_fill(padding, -torch.inf)
    }
    _, expected = module(query, key, value, attn_mask=bias, average_attn_weights=False, **masks)
    for need in (True, False):
        with recording(module.train()) as weights, recording(module, -1, heads=2) as some:
            module(query, key, value, attn_mask=bias, need_weights=need, **masks)
        assert torch.allclose(weights[""], expected if batched else expected[None], atol=1e-6)
        assert torch.allclose(some[""], weights[""][-1:, [2]], atol=1e-6)


def test_multihead_attention_with_static_keys() -> None:
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2)
    query, static = torch.randn(3, 2, 8), torch.randn(4, 5, 4)

    class Static(nn.Module):
        def forward(self, x: Tensor) -> Any:
            return F.multi_head_attention_forward(
                *(x, x, x, 8, 2, module.in_proj_weight, module.in_proj_bias, None, None, False, 0.0),
                *(module.out_proj.weight, module.out_proj.bias),
                static_k=static,
                static_v=static,
                average_attn_weights=False,
            )

    with recording(model := Static()) as weights:
        _, expected = model(query)
    assert torch.allclose(weights[""], expected, atol=1e-6)
