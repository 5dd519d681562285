"""The codec of a graph whose nodes are classified; a batch is the complete graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from attention_lab.console_text import printable, quoted
from attention_lab.data.reading.batches import NodeBatch
from attention_lab.data.reading.codecs.base import BaseCodec, encode_lines
from attention_lab.errors import LabError
from attention_lab.sizes import GraphSizes

MOST_ONE_HOT = 1 << 14
"""Maximum number of nodes without features: their vectors are a matrix of N x N."""


@dataclass(frozen=True)
class NodeCodec(BaseCodec):
    """One graph and the classes of its nodes: node names to a batch and back.

    Attributes:
        names: names of the nodes; a node's number is its index here.
        labels: names of the classes.
        edges: pairs of node numbers.
        features: features of each node; None if nodes have no features, only their identity.
        directed: whether an edge (a, b) goes only from a to b.
    """

    KIND = "nodes"

    names: list[str]
    labels: list[str]
    edges: list[list[int]]
    features: list[list[float]] | None = None
    directed: bool = False

    @property
    def sizes(self) -> GraphSizes:
        """The number of classes, the size of a node's vector, and whether edges are directed."""
        width = len(self.names if self.features is None else self.features[0])
        return GraphSizes(len(self.labels), width, self.directed)

    def problem(self) -> str:
        """See `BaseCodec`."""
        nodes, rows = len(self.names), self.features
        if any(len(edge) != 2 or max(edge) >= nodes for edge in self.edges):
            return f"has edges that do not fit its {nodes} nodes"
        if rows is not None and (len(rows) != nodes or len(set(map(len, rows))) != 1 or not rows[0]):
            return f"has features that do not fit its {nodes} nodes"
        return ""

    @cached_property
    def tensors(self) -> tuple[Tensor, Tensor]:
        """Features [N, d], one-hot if nodes have none, and edges [2, E]."""
        nodes = len(self.names)
        if self.features is None and nodes > MOST_ONE_HOT:
            raise LabError(
                f"the graph has {nodes:,} nodes without features, more than {MOST_ONE_HOT:,}: give features, "
                "because without them each node is a one-hot vector as long as the number of nodes"
            )
        features = torch.eye(nodes) if self.features is None else torch.tensor(self.features)
        return features, torch.tensor(self.edges, dtype=torch.int64).view(-1, 2).mT

    def batch(self, nodes: Tensor, labels: Tensor) -> NodeBatch:
        """The graph, with the `nodes` [B] to classify and their `labels` [B]."""
        return NodeBatch(*self.tensors, nodes, labels)

    def encode(self, lines: Sequence[str], first: int = 1) -> NodeBatch:
        """Encode names of nodes, one per line; labels are -1."""
        numbers = {name: number for number, name in enumerate(self.names)}

        def node(line: str) -> int:
            if line.strip() not in numbers:
                known = printable(", ".join(self.names[:10])) + (", ..." if len(self.names) > 10 else "")
                name = quoted(line.strip())
                raise LabError(f"{name} is not a node of the graph; its nodes are {known}")
            return numbers[line.strip()]

        nodes = encode_lines(lines, first, node)
        return self.batch(torch.tensor(nodes), torch.full([len(nodes)], -1))

    def decode(self, label: int) -> str:
        """The name of a class."""
        return self.labels[label]
