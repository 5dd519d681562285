"""The adjacency of a graph as a mask: entries by hand, and graph attention written out over its edges."""

import pytest
import torch
from torch import Tensor

from attention_lab.attention import Additive, Attention, ScaledDot, Score, adjacency_mask
from attention_lab.attention.checks.masks import check_edges

EDGES = torch.tensor([[0, 1, 2, 0], [1, 2, 0, 3]])  # a triangle and a tail; node 4 stands alone
NODES = 5


def _rows(mask: Tensor) -> list[str]:
    return ["".join("x" if cell else "." for cell in row) for row in mask.tolist()]


def test_adjacency() -> None:
    assert _rows(adjacency_mask(EDGES, NODES)) == ["xxxx.", "xxx..", "xxx..", "x..x.", "....x"]
    assert _rows(adjacency_mask(EDGES, NODES, self_loops=False)) == [
        ".xxx.",
        "x.x..",
        "xx...",
        "x....",
        ".....",
    ]


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_mask_stays_boolean_with_self_loops_given_as_a_number() -> None:
    assert adjacency_mask(EDGES, NODES, self_loops=1).equal(adjacency_mask(EDGES, NODES))
    assert adjacency_mask(EDGES, NODES, self_loops=0).equal(adjacency_mask(EDGES, NODES, self_loops=False))


def test_the_second_node_of_a_directed_edge_attends_to_the_first() -> None:
    mask = adjacency_mask(EDGES, NODES, directed=True, self_loops=False)
    assert _rows(mask) == ["..x..", "x....", ".x...", "x....", "....."]
    assert (mask | mask.mT).equal(adjacency_mask(EDGES, NODES, self_loops=False))


def test_edges_can_repeat_be_loops_or_be_none() -> None:
    edges = torch.tensor([[0, 1, 0], [1, 0, 0]])
    assert _rows(adjacency_mask(edges, 2, self_loops=False)) == ["xx", "x."]
    assert _rows(adjacency_mask(torch.zeros(2, 0, dtype=torch.long), 2)) == ["x.", ".x"]


def _neighbours(self_loops: bool) -> tuple[Tensor, Tensor]:
    """Pairs (i, j), j in N_i, one for each direction of each edge."""
    loops = torch.arange(NODES if self_loops else 0)
    return torch.cat([EDGES[0], EDGES[1], loops]), torch.cat([EDGES[1], EDGES[0], loops])


def _over_edges(e: Tensor, i: Tensor, j: Tensor, value: Tensor) -> Tensor:
    """`h'_i = sum_j alpha_ij v_j` of scores e [E], `alpha_ij = exp(e_ij) / sum_k exp(e_ik)` (eq. 2, 4)."""
    exponential = (e - e.max()).exp()
    total = torch.zeros(NODES, dtype=e.dtype).index_add(0, i, exponential)
    return torch.zeros_like(value).index_add(0, i, (exponential / total[i]).unsqueeze(-1) * value[j])


def _gat(score: Score, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """`e_ij = LeakyReLU(a^T [h_i; h_j])`, h being W h, the slope 0.2 (1710.10903, eq. 3)."""
    assert isinstance(score, Additive)
    a = torch.cat([score.query_weight, score.key_weight], -1).squeeze(0)
    return torch.nn.functional.leaky_relu(torch.cat([h[i], h[j]], -1) @ a, 0.2)


def _gat_v2(score: Score, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """`e_ij = a^T LeakyReLU(W [h_i; h_j])` (2105.14491, eq. 7)."""
    assert isinstance(score, Additive)
    weight = torch.cat([score.query_weight, score.key_weight], -1)
    hidden = torch.nn.functional.leaky_relu(torch.cat([h[i], h[j]], -1) @ weight.mT, 0.2)
    return (hidden @ score.value_weight).squeeze(-1)


def _scaled(score: Score, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """`e_ij = h_i . h_j / sqrt(d)`, which runs on the fused kernel."""
    return (h[i] * h[j]).sum(-1) / h.shape[-1] ** 0.5


def _score(kind: str) -> Score:
    torch.manual_seed(
        2
    )  # some rows have scores on both sides of 0: else no query's weight has a gradient in GAT
    if kind == "scaled":
        return ScaledDot(3, 3)
    score = Additive(3, 3, hidden_size=1 if kind == "gat" else 4, activation="leaky_relu")
    if kind == "gat":
        torch.nn.init.ones_(score.value_weight)
    return score


@pytest.mark.parametrize("self_loops", [True, False])
@pytest.mark.parametrize(("kind", "reference"), [("gat", _gat), ("gat_v2", _gat_v2), ("scaled", _scaled)])
def test_attention_under_the_mask_is_graph_attention(kind: str, reference, self_loops: bool) -> None:
    attention = Attention(_score(kind)).double()
    h = torch.randn(NODES, 3, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(NODES, 3, dtype=torch.float64)
    leaves = [h, *attention.parameters()]
    if kind == "gat":
        leaves.pop()  # the factor 1 behind the LeakyReLU, which the paper does not have
    i, j = _neighbours(self_loops)
    mask = adjacency_mask(EDGES, NODES, self_loops=self_loops)
    masked = attention(h, attention.remember(h, mask=mask))
    listed = _over_edges(reference(attention.score, h, i, j), i, j, h)
    results = [
        [context, *torch.autograd.grad((context * direction).sum(), leaves)] for context in (masked, listed)
    ]
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)
        assert theirs.abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["gat", "scaled"])
def test_a_node_alone_has_no_context(kind: str) -> None:
    attention = Attention(_score(kind))
    h = torch.randn(NODES, 3, requires_grad=True)
    mask = adjacency_mask(EDGES, NODES, self_loops=False)
    context = attention(h, attention.remember(h, mask=mask))
    assert context[4].tolist() == [0.0, 0.0, 0.0]
    (gradient,) = torch.autograd.grad(context.square().sum(), h)
    assert gradient.isfinite().all()
    assert gradient[4].tolist() == [0.0, 0.0, 0.0]
    assert attention.weights(h, attention.remember(h, mask=mask))[4].tolist() == [0.0] * NODES


@pytest.mark.parametrize(
    ("edges", "complaint"),
    [
        ([[0, 1], [1, 2]], r"integer tensor of node indices, such as .* not list"),
        (EDGES.float(), r"not torch\.float32"),
        (EDGES.T, r"must be \[2, E\], source nodes and target nodes, got \[4, 2\]: give edges\.T"),
        (EDGES[0], r"got \[4\]$"),
    ],
)
def test_edges_of_another_form_are_named(edges: object, complaint: str) -> None:
    with pytest.raises((TypeError, ValueError), match=complaint):
        check_edges(edges)


@pytest.mark.parametrize("node", [-1, 3])
def test_edges_join_nodes(node: int) -> None:
    with pytest.raises(ValueError, match=f"from 0 to 2, got {node}$"):
        adjacency_mask(torch.tensor([[0], [node]]), 3)
