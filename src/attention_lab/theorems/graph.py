"""Graph attention is attention masked by the adjacency of a graph."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from PIL.Image import Image
from torch import Tensor

from attention_lab.argument_checks import check_counts, check_number
from attention_lab.attention import (
    Additive,
    Attention,
    Mechanism,
    ScaledDot,
    Score,
    adjacency_mask,
    recording,
)
from attention_lab.errors import LabError
from attention_lab.theorems.finding import Cell, Figure, Finding, largest_difference, seeded
from attention_lab.theorems.option_checks import check_pairs, check_tolerance
from attention_lab.viz import Heatmap, draw_heatmaps


class Graph(NamedTuple):
    """A graph with a name.

    Attributes:
        name: of the graph.
        edges: pairs of nodes, `[2, E]`, undirected.
        nodes: number of nodes N.
        self_loops: whether every node is its own neighbour.
    """

    name: str
    edges: Tensor
    nodes: int
    self_loops: bool


class Outcome(NamedTuple):
    """Contexts `[H, N, d]`, weights `[H, N, N]`, and the gradients w.r.t. all inputs and parameters."""

    context: Tensor
    weights: Tensor
    gradients: tuple[Tensor, ...]


class GraphEquivalence:
    """Attention masked by adjacency is graph attention over a list of edges (1710.10903, eq. 1 to 5).

        e_ij = a(h_i, h_j),   alpha_ij = exp(e_ij) / sum_{k in N_i} exp(e_ik)
        h'_i = sum_{j in N_i} alpha_ij h_j

    One side is our attention over all N x N pairs, with the graph as a mask. The other never forms a matrix:
    it computes one score per edge, then a softmax and a sum over the edges that end in the same node.

    Args:
        edges: edges of a given graph, each written as two node names joined by a hyphen, as in `1-8`.
        random: pairs of a number of nodes and an edge probability, one for each random graph.
        size: size of a node's vector in each head.
        heads: H.
        tolerance: largest difference that counts as equal, in float64.
    """

    def __init__(
        self,
        edges: Sequence[str],
        random: Sequence[Sequence[float]] = ((12, 0.3), (40, 0.1), (120, 0.03)),
        size: int = 6,
        heads: int = 3,
        tolerance: float = 1e-10,
    ) -> None:
        self.pairs = _named_pairs(edges)
        self.names = sorted(
            {node for pair in self.pairs for node in pair}, key=lambda name: (len(name), name)
        )
        check_pairs("random", random, "a number of nodes and a probability, such as [[40,0.1]]")
        for nodes, probability in random:
            check_number("theorem.random: a number of nodes", nodes, least=1, whole=True)
            if not 0 <= probability <= 1:
                raise LabError(f"theorem.random: a probability must be from 0 to 1, got {probability}")
        check_counts("theorem", 1, size=size, heads=heads)
        check_tolerance(tolerance)
        self.random = random
        self.size, self.heads, self.tolerance = size, heads, tolerance

    def run(self, seed: int) -> Finding:
        """Compare both sides on every graph, with the scores of GAT, GATv2 and the scaled dot product."""
        scores: dict[str, Callable[..., Score]] = {
            "GAT": partial(Additive, activation="leaky_relu", hidden_size=1),
            "GATv2": partial(Additive, activation="leaky_relu"),
            "scaled dot": ScaledDot,
        }
        rows: list[list[Cell]] = []
        with seeded(seed):
            graphs = self._graphs()
            pictured = None
            for graph in graphs:
                for name, score in scores.items():
                    masked, listed = self._both(graph, score)
                    pictured = pictured or (masked, listed)
                    edges = int(_mask(graph).sum())
                    rows.append(
                        [
                            graph.name,
                            graph.nodes**2,
                            edges,
                            name,
                            largest_difference(masked.context, listed.context),
                            max(map(largest_difference, masked.gradients, listed.gradients)),
                        ]
                    )
        assert pictured is not None
        largest = max(float(cell) for row in rows for cell in row[-2:])
        return Finding(
            title="Graph attention is attention with the graph as its mask",
            claim="Attention under a graph's adjacency gives every node what graph attention computes from "
            "the list of its edges, in value and in every gradient.",
            source="1710.10903, eq. 1 to 5",
            columns=("graph", "pairs", "edges", "score", "difference of contexts", "of gradients"),
            rows=rows,
            criterion="contexts and gradients in inputs and parameters differ by less than "
            f"{self.tolerance:g} in float64",
            holds=largest < self.tolerance,
            figures=(Figure("graph", partial(self._draw, *pictured)),),
        )

    def _graphs(self) -> list[Graph]:
        found = [self._given()]
        for count, probability in self.random:
            nodes = int(count)
            drawn = (torch.rand(nodes, nodes) < probability).triu(1).nonzero().mT
            for self_loops in (True, False):
                kind = "" if self_loops else ", no loops"
                found.append(Graph(f"random, {nodes} nodes{kind}", drawn, nodes, self_loops))
        return found

    def _given(self) -> Graph:
        edges = torch.tensor([[self.names.index(node) for node in pair] for pair in self.pairs]).mT
        return Graph(f"{len(self.names)} nodes, given", edges, len(self.names), self_loops=True)

    def _both(self, graph: Graph, make: Callable[..., Score]) -> tuple[Outcome, Outcome]:
        attention = Mechanism(make)(self.size, self.size, self.heads).double()
        inputs = [torch.randn(self.heads, graph.nodes, self.size, dtype=torch.float64) for _ in range(3)]
        direction = torch.randn_like(inputs[0])
        return tuple(  # type: ignore[return-value]
            _outcome(form, attention, inputs, graph, direction) for form in (by_mask, by_edges)
        )

    def _draw(self, masked: Outcome, listed: Outcome) -> Image:
        mask = _mask(self._given()).numpy()
        shown = {
            "adjacency mask, with loops": mask.astype("float32"),
            "attention under the mask": masked.weights[0].numpy(),
            "softmax over the edges": listed.weights[0].numpy(),
        }
        maps = [Heatmap(values, title, self.names, self.names, mask) for title, values in shown.items()]
        title = "A graph as a mask, and the weights of the first head: two ways to compute them, one result"
        return draw_heatmaps(maps, title=title)


def _named_pairs(edges: Sequence[str]) -> list[tuple[str, str]]:
    """The names of the two nodes of each edge. Raises LabError for any other format."""
    form = "give pairs of nodes, as in 'theorem.edges=[1-8,1-6]'"
    if isinstance(edges, str) or not isinstance(edges, Sequence) or not edges:
        raise LabError(f"theorem.edges={edges}: {form}")
    pairs = []
    for edge in edges:
        ends = [end.strip() for end in edge.split("-")] if isinstance(edge, str) else []
        if len(ends) != 2 or not all(ends):
            raise LabError(f"theorem.edges: {edge!r} is not an edge: {form}")
        pairs.append((ends[0], ends[1]))
    return pairs


def _outcome(
    form: Callable[[Attention, Sequence[Tensor], Graph], tuple[Tensor, Tensor]],
    attention: Attention,
    inputs: Sequence[Tensor],
    graph: Graph,
    direction: Tensor,
) -> Outcome:
    inputs = [x.clone().requires_grad_() for x in inputs]
    context, weights = form(attention, inputs, graph)
    wanted = [*inputs, *attention.parameters()]
    return Outcome(context.detach(), weights, torch.autograd.grad(context, wanted, direction))


def by_mask(attention: Attention, inputs: Sequence[Tensor], graph: Graph) -> tuple[Tensor, Tensor]:
    """Contexts from all pairs, masked by the graph, and the weights."""
    query, key, value = (x.unsqueeze(0) for x in inputs)
    memory = attention.remember(key, value, _mask(graph))
    context: Tensor = attention(query, memory)
    with recording(attention) as weights, torch.no_grad():
        attention(query, memory)
    return context.squeeze(0), weights[""].squeeze(0)


def by_edges(attention: Attention, inputs: Sequence[Tensor], graph: Graph) -> tuple[Tensor, Tensor]:
    """Contexts from a list of edges, with scores, softmax and sum edge by edge; and the weights.

    The score sees one query and one key at a time, with the edges as the batch.
    """
    query, key, value = inputs
    start, end = _directed(graph)
    score = attention.score
    one_query, one_key = query[:, end].transpose(0, 1), key[:, start].transpose(0, 1)  # [E, H, d]
    scores = score(one_query.unsqueeze(-2), score.keys(one_key.unsqueeze(-2))).flatten(1).mT  # [H, E]
    index = end.expand_as(scores)
    empty = scores.new_full((len(query), graph.nodes), -torch.inf)
    highest = empty.scatter_reduce(1, index, scores.detach(), "amax").gather(1, index)
    powers = (scores - highest).exp()
    total = torch.zeros_like(empty).index_add(1, end, powers)
    weights = powers / total.gather(1, index)
    context = torch.zeros_like(value).index_add(1, end, weights.unsqueeze(-1) * value[:, start])
    dense = scores.new_zeros(len(query), graph.nodes, graph.nodes)
    dense[:, end, start] = weights.detach()
    return context, dense


def _directed(graph: Graph) -> Tensor:
    """All directed edges, `[2, E']`: every edge in both directions, and the self-loops."""
    ways = torch.cat([graph.edges, graph.edges.flip(0)], 1)
    if graph.self_loops:
        ways = torch.cat([ways, torch.arange(graph.nodes).expand(2, -1)], 1)
    unique: Tensor = torch.unique(ways, dim=1)
    return unique


def _mask(graph: Graph) -> Tensor:
    return adjacency_mask(graph.edges, graph.nodes, self_loops=graph.self_loops)
