"""Softmaxes that are not attention: of experts, layers, kernels, tables, features and losses."""

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
        found = einsum("ble,bled->bld", gates, outputs) + (gates[..., None] * outputs).sum(2)
        first = self.router(x).tanh().transpose(1, 2).softmax(1)  # the experts first
        return found + (first.unsqueeze(-1) * outputs.transpose(1, 2)).sum(1)


class ExpertsBesideHeads(Other):
    """A module with as many heads as there are examples."""

    num_heads = B

    def forward(self, x: Tensor) -> Tensor:
        outputs = torch.stack([expert(x) for expert in self.experts], 2)
        return (self.router(x).softmax(-1).unsqueeze(2) @ outputs).squeeze(2)


class OneQuery(Other):
    """Experts for a whole example, components of a distribution, and what is expected of fixed values."""

    def __init__(self) -> None:
        super().__init__()
        self.components = nn.Linear(D, 5 * D)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mean(1)
        outputs = torch.stack([expert(x) for expert in self.experts], 1)
        gates = self.router(x).softmax(-1)
        found = einsum("be,bed->bd", gates, outputs) + (gates.unsqueeze(-1) * outputs).sum(1)
        found += ((x @ self.table.mT).softmax(-1)[..., None] * self.components(x).view(B, 5, D)).sum(1)
        found += torch.sum(((x[:, None] * self.table).sum(-1).softmax(1))[..., None] * outputs, dim=1)
        for keys in (nn.functional.normalize(self.table), self.table[None]):  # of experts
            gates = (x[:, None] * keys).sum(-1).softmax(1)
            found += (gates[..., None] * outputs).sum(1) + einsum("be,bed->bd", gates, outputs)
        for gates in (x @ keys[0].clone().mT, (x[:, None] @ keys[0].clone().mT).squeeze(1)):
            found += (gates.softmax(1)[..., None] * outputs).sum(1)
        first = (self.table @ x[0, :, None]).softmax(0)  # of a single vector
        found += (first * outputs[0]).sum(0) + first.flatten() @ outputs[0]
        scores = self.components(outputs)[..., :1].flatten(1).softmax(1)
        return found.sum() + (scores * torch.arange(5.0)).sum(1) + (scores * outputs[..., 0]).sum(1)


class Maps(Other):
    """Selective kernels (1903.06586), a soft argmax, deformable attention, masks."""

    def forward(self, x: Tensor) -> Tensor:
        branches = torch.stack([expert(x) for expert in self.experts], 1)
        scores = torch.stack([expert(x.mean(1)) for expert in self.experts], 1)
        found = (scores.softmax(1).unsqueeze(2) * branches).sum(1)
        heat, points = (x @ x.mT).softmax(-1), torch.arange(float(L)).expand(B, L, L)
        found = found.sum(-1) + (heat * points).sum(-1)
        weights = self.router(x).softmax(-1).unsqueeze(1)
        values = x.unfold(1, 5, 1).transpose(1, 2)[..., :1, :]
        found = found.sum() + (weights * values.expand(B, D, L, 5)).sum(-1).sum()
        one = (x[:, :1] @ x.mT).softmax(-1) * torch.ones(B, L, L).tril().bool()
        return found + (one / one.sum(-1, keepdim=True)).sum()


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
    """Linear attention whose keys are normalised over the positions (1812.01243), and CoaT's (2104.06399)."""

    def forward(self, x: Tensor) -> Tensor:
        context = einsum("bdn,ben->bde", x.mT.softmax(-1), x.mT / L)
        found = einsum("bde,bdn->ben", context, x.mT.softmax(-2) * 0.3)
        found = found.mT + x.softmax(-1) @ (x.softmax(1).transpose(1, 2) @ x)
        context = x.softmax(1).transpose(1, 2) @ x
        return found + x @ (0.1 * context) + x @ context


class Inverse(Other):
    """The iterations for a pseudoinverse in Nyströmformer (2102.03902), without the products with values."""

    def forward(self, x: Tensor) -> Tensor:
        weights, eye = (x @ x.mT).softmax(-1), torch.eye(L)
        z = weights.mT / (weights.sum(-1).max() * weights.sum(-2).max())
        for _ in range(2):
            product = weights @ z
            z = 0.25 * z @ (13 * eye - product @ (15 * eye - product @ (7 * eye - product)))
        return (x[:, :2] @ x.mT).softmax(-1) @ z


class Totals(Other):
    """Weights that are summed over all keys, and multiplied with what has none."""

    def forward(self, x: Tensor) -> Tensor:
        return einsum("bqk,bnd->bqnd", (x @ x.mT).softmax(-1), x[:, :2])


class Losses(Other):
    def forward(self, x: Tensor) -> Tensor:
        logits = self.router(x)
        return (logits.softmax(-1) * logits.log_softmax(-1)).sum(-1) + logits.log_softmax(-1).exp().sum(-1)


@pytest.mark.parametrize(
    "kind",
    [
        Experts,
        ExpertsBesideHeads,
        OneQuery,
        Maps,
        Table,
        Layers,
        Convolution,
        Kernels,
        Linear,
        Inverse,
        Totals,
        Losses,
    ],
)
def test_softmaxes_that_are_no_attention(kind: type[Other]) -> None:
    model = kind()
    with recording(model) as weights:
        model(torch.randn(B, L, D))
    assert not weights
