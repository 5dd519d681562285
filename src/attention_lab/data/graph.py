"""Graphs whose nodes are classified: Graph8, Karate and GraphFiles, and a reader for node files."""

import random
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch

from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.files import naming, parse_number, read_columns, read_text
from attention_lab.data.reading.node_codec import NodeCodec, NodeSplit
from attention_lab.data.reading.parts import Parts, check_at_least, check_fractions, partition
from attention_lab.data.reading.splits import Split
from attention_lab.data.reading.standardizing import check_sizes, check_spreads, moments
from attention_lab.errors import LabError
from attention_lab.sizes import GraphSizes


class LabelledGraph(NamedTuple):
    """A graph, the class of each node (-1 if unknown), and the nodes of each part."""

    codec: NodeCodec
    labels: list[int]
    parts: Parts[list[int]]


class GraphData(DataModule):
    """One graph, all of which is in every batch; the parts are sets of its nodes."""

    codec: NodeCodec
    sizes: GraphSizes

    def __init__(self) -> None:
        super().__init__(batch_size=None)

    @abstractmethod
    def graph(self) -> LabelledGraph:
        """Read or make the graph."""

    def build(self) -> Parts[Split]:
        """See `DataModule`."""
        codec, labels, parts = self.graph()
        if (self.given(NodeCodec) or codec) != codec:
            raise LabError(
                "the model was trained on another graph; test it on that one, or train a new model"
            )
        self.codec, self.sizes = codec, codec.sizes
        return parts.map(lambda nodes: NodeSplit(codec, nodes, [labels[node] for node in nodes]))


class Graph8(GraphData):
    r"""Eight nodes and eight edges, small enough to follow every weight by eye.

        8 --- 1 --- 7     4
               \   /      |
                \ /       |
                 6 ------ 5 --- 3 --- 2

    1, 6, 7, 8 are the left side, 2, 3, 4, 5 the right. The features of a node say whether it is left, (1, 0),
    or right, (0, 1), but those of 7 and 3 are wrong: only their neighbours tell. Training has 3, 4, 6, 8,
    validation 1, 5, and test 2, 7.
    """

    EDGES = ((1, 8), (1, 6), (1, 7), (6, 7), (6, 5), (5, 4), (5, 3), (3, 2))

    def graph(self) -> LabelledGraph:
        """See `GraphData`."""
        nodes, left, says_left = range(1, 9), {1, 6, 7, 8}, {1, 3, 6, 8}
        codec = NodeCodec(
            [str(node) for node in nodes],
            labels=["left", "right"],
            edges=[[one - 1, other - 1] for one, other in self.EDGES],
            features=[[1.0, 0.0] if node in says_left else [0.0, 1.0] for node in nodes],
        )
        parts = Parts([3, 4, 6, 8], [1, 5], [2, 7]).map(lambda part: [node - 1 for node in part])
        return LabelledGraph(codec, [0 if node in left else 1 for node in nodes], parts)


class Karate(GraphData):
    """Zachary's karate club: 34 members, 78 friendships, and the two clubs it split into (networkx).

    W. W. Zachary, "An information flow model for conflict and fission in small groups", 1977. Members
    have the paper's numbers, 1 the instructor (Mr. Hi) and 34 the president (John A., "Officer"), and
    are ordered by club, so that the clubs are blocks in a heatmap. They have no features.

    Args:
        train_size: members in training: 1 and 34, then others at random; the rest is halved between
            validation and test.
        seed: seed of the split.
    """

    def __init__(self, train_size: int = 2, seed: int = 0) -> None:
        super().__init__()
        check_at_least(2, train_size=train_size)
        if train_size > 32:
            raise LabError(
                f"data.train_size={train_size}: at most 32 of the 34 members, to leave some to test"
            )
        self.train_size, self.seed = train_size, seed

    def graph(self) -> LabelledGraph:
        """See `GraphData`."""
        from networkx import karate_club_graph  # slow to import

        club = karate_club_graph()
        clubs = ["Mr. Hi", "Officer"]
        members = sorted(club, key=lambda member: (clubs.index(club.nodes[member]["club"]), member))
        number = {member: place for place, member in enumerate(members)}
        codec = NodeCodec(
            [str(member + 1) for member in members],
            clubs,
            [[number[one], number[other]] for one, other in club.edges],
        )
        labels = [clubs.index(club.nodes[member]["club"]) for member in members]
        leaders = [number[0], number[33]]
        others = [node for node in range(len(members)) if node not in leaders]
        random.Random(self.seed).shuffle(others)
        train = self.train_size - len(leaders)
        middle = (train + len(others)) // 2
        parts = Parts(leaders + others[:train], others[train:middle], others[middle:])
        return LabelledGraph(codec, labels, parts.map(sorted))


