from pathlib import Path

import pytest
import torch
from counted_comparisons import Compared
from omegaconf import OmegaConf
from small_data import whole

from attention_lab.data import GraphFiles, Karate, NodeBatch, NodeCodec
from attention_lab.data.graph import Graph8, GraphData
from attention_lab.data.reading.codecs import codec_from_state
from attention_lab.data.reading.codecs.node import MOST_ONE_HOT
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.specs.graph import GraphContent, Nodes
from attention_lab.errors import LabError
from attention_lab.sizes import GraphSizes

CONF = Path(__file__).parents[2] / "conf"
NODES = "ann\tx\t1\t7\nbob\t\t3\t7\ncid\ty\t5\t7\ndee\tx\t3\t7\neve\ty\t3\t7\nfay\tx\t3\t7\ngus\ty\t3\t7\n"
EDGES = "ann\tbob\nbob\tcid\ndee\teve\n"


def members(data: GraphData) -> list[dict[str, str]]:
    """Name and label of the nodes of each split."""
    batches = [whole(part) for part in data.splits]
    return [
        {
            data.codec.names[node]: data.codec.labels[label]
            for node, label in zip(batch.nodes.tolist(), batch.labels.tolist(), strict=True)
        }
        for batch in batches
    ]


def files(folder: Path, nodes: str = NODES, edges: str = EDGES, **options: object) -> GraphFiles:
    (folder / "nodes.tsv").write_text(nodes)
    (folder / "edges.tsv").write_text(edges)
    return GraphFiles(str(folder / "edges.tsv"), str(folder / "nodes.tsv"), **options)  # type: ignore[arg-type]


def test_graph8() -> None:
    data = Graph8()
    data.setup()
    assert data.sizes == GraphSizes(classes=2, features=2)
    train, validation, test = members(data)
    assert train == {"3": "right", "4": "right", "6": "left", "8": "left"}
    assert validation == {"1": "left", "5": "right"}
    assert test == {"2": "right", "7": "left"}
    batch = whole(data.splits.train)
    names = data.codec.names
    edges = [f"{names[one]}-{names[other]}" for one, other in batch.edges.mT.tolist()]
    assert edges == ["1-8", "1-6", "1-7", "6-7", "6-5", "5-4", "5-3", "3-2"]
    assert OmegaConf.load(CONF / "experiment" / "graph_equivalence.yaml").theorem.edges == edges
    says = [data.codec.labels[column] for column in batch.features.argmax(-1).tolist()]
    known = {**train, **validation, **test}
    assert [name for name, said in zip(names, says, strict=True) if said != known[name]] == ["3", "7"]


def test_karate() -> None:
    data = Karate()
    data.setup()
    assert data.sizes == GraphSizes(classes=2, features=34)
    parts = members(data)
    assert parts[0] == {"1": "Mr. Hi", "34": "Officer"}
    assert [len(part) for part in parts] == [2, 16, 16]
    clubs = parts[0] | parts[1] | parts[2]
    assert sorted(map(int, clubs)) == list(range(1, 35))
    assert sum(club == "Mr. Hi" for club in clubs.values()) == 17
    batch = whole(data.splits.test)
    assert batch.features.equal(torch.eye(34))
    assert batch.edges.shape == (2, 78)
    # Zachary 1977, figure 1: the instructor has 16 friends, the president 17, and they are none.
    degrees = dict(zip(data.codec.names, torch.bincount(batch.edges.flatten()).tolist(), strict=True))
    assert (degrees["1"], degrees["34"], degrees["12"]) == (16, 17, 1)
    ends = {frozenset(data.codec.names[node] for node in edge) for edge in batch.edges.T.tolist()}
    assert frozenset({"1", "34"}) not in ends
    assert frozenset({"1", "2"}) in ends


def test_more_members_in_training_and_another_seed() -> None:
    data, again, other = Karate(10), Karate(10), Karate(10, seed=1)
    assert [len(part) for part in members_of(data)] == [10, 12, 12]
    assert members_of(data) == members_of(again) != members_of(other)
    assert {"1", "34"} <= members_of(other)[0].keys()
    with pytest.raises(LabError, match=r"data\.train_size=1"):
        Karate(1)
    with pytest.raises(LabError, match=r"data\.train_size=33: at most 32"):
        Karate(33)


