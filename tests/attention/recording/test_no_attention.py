"""Softmaxes that are no attention: of experts, layers, kernels, tables, features and losses."""

import pytest
import torch
from torch import Tensor, einsum, nn

from attention_lab.attention import recording

B, L, D = 3, 6, 8


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router, self.table = nn.Linear(D, 5), nn.Parameter(torch.randn(5, D))
        self.experts = nn.ModuleList(nn.Linear(D, D) for _ in range(5))


class Experts(Other):
    def forward(self, x: Tensor) -> Tensor:
        gates = self.router(x).softmax(-1)
        outputs = torch.stack([expert(x) for expert in self.experts], 2)
        return einsum("ble,bled->bld", gates, outputs) + (gates[..., None] * outputs).sum(2)


class Table(Other):
    """A soft embedding, for all positions and for one."""

    def forward(self, x: Tensor) -> Tensor:
        return self.router(x).softmax(-1) @ self.table + self.router(x[0]).softmax(-1) @ self.table.T.mT


class Layers(Other):
    """A mixture of layers for each position, as in hyper-connections (2409.19606)."""

    def forward(self, x: Tensor) -> Tensor:
        layers = torch.stack([expert(x) for expert in self.experts], 2)
        mixture = self.router(layers).softmax(-1)
        return (mixture / mixture.sum(-2, keepdim=True)) @ layers


class Convolution(Other):
    """Span-based dynamic convolution (2008.02496)."""

    num_heads = 2

    def forward(self, x: Tensor) -> Tensor:
        spans = x.unfold(1, 5, 1).flatten(0, 1)
        return spans @ self.router(x[:, 4:]).flatten(0, 1).unsqueeze(-1).softmax(1)


class Kernels(Other):
    """Dynamic convolution (1912.03458)."""

    def forward(self, x: Tensor) -> Tensor:
        kernels = self.table.unsqueeze(-1).expand(5, D, D)
        return einsum("be,eij->bij", self.router(x.mean(1)).softmax(-1), kernels) @ x.mT


class Linear(Other):
    """Linear attention whose keys are normalised over the positions (1812.01243), in two layouts."""

    def forward(self, x: Tensor) -> Tensor:
        context = einsum("bdn,ben->bde", x.mT.softmax(-1), x.mT / L)
        found = einsum("bde,bdn->ben", context, x.mT.softmax(-2) * 0.3)
        return found.mT + x.softmax(-1) @ (x.softmax(1).transpose(1, 2) @ x)


class Losses(Other):
    def forward(self, x: Tensor) -> Tensor:
        logits = self.router(x)
        return (logits.softmax(-1) * logits.log_softmax(-1)).sum(-1) + logits.log_softmax(-1).exp().sum(-1)


@pytest.mark.parametrize("kind", [Experts, Table, Layers, Convolution, Kernels, Linear, Losses])
def test_softmaxes_that_are_no_attention(kind: type[Other]) -> None:
    model = kind()
    with recording(model) as weights:
        model(torch.randn(B, L, D))
    assert not weights
