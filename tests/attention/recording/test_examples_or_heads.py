"""Examples are not taken for heads if a module knows a number of heads, but attends with one at a time."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import recording

H, W, L, D = 4, 3, 6, 8


class Pooled(nn.Module):
    """It knows the number of heads of its encoder, and attends with one head itself."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.num_heads, self.fused = H, fused
        self.query = nn.Linear(D, D)

    def forward(self, x: Tensor) -> Tensor:
        query = self.query(x)
        if self.fused:
            return F.scaled_dot_product_attention(query, x, x)
        return torch.bmm((query @ x.mT / D**0.5).softmax(-1), x)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("examples", [1, H, 2 * H])
def test_examples_are_not_taken_for_heads_of_another_attention(fused: bool, examples: int) -> None:
    model, x = nn.Sequential(nn.Linear(D, D), Pooled(fused)), torch.randn(examples, L, D)
    with recording(model) as weights:
        model(x)
    y = model[0](x)
    expected = (model[1].query(y) @ y.mT / D**0.5).softmax(-1)[:, None]
    assert torch.allclose(weights["1"], expected, atol=1e-6)


@pytest.mark.parametrize("examples", [1, H, 2 * H])
def test_examples_of_several_inputs_are_not_taken_for_heads(examples: int) -> None:
    """An encoder and a decoder compute their heads one by one."""

    class OneByOne(nn.Module):
        num_heads = H

        def forward(self, query: Tensor, memory: Tensor) -> Tensor:
            heads = list(zip(query.chunk(H, -1), memory.chunk(H, -1), strict=True))
            weights = [(q @ k.mT).softmax(-1) for q, k in heads]
            self.expected = torch.cat(weights, 1).unsqueeze(1)
            return torch.cat([w @ k for w, (_, k) in zip(weights, heads, strict=True)], -1)

    class EncoderDecoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.encoder, self.decoder = nn.Embedding(9, H * D), OneByOne(), OneByOne()

        def forward(self, source: Tensor, target: Tensor) -> Tensor:
            source, target = self.embedding(source), self.embedding(target)
            return self.decoder(target, self.encoder(source, source))  # type: ignore[no-any-return]

    with recording(model := EncoderDecoder()) as weights, torch.no_grad():
        model(torch.randint(9, (examples, L)), torch.randint(9, (examples, W)))
    for name in ("encoder", "decoder"):
        assert torch.equal(weights[name], getattr(model, name).expected)
