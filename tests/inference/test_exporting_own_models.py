"""Classifiers of another package are exported as the project's own are."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from attention_lab.attention import Additive, Attention, lengths_mask
from attention_lab.data import ClassificationCodec, Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.inference.exporting import _check, export
from attention_lab.models.exporting import graphs_of
from attention_lab.models.exporting.recurrence import scanned

LETTERS = Tokenizer.of(Notation("characters"), ["abcde"])
CLASSES = ["a", "b", "c"]
pytestmark = pytest.mark.usefixtures("unchecked_shapes")
"""While a graph is traced, sizes are symbols, which the checks of shapes do not know."""


class OneQuery(nn.Module):
    """Attends to symbols, of any number."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS.vocabulary), 8)
        self.attention = Attention(Additive(8, 8, hidden_size=4))
        self.query = nn.Parameter(torch.randn(1, 8))
        self.classify = nn.Linear(8, len(CLASSES))

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        x = self.embed(inputs)
        memory = self.attention.remember(x, mask=lengths_mask(lengths, x.shape[1]))
        query = self.query.expand(self.count(x), -1, -1)
        logits: Tensor = self.classify(self.attention(query, memory).squeeze(1))
        return logits

    def count(self, x: Tensor) -> int:
        return x.shape[0]


class ConstantBatch(OneQuery):
    """Its batch size is a constant in a graph."""

    def count(self, x: Tensor) -> int:
        return len(x)


class FourRows(nn.Module):
    """Reads four vectors, and no other number."""

    def __init__(self) -> None:
        super().__init__()
        self.classify = nn.Linear(4 * 2, len(CLASSES))

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        logits: Tensor = self.classify(inputs.flatten(1))
        return logits


class Recurrent(nn.Module):
    """Reads symbols with a recurrent layer, and answers with its last state."""

    def __init__(self, layers: nn.RNNBase, packs: bool = False) -> None:
        super().__init__()
        self.embed, self.layers, self.packs = nn.Embedding(len(LETTERS.vocabulary), 8), layers, packs
        self.classify = nn.LazyLinear(len(CLASSES))
        self(torch.full((1, 1), 4), torch.ones(1, dtype=torch.int64))

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        self.layers.flatten_parameters()
        x: Any = self.embed(inputs if self.layers.batch_first else inputs.mT)
        if self.packs:
            x = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        states = self.layers(x)[1]
        last = states[0] if isinstance(states, tuple) else states
        logits: Tensor = self.classify(last.transpose(0, 1).flatten(1))
        return logits


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
@pytest.mark.parametrize(
    ("model", "codec"),
    [
        (OneQuery(), ClassificationCodec(CLASSES, 250, LETTERS)),
        (OneQuery(), ClassificationCodec(CLASSES, 1, LETTERS)),
        (FourRows(), ClassificationCodec(CLASSES, 4, features=2)),
        (
            Recurrent(nn.LSTM(8, 8, num_layers=2, bidirectional=True, dropout=0.5, batch_first=True)),
            ClassificationCodec(CLASSES, 250, LETTERS),
        ),
    ],
)
def test_a_classifier_of_another_package_is_exported(
    model: nn.Module, codec: ClassificationCodec, suffix: str, tmp_path: Path
) -> None:
    if suffix == "onnx":
        pytest.importorskip("onnxruntime")
        pytest.importorskip("onnxscript")
    *_, about = export(model.eval(), codec, tmp_path / f"m.{suffix}")
    told = json.loads(about.read_text())
    assert told["graphs"]["model"]["longest"] == codec.length and told["largest_difference"] < 1e-5


@pytest.mark.long
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(
    "layers",
    [
        nn.GRU(8, 8, num_layers=2, bidirectional=True, batch_first=True),
        nn.GRU(8, 6, bidirectional=True),
        nn.LSTM(8, 8, bias=False),
        nn.LSTM(8, 8, proj_size=3, bidirectional=True, num_layers=2),
        nn.RNN(8, 8),
        nn.RNN(8, 8, nonlinearity="relu"),
    ],
)
def test_any_recurrent_layer_of_a_classifier_is_exported(layers: nn.RNNBase, tmp_path: Path) -> None:
    codec = ClassificationCodec(CLASSES, 250, LETTERS)
    *_, about = export(Recurrent(layers).eval(), codec, tmp_path / "m.pt2")
    assert json.loads(about.read_text())["largest_difference"] < 1e-5


def test_a_recurrent_layer_with_a_forward_of_its_own_is_not_replaced() -> None:
    class Own(nn.GRU):
        pass

    model = scanned(nn.ModuleList([Own(2, 2), nn.GRU(2, 2)]))
    assert ["forward" in vars(layer) for layer in model.children()] == [False, True]


def test_a_packed_sequence_is_told(tmp_path: Path) -> None:
    codec = ClassificationCodec(CLASSES, 9, LETTERS)
    with pytest.raises(LabError, match=r"a recurrent layer a PackedSequence, .* padded"):
        export(Recurrent(nn.LSTM(8, 8, batch_first=True), packs=True).eval(), codec, tmp_path / "m.pt2")


class DependsOnData(OneQuery):
    """Asks for a value, which a trace does not have."""

    def count(self, x: Tensor) -> int:
        return x.shape[0] if x.max() > 3 else x.shape[0] + 0


@pytest.mark.long
def test_a_failing_trace_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = "^m.pt2: torch.export cannot trace this model: GuardOnDataDependentSymNode"
    with pytest.raises(LabError, match=told) as error:
        export(DependsOnData().eval(), ClassificationCodec(CLASSES, 9, LETTERS), tmp_path / "m.pt2")
    assert "\n" not in str(error.value) and capsys.readouterr() == ("", "")


@pytest.mark.long
def test_a_size_that_becomes_a_constant_is_told_with_the_remedy(tmp_path: Path) -> None:
    codec = ClassificationCodec(CLASSES, 9, LETTERS)
    told = r"^m.pt2: in the graph of this model, a batch size or length is a constant; .*`len\(x\)`"
    with pytest.raises(LabError, match=told) as error:
        export(ConstantBatch().eval(), codec, tmp_path / "m.pt2")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())


def test_the_length_with_which_a_graph_fails(tmp_path: Path) -> None:
    """A classifier with four answers reads at least four symbols."""
    codec = ClassificationCodec(CLASSES, 9, LETTERS, answers=4)
    (graph,) = graphs_of(nn.Linear(1, 1), codec.sizes)
    graph = replace(graph, expected=lambda inputs, lengths: [inputs])

    def run(inputs: tuple[Tensor, ...]) -> list[Tensor]:
        raise RuntimeError("a guard failed")

    with pytest.raises(LabError) as error:
        _check(graph, run, tmp_path / "m.pt2")
    told = "the graph does not run on a batch of 1 with length 4: RuntimeError: a guard failed"
    assert str(error.value) == f"{tmp_path}/m.pt2: {told}"