def members_of(data: GraphData) -> list[dict[str, str]]:
    data.setup()
    return members(data)


def test_files(tmp_path: Path) -> None:
    data = files(tmp_path, directed=True)
    data.setup()
    assert data.sizes == GraphSizes(classes=2, features=2, directed=True)
    parts = members(data)
    assert [len(part) for part in parts] == [4, 1, 1]
    known = parts[0] | parts[1] | parts[2]
    assert known == {"ann": "x", "cid": "y", "dee": "x", "eve": "y", "fay": "x", "gus": "y"}
    batch = whole(data.splits.train)
    assert batch.edges.tolist() == [[0, 1, 3], [1, 2, 4]]
    assert batch.features.dtype == torch.float32
    assert batch.features[:, 0].mean().abs().item() < 1e-6
    assert batch.features[:, 0].std(correction=0).item() == pytest.approx(1)
    assert batch.features[:, 1].tolist() == [0.0] * 7
    raw = files(tmp_path, standardize=False)
    raw.setup()
    assert whole(raw.splits.test).features[:3].tolist() == [[1, 7], [3, 7], [5, 7]]
    assert members(raw) == parts
    large = NODES.replace("7\n", "1e30\n", 1)
    with pytest.raises(
        LabError, match=r"nodes\.tsv: column 'feature 2': 1e\+30 is too large .*standardize=true"
    ):
        files(tmp_path, large, standardize=False).setup()


class _Label(Compared):
    """A label that counts how often it is compared."""


