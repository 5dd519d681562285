"""Classifiers of another package are exported as the project's own are."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attention_lab.attention import Additive, Attention, lengths_mask
from attention_lab.data import ClassificationCodec, Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.inference.exporting import export

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


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["pt2", "onnx"])
@pytest.mark.parametrize(
    ("model", "codec"),
    [
        (OneQuery(), ClassificationCodec(CLASSES, 250, LETTERS)),
        (OneQuery(), ClassificationCodec(CLASSES, 1, LETTERS)),
        (FourRows(), ClassificationCodec(CLASSES, 4, features=2)),
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
def test_a_size_that_becomes_a_constant_is_told_with_the_remedy(tmp_path: Path) -> None:
    codec = ClassificationCodec(CLASSES, 9, LETTERS)
    told = r"^m.pt2: in the graph of this model, a batch size or length is a constant; .*`len\(x\)`"
    with pytest.raises(LabError, match=told) as error:
        export(ConstantBatch().eval(), codec, tmp_path / "m.pt2")
    assert "\n" not in str(error.value) and not list(tmp_path.iterdir())
