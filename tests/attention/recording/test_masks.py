"""Which cells are known to be masked."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attention_lab.attention import recording

B, L, D = 2, 5, 4
VISIBLE = torch.ones(L, L).tril().bool()


class Model(nn.Module):
    """Attention by hand; `attend` is its function of scores, or of queries, keys and values."""

    def __init__(self, attend: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.attend = attend

    def forward(self, x: Tensor) -> Tensor:
        return self.attend(x)


def _mask(attend: Callable[[Tensor], Tensor], dtype: torch.dtype) -> Tensor:
    torch.manual_seed(0)
    model = Model(attend)
    with recording(model) as weights:
        model(4 * torch.randn(B, L, D, dtype=dtype))
    return weights.mask("")


@pytest.mark.parametrize("low", ["-inf", "-1e4", "-1e6", "-1e8", "-1e9", "min"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("added", [False, True])
def test_low_scores_are_masked(low: str, dtype: torch.dtype, added: bool) -> None:
    """In bfloat16 too, whose range is that of float32; with a score added, -1e8 may round upwards."""
    number = torch.finfo(dtype).min if low == "min" else float(low)

    def by_hand(x: Tensor) -> Tensor:
        scores = x @ x.mT
        bias = torch.zeros(L, L, dtype=dtype).masked_fill(~VISIBLE, number)
        return (scores + bias if added else scores.masked_fill(~VISIBLE, number)).softmax(-1) @ x

    def kernel(x: Tensor) -> Tensor:
        bias = torch.zeros(L, L, dtype=dtype).masked_fill(~VISIBLE, number)
        return F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], bias)

    if low == "-inf" or number >= torch.finfo(dtype).min:
        for attend in (by_hand, kernel):
            assert torch.equal(_mask(attend, dtype), VISIBLE.expand(B, 1, L, L)), attend.__name__