def test_a_label_is_not_searched_for_among_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in which very many labels are different would take quadratic time."""
    names = [f"l{number}" for number in range(100)]
    content = GraphContent(Nodes(names, names, None), [], [*map(_Label, names)], Splits([0], [1], [2]))
    monkeypatch.setattr("attention_lab.data.graph.read_once", lambda spec: content)
    assert GraphFiles("edges.tsv", "nodes.tsv").graph().labels == list(range(100))
    assert _Label.times <= 300  # and not 5000


def test_files_without_features(tmp_path: Path) -> None:
    lines = [line.split("\t") for line in NODES.splitlines()]
    data = files(tmp_path, "".join(f"{name}\t{label}\n" for name, label, *_ in lines))
    data.setup()
    assert data.codec.features is None
    assert whole(data.splits.train).features.equal(torch.eye(7))


@pytest.mark.parametrize(
    ("nodes", "edges", "expected"),
    [
        (NODES, "ann\tbob\nann\tzoe\n", "{0}/edges.tsv:2: the node 'zoe' is not in {0}/nodes.tsv"),
        (NODES, "ann bob\n", "{0}/edges.tsv:1: no tabs, but one is needed: node<TAB>node"),
        (NODES + "ann\tx\t1\t2\n", EDGES, "{0}/nodes.tsv:8: the node 'ann' is already in line 1"),
        (
            NODES.replace("5\t7", "five\t7"),
            EDGES,
            "{0}/nodes.tsv:3: 'five' should be a finite number, such as 1.5",
        ),
        (NODES.replace("5\t7", "5"), EDGES, "{0}/nodes.tsv:3: 1 feature, but line 1 has 2"),
        (
            NODES + "zoe\n",
            EDGES,
            "{0}/nodes.tsv:8: no tab; a line is node<TAB>label, and the label may be empty",
        ),
        (NODES + "\tx\t1\t7\n", EDGES, "{0}/nodes.tsv:8: the node is empty; a line is node<TAB>label"),
        (
            "ann\tx\nbob\tx\n",
            "ann\tbob\n",
            "{0}/nodes.tsv: the only label is 'x'; at least two labels are needed",
        ),
        (
            "ann\t\nbob\t\n",
            "ann\tbob\n",
            "{0}/nodes.tsv: no node has a label; at least two labels are needed",
        ),
        (
            "ann\tx\nbob\ty\n",
            "ann\tbob\n",
            "{0}/nodes.tsv: data.fractions=[0.6, 0.2, 0.2] leave none of 2 distinct examples for training",
        ),
        (
            "ann\tx\nbob\ty\ncid\tz\n",
            "ann\tbob\n",
            "{0}/nodes.tsv: no training node has the label 'y': give more labels, a larger share of training "
            "in data.fractions, or another data.seed",
        ),
    ],
)
def test_errors(tmp_path: Path, nodes: str, edges: str, expected: str) -> None:
    with pytest.raises(LabError) as caught:
        files(tmp_path, nodes, edges).setup()
    assert str(caught.value) == expected.format(tmp_path)


def test_long_names_are_shown_in_part(tmp_path: Path) -> None:
    long = "n" * 5000
    for nodes, edges, end in (
        (NODES, f"ann\t{long}\n", "nodes.tsv"),
        (f"ann\t{long}\nbob\t\n", "ann\tbob\n", "at least two labels are needed"),
        (f"ann\t{long}1\nbob\t{long}2\ncid\t{long}3\n", "ann\tbob\n", "or another data.seed"),
        (f"{long}\tx\n{long}\ty\n", EDGES, "is already in line 1"),
    ):
        with pytest.raises(LabError) as caught:
            files(tmp_path, nodes, edges).setup()
        assert len(str(caught.value)) < 1000
        assert str(caught.value).endswith(end)


def test_every_split_of_a_graph_needs_nodes(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"data\.fractions=\[0\.5, 0\.5, 0\]: .* each above 0"):
        files(tmp_path, fractions=[0.5, 0.5, 0])


def test_a_codec_survives_a_checkpoint(tmp_path: Path) -> None:
    for data in (Karate(), files(tmp_path, directed=True)):
        data.setup()
        torch.save(data.codec.state(), tmp_path / "codec.pt")
        codec = codec_from_state(torch.load(tmp_path / "codec.pt", weights_only=True))
        assert codec == data.codec
        assert isinstance(codec, NodeCodec)
        assert codec.sizes == data.sizes


def test_too_many_nodes_without_features_are_refused() -> None:
    nodes = [str(number) for number in range(MOST_ONE_HOT + 1)]
    with pytest.raises(LabError, match="16,385 nodes without features, more than 16,384: give features"):
        NodeCodec(nodes, ["a"], []).tensors  # noqa: B018


def test_names_to_nodes_and_back() -> None:
    data = Karate()
    data.setup()
    batch = data.codec.encode(["34", " 1 "])
    assert [data.codec.names[node] for node in batch.nodes.tolist()] == ["34", "1"]
    assert batch.labels.tolist() == [-1, -1]
    assert batch.edges.equal(whole(data.splits.train).edges)
    assert data.codec.decode(1) == "Officer"
    with pytest.raises(LabError, match=r"input 3: '35' is not a node of the graph; .* 1, 2, .*, \.\.\.$"):
        data.codec.encode(["1", "35"], first=2)
    with pytest.raises(LabError, match="no lines"):
        data.codec.encode([])


def test_a_model_of_another_graph_is_refused() -> None:
    data, other = Karate(), Graph8()
    other.setup()
    data.codec = other.codec
    with pytest.raises(LabError, match="trained on another graph"):
        data.setup()


def test_a_probe_is_the_whole_graph() -> None:
    data = Karate()
    data.setup()
    batch = data.probe(3)
    assert isinstance(batch, NodeBatch)
    assert batch.features.shape == (34, 34)
    assert len(batch.nodes) == 3


def test_a_header_of_the_nodes_is_pointed_out(tmp_path: Path) -> None:
    """It was read as one more node with a class of its own."""
    nodes = "".join(f"n{node}\t{'xy'[node % 2]}\n" for node in range(9))
    with pytest.raises(
        LabError, match=r"no training node has the label 'label': remove line 1 if it is a header, "
    ):
        files(tmp_path, "id\tlabel\n" + nodes, "n1\tn2\n").setup()
    data = files(tmp_path, "id\tlabel\n" + nodes, "n1\tn2\n", seed=3)
    data.setup()
    place = f"{tmp_path / 'nodes.tsv'}:1"
    assert data.hints == {
        place: f"{place}: 'id<TAB>label' is read as an example: remove it if it is a header"
    }
    data = files(tmp_path, nodes, "n1\tn2\n")
    data.setup()
    assert data.hints == {}