class GraphFiles(GraphData):
    """A graph in two files: lines of `node<TAB>node`, its edges, and of `node<TAB>label`, its nodes.

    An empty label means unknown: the node is in the graph but in no part. Columns after the label are
    numeric features; if there are none, nodes are only known by their identity.

    Args:
        edges: path of the file of edges.
        nodes: path of the file of nodes.
        directed: whether an edge lets only its second node attend to its first, and not the reverse.
        standardize: scale features to mean 0 and deviation 1 over all nodes.
        fractions: shares of the parts in the labelled nodes, each above 0.
        seed: seed of the split.
    """

    def __init__(
        self,
        edges: str,
        nodes: str,
        directed: bool = False,
        standardize: bool = True,
        fractions: Sequence[float] = (0.6, 0.2, 0.2),
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.edges, self.nodes, self.directed, self.standardize = edges, nodes, directed, standardize
        self.fractions, self.seed = check_fractions(fractions, every_part=True), seed

    def graph(self) -> LabelledGraph:
        """See `GraphData`."""
        names, given, features = read_nodes(self.nodes, self.standardize)
        number = {name: place for place, name in enumerate(names)}
        edges = []
        for row in read_columns(self.edges, ("node", "node")):
            ends = row.first.strip(), row.second.strip()
            for end in ends:
                if end not in number:
                    raise LabError(f"{row.place}: the node {end!r} is not in {self.nodes}")
            edges.append([number[end] for end in ends])
        labels = sorted({label for label in given if label})
        known = [node for node, label in enumerate(given) if label]
        if len(labels) < 2:
            found = f"the only label is {labels[0]!r}" if labels else "no node has a label"
            raise LabError(f"{self.nodes}: {found}; at least two labels are needed")
        with naming(self.nodes):
            parts = partition(known, self.fractions, self.seed).map(lambda rows: [known[row] for row in rows])
        if missing := set(labels) - {given[node] for node in parts.train}:
            raise LabError(
                f"{self.nodes}: no training node has the label {min(missing)!r}: "
                "give more labels, a larger share of training in data.fractions, or another data.seed"
            )
        codec = NodeCodec(names, labels, edges, features, self.directed)
        return LabelledGraph(codec, [labels.index(label) if label else -1 for label in given], parts)


class Nodes(NamedTuple):
    """Names, labels (empty where unknown) and features (None where there are no columns) of all nodes."""

    names: list[str]
    labels: list[str]
    features: list[list[float]] | None


def read_nodes(path: str, standardize: bool) -> Nodes:
    """The nodes in a file of `node<TAB>label` lines, each followed by the same number of features.

    Args:
        path: path of the file.
        standardize: shift and scale every feature to mean 0 and deviation 1; a constant is only shifted.

    Raises:
        LabError: `read_text` fails, a name is missing or repeated, the features of a line are not finite
            numbers or not as many as in the first line, or float32 cannot hold a column of them.
    """
    lines: dict[str, int] = {}
    labels: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        place, fields = f"{path}:{number}", [field.strip() for field in line.split("\t")]
        if len(fields) < 2:
            raise LabError(f"{place}: no tab; a line is node<TAB>label, and the label may be empty")
        name, label, *numbers = fields
        if not name:
            raise LabError(f"{place}: the node is empty; a line is node<TAB>label")
        if name in lines:
            raise LabError(f"{place}: the node {name!r} is in line {lines[name]} already")
        if rows and len(numbers) != len(rows[0]):
            raise LabError(f"{place}: {len(numbers)} features where line 1 has {len(rows[0])}")
        lines[name] = number
        labels.append(label)
        rows.append([parse_number(field, place) for field in numbers])
    with naming(path):
        features = _checked(rows, standardize) if rows[0] else None
    return Nodes(list(lines), labels, features)


def _checked(rows: list[list[float]], standardize: bool) -> list[list[float]]:
    """The features, standardised on request. Raises LabError if float32 cannot hold a column."""
    values = torch.tensor(rows, dtype=torch.float64)
    names = [f"feature {number}" for number in range(1, values.shape[1] + 1)]
    if not standardize:
        check_sizes(names, values, values)
        return rows
    check_spreads(names, values, squared=[False] * len(names))
    mean, deviation = moments(values)
    standard: list[list[float]] = ((values - mean) / deviation).tolist()
    return standard
