"""The images or graphs that user-defined data sets return are checked; errors are reported in one line."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attention_lab.data import (
    GraphData,
    ImageExample,
    ImageTransductionData,
    LabelledGraph,
    NodeCodec,
    Notation,
    Splits,
    Tokenizer,
)
from attention_lab.data.reading.image_files import read_image
from attention_lab.errors import LabError

IMAGE = torch.rand(8, 16, generator=torch.Generator().manual_seed(0))
MARKED = IMAGE.clone()
MARKED[1, 1] = float("nan")


class Pictures(ImageTransductionData):
    """Whatever a test gives as the examples."""

    def __init__(self, examples: Any, *, tokenizer: bool = True) -> None:
        super().__init__(height=8, cell=4, batch_size=2)
        self._examples, self._tokenizer = examples, tokenizer

    def examples(self) -> Any:
        """See the class."""
        return self._examples

    def make_tokenizer(self, train: Any) -> Any:
        """See the class."""
        return Tokenizer.of(Notation("characters"), ["ab"]) if self._tokenizer else None


def _images(*example: Any) -> Splits[Any]:
    return Splits([ImageExample(IMAGE, "ab")], [ImageExample(IMAGE, "ab")], [ImageExample(*example)])


_SHAPE = "examples: an image must be a tensor [8, W], W a multiple of 4, not"
_CELLS = "examples: gold must have equally many cells for each symbol of the target, or be empty"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (Pictures([]), "examples must return Splits of lists of ImageExample(image, target), not a list"),
        (
            Pictures(Splits([(IMAGE, "ab")], [], [])),
            "examples must return Splits of lists of ImageExample(image, target), not of a tuple",
        ),
        (
            Pictures(_images(IMAGE, "ab"), tokenizer=False),
            "make_tokenizer must return a Tokenizer, not a NoneType",
        ),
        (Pictures(_images(IMAGE.numpy(), "ab")), f"{_SHAPE} a ndarray"),
        (Pictures(_images(IMAGE[None], "ab")), f"{_SHAPE} [1, 8, 16]"),
        (Pictures(_images(IMAGE[:, :13], "ab")), f"{_SHAPE} [8, 13]"),
        (Pictures(_images(IMAGE[:, :0], "ab")), f"{_SHAPE} [8, 0]"),
        (Pictures(_images(IMAGE * 255, "ab")), "examples: the ink of an image must be from 0, paper, to 1"),
        (
            Pictures(_images(MARKED, "ab")),
            "examples: the ink of an image must be from 0, paper, to 1",
        ),
        (Pictures(_images(IMAGE, None)), "examples: a target must be a sequence of symbols, not a NoneType"),
        (
            Pictures(_images(IMAGE, "ab", [0, 1])),
            "examples: gold must be the cells of each symbol, not an int",
        ),
        (Pictures(_images(IMAGE, "ab", [[0]])), _CELLS),
        (Pictures(_images(IMAGE, "ab", [[0], [1, 2]])), _CELLS),
        (
            Pictures(_images(IMAGE, "ab", [[0], [8]])),
            "examples: gold has the cell 8, but the image has 0 to 7",
        ),
    ],
)
def test_images_are_checked(data: Pictures, told: str) -> None:
    """Anything else ended in a traceback, or trained in silence on what files of images never give."""
    with pytest.raises(LabError) as error:
        data.setup()
    assert str(error.value) == f"Pictures.{told}"


@pytest.mark.parametrize("image", [IMAGE > 0.5, IMAGE.double(), IMAGE.clone().requires_grad_()])
def test_images_of_other_types(image: Tensor) -> None:
    """A batch is in float32, as models need it."""
    data = Pictures(_images(image, "ab"))
    data.setup()
    source = next(iter(data.test_dataloader())).source
    assert source.dtype == torch.float32
    assert not source.requires_grad


class Nodes(GraphData):
    """Whatever a test gives as the graph."""

    def __init__(self, graph: Any) -> None:
        super().__init__()
        self._graph = graph

    def graph(self) -> Any:
        """See the class."""
        return self._graph


CODEC = NodeCodec(["a", "b", "c"], labels=["x", "y"], edges=[[0, 1], [1, 2]])


def _graph(labels: Any = (0, 1, -1), train: Any = (0,), codec: Any = CODEC) -> LabelledGraph:
    return LabelledGraph(codec, labels, Splits(train, [1], [1]))


_LABELS = "must give the number of the class of each node, -1 if unknown, not"


@pytest.mark.parametrize(
    ("graph", "told"),
    [
        (None, "must return LabelledGraph(codec, labels, splits), not a NoneType"),
        (_graph(codec=None), "must return a NodeCodec as the codec of its LabelledGraph, not a NoneType"),
        (
            LabelledGraph(CODEC, [0, 1, 0], ([0], [1], [2])),  # type: ignore[arg-type]
            "must return Splits as those of its LabelledGraph, not a tuple",
        ),
        (_graph(["x", "y", "x"]), f"{_LABELS} 'x'"),
        (_graph({}), f"{_LABELS} a dict"),
        (_graph([0, 1]), "gives 2 labels for 3 nodes"),
        (_graph([0, 1, 2]), "gives a label 2, but the codec has 0 to 1"),
        (_graph(train=[7]), "gives a node 7, in train, but the nodes are 0 to 2"),
        (_graph(train=[-1]), "gives a node -1, in train, but the nodes are 0 to 2"),
        (_graph(train=[2]), "gives the node 2, in train, whose label is unknown"),
        (
            _graph(train=torch.tensor([True, False, False])),
            "must give the numbers of the nodes of each split, not True",
        ),
        (_graph(train=["a"]), "must give the numbers of the nodes of each split, not 'a'"),
    ],
)
def test_graphs_are_checked(graph: Any, told: str) -> None:
    """A mask was read as the nodes 0 and 1, and a number too large ended in an error of the loss."""
    with pytest.raises(LabError) as error:
        Nodes(graph).setup()
    assert str(error.value) == f"Nodes.graph {told}"


def test_nodes_in_tensors_and_arrays() -> None:
    """Whole numbers may be in either."""
    data = Nodes(_graph(np.array([0, 1, 0]), torch.tensor([0, 2])))
    data.setup()
    assert next(iter(data.train_dataloader())).labels.tolist() == [0, 0]


def test_the_memory_of_the_rows_of_a_tall_image_counts(tmp_path: Path) -> None:
    (tmp_path / "tall.pgm").write_bytes(b"P5 1 33554432 255\n")
    with pytest.raises(LabError, match=r"tall\.pgm has too many pixels; scale it down$"):
        read_image(tmp_path / "tall.pgm", 32, 8)
