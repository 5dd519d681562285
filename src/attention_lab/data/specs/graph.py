"""The options of a graph in two files, and the reading of these files, without torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from attention_lab.console_text import counted, quoted
from attention_lab.data.reading.files import COLUMNS, blame, parse_number, read_columns, read_text
from attention_lab.data.reading.splitting import Splits, partition
from attention_lab.data.specs.option_checks import check_fractions, check_seed
from attention_lab.errors import LabError


class Nodes(NamedTuple):
    """Names, labels (empty if unknown) and features (None if there are no such columns) of all nodes."""

    names: list[str]
    labels: list[str]
    features: list[list[float]] | None


class GraphContent(NamedTuple):
    """The nodes, the edges as pairs of node indices, all labels, and the nodes of each split."""

    nodes: Nodes
    edges: list[list[int]]
    labels: list[str]
    splits: Splits[list[int]]


@dataclass(frozen=True)
class GraphFilesSpec:
    """The options of `GraphFiles`.

    Attributes:
        edges: path of the file of edges.
        nodes: path of the file of nodes.
        directed: whether an edge lets only its second node attend to its first, and not the reverse.
        standardize: whether to scale features to mean 0 and deviation 1 over all nodes.
        fractions: shares of the splits of the labelled nodes, each above 0.
        seed: seed of the split.

    Raises:
        LabError: the fractions are not shares that sum to 1.
    """

    edges: str
    nodes: str
    directed: bool = False
    standardize: bool = True
    fractions: Sequence[float] = (0.6, 0.2, 0.2)
    seed: int = 0

    def __post_init__(self) -> None:
        check_fractions(self.fractions, every_split=True)
        check_seed(self.seed)

    def load(self) -> GraphContent:
        """Read the files.

        Raises:
            LabError: `read_nodes` or `read_columns` fails, an edge names an unknown node, there are fewer
                than two labels, or a label does not occur in training.
        """
        nodes = read_nodes(self.nodes)
        number = {name: index for index, name in enumerate(nodes.names)}
        edges = []
        for row in read_columns(self.edges, ("node", "node")):
            ends = (row.first.strip(), row.second.strip())
            for end in ends:
                if end not in number:
                    raise LabError(f"{row.place}: the node {quoted(end)} is not in {self.nodes}")
            edges.append([number[end] for end in ends])
        labels = sorted({label for label in nodes.labels if label})
        known = [node for node, label in enumerate(nodes.labels) if label]
        if len(labels) < 2:
            found = f"the only label is {quoted(labels[0])}" if labels else "no node has a label"
            raise LabError(f"{self.nodes}: {found}; at least two labels are needed")
        with blame(self.nodes):
            splits = partition(known, self.fractions, self.seed).map(
                lambda rows: [known[row] for row in rows]
            )
        if missing := set(labels) - {nodes.labels[node] for node in splits.train}:
            header = "remove line 1 if it is a header, or " if min(missing) == nodes.labels[0] else ""
            raise LabError(
                f"{self.nodes}: no training node has the label {quoted(min(missing))}: {header}"
                "give more labels, a larger share of training in data.fractions, or another data.seed"
            )
        return GraphContent(nodes, edges, labels, splits)


def read_nodes(path: str) -> Nodes:
    """The nodes in a file of `node<TAB>label` lines, each followed by the same number of features.

    Raises:
        LabError: `read_text` fails, a name is missing or repeated, or the features of a line are not finite
            numbers or differ in number from those of the first line.
    """
    lines: dict[str, int] = {}
    labels: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(read_text(path, COLUMNS).split("\n"), start=1):
        place, fields = f"{path}:{number}", [field.strip() for field in line.split("\t")]
        if len(fields) < 2:
            raise LabError(f"{place}: no tab; a line is node<TAB>label, and the label may be empty")
        name, label, *numbers = fields
        if not name:
            raise LabError(f"{place}: the node is empty; a line is node<TAB>label")
        if name in lines:
            raise LabError(f"{place}: the node {quoted(name)} is already in line {lines[name]}")
        if rows and len(numbers) != len(rows[0]):
            raise LabError(f"{place}: {counted(len(numbers), 'feature')}, but line 1 has {len(rows[0])}")
        lines[name] = number
        labels.append(label)
        with blame(place):
            rows.append([parse_number(field) for field in numbers])
    return Nodes(list(lines), labels, rows if rows[0] else None)
