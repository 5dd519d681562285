"""Graphs whose nodes are classified: Graph8, Karate and GraphFiles."""

import random
from abc import abstractmethod
from collections.abc import Sequence
from numbers import Integral
from typing import NamedTuple

import numpy as np
import torch

from attention_lab.argument_checks import kind_of
from attention_lab.console_text import counted
from attention_lab.constructor_options import options_of
from attention_lab.data.file_warnings.format_hints import header_hints
from attention_lab.data.file_warnings.unseen_symbols import label_forms_hint
from attention_lab.data.reading.codecs import NodeCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import NodeSplit, Split
from attention_lab.data.reading.files import Row, blame, read_once
from attention_lab.data.reading.returned_checks import require
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.standardizing import check_sizes, check_spreads, moments
from attention_lab.data.specs.graph import GraphFilesSpec
from attention_lab.data.specs.packaged import KarateSpec
from attention_lab.errors import LabError
from attention_lab.sizes import GraphSizes


class LabelledGraph(NamedTuple):
    """A graph, the class of each node (-1 if unknown), and the nodes of each split."""

    codec: NodeCodec
    labels: list[int]
    splits: Splits[list[int]]


class GraphData(DataModule):
    """A single graph, present as a whole in every batch; the splits are sets of its nodes."""

    codec: NodeCodec
    sizes: GraphSizes

    def __init__(self) -> None:
        super().__init__(batch_size=None)

    @abstractmethod
    def graph(self) -> LabelledGraph:
        """Read or make the graph."""

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        codec, labels, splits = self._checked(self.graph())
        if (self.given(NodeCodec) or codec) != codec:
            raise LabError(
                "the model was trained on another graph; test it on that one, or train a new model"
            )
        self.codec, self.sizes = codec, codec.sizes
        return splits.map(lambda nodes: NodeSplit(codec, nodes, [labels[node] for node in nodes]))

    def _checked(self, returned: object) -> LabelledGraph:
        """The graph. Raises LabError if a user-defined class has returned anything but a graph."""
        wanted = "LabelledGraph(codec, labels, splits)"
        codec, labels, splits = require(self, "graph", returned, LabelledGraph, wanted)
        require(self, "graph", codec, NodeCodec, "a NodeCodec as the codec of its LabelledGraph")
        require(self, "graph", splits, Splits, "Splits as those of its LabelledGraph")
        name, count = f"{type(self).__name__}.graph", len(codec.names)
        classes = _numbers(labels, f"{name} must give the number of the class of each node, -1 if unknown")
        if len(classes) != count:
            raise LabError(f"{name} gives {counted(len(classes), 'label')} for {counted(count, 'node')}")
        for label in classes:
            if not -1 <= label < len(codec.labels):
                raise LabError(
                    f"{name} gives a label {label}, but the codec has 0 to {len(codec.labels) - 1}"
                )
        must = f"{name} must give the numbers of the nodes of each split"
        numbers = splits.map(lambda nodes: _numbers(nodes, must))
        for split, nodes in numbers._asdict().items():
            for node in nodes:
                if not 0 <= node < count:
                    raise LabError(
                        f"{name} gives a node {node}, in {split}, but the nodes are 0 to {count - 1}"
                    )
                if classes[node] < 0:
                    raise LabError(f"{name} gives the node {node}, in {split}, whose label is unknown")
        return LabelledGraph(codec, classes, numbers)


def _numbers(values: object, must: str) -> list[int]:
    """Whole numbers, which may be a tensor or an array, as a list. Raises LabError with `must` for others."""
    plain = values.tolist() if isinstance(values, torch.Tensor | np.ndarray) else values
    if isinstance(plain, Sequence) and not isinstance(plain, str):
        for one in plain:
            if isinstance(one, bool) or not isinstance(one, Integral):
                raise LabError(f"{must}, not {one!r}"[:200])
        return list(map(int, plain))
    raise LabError(f"{must}, not {kind_of(values)}")


class Graph8(GraphData):
    r"""Eight nodes and eight edges, small enough to follow every weight by eye.

        8 --- 1 --- 7     4
               \   /      |
                \ /       |
                 6 ------ 5 --- 3 --- 2

    Nodes 1, 6, 7, 8 are the left side, 2, 3, 4, 5 the right. The features of a node say whether it is left,
    (1, 0), or right, (0, 1), but those of 7 and 3 are wrong: only their neighbours reveal their side.
    Training nodes are 3, 4, 6, 8, validation nodes 1, 5, and test nodes 2, 7.
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
        splits = Splits([3, 4, 6, 8], [1, 5], [2, 7]).map(lambda split: [node - 1 for node in split])
        return LabelledGraph(codec, [0 if node in left else 1 for node in nodes], splits)


class Karate(GraphData):
    """Zachary's karate club: 34 members, 78 friendships, and the two clubs it split into (networkx).

    W. W. Zachary, "An information flow model for conflict and fission in small groups", 1977. Members have
    the paper's numbers, from 1, the instructor (Mr. Hi), to 34, the president (John A., "Officer"). They are
    ordered by club, so that the clubs form blocks in a heatmap. They have no features.

    Args:
        options: see `KarateSpec`.
    """

    @options_of(KarateSpec)
    def __init__(self, spec: KarateSpec) -> None:
        super().__init__()
        self.train_size, self.seed = spec.train_size, spec.seed

    def graph(self) -> LabelledGraph:
        """See `GraphData`."""
        from networkx import karate_club_graph  # slow to import

        club = karate_club_graph()
        clubs = ["Mr. Hi", "Officer"]
        members = sorted(club, key=lambda member: (clubs.index(club.nodes[member]["club"]), member))
        number = {member: index for index, member in enumerate(members)}
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
        splits = Splits(leaders + others[:train], others[train:middle], others[middle:])
        return LabelledGraph(codec, labels, splits.map(sorted))


class GraphFiles(GraphData):
    """A graph in two files: `node<TAB>node` lines for the edges, and `node<TAB>label` lines for the nodes.

    An empty label means unknown: the node is in the graph but in no split. Columns after the label are
    numeric features; if there are none, nodes are distinguished only by their identity.

    Args:
        options: see `GraphFilesSpec`.
    """

    @options_of(GraphFilesSpec)
    def __init__(self, spec: GraphFilesSpec) -> None:
        super().__init__()
        self.spec = spec

    def graph(self) -> LabelledGraph:
        """See `GraphData`. Raises LabError if float32 cannot hold a column of the features."""
        spec = self.spec
        (names, given, rows), edges, labels, splits = read_once(spec)
        self.hints.update(header_hints([[Row(f"{spec.nodes}:1", names[0], given[0])]]))
        self.hints.update(label_forms_hint(labels, spec.nodes))
        with blame(spec.nodes):
            features = None if rows is None else _checked(rows, spec.standardize)
        codec = NodeCodec(names, labels, edges, features, spec.directed)
        number = {label: index for index, label in enumerate(labels)}
        return LabelledGraph(codec, [number[label] if label else -1 for label in given], splits)


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
