"""Tests and predictions with very long symbols end before they make text of their examples."""

from typing import Any

import pytest
import torch

from attention_lab.attention import Additive, Mechanism
from attention_lab.data import ClassificationBatch, ClassificationCodec, Reverse
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.models import MultiHeadClassifier, Transformer
from attention_lab.tasks import Classification, Task, Transduction
from attention_lab.tasks.errors import text_limit
from attention_lab.tasks.errors.text_limit import TextLimit

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "feedforward": 8}
TOO_MANY = r"^the inputs and outputs have more than 1,000 characters plus 100 for each symbol: "


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_limit, "MOST_TEXT", 1000)


def test_characters_are_counted_without_padding_and_special_symbols() -> None:
    limit, symbols = TextLimit(), ["x" * 700, "y"]
    limit.count(symbols, torch.tensor([[4, 3, 0, 0], [4, 5, 2, 0]]), 4)  # 1,401, and 500 more are allowed
    limit.count(symbols, torch.tensor([1, 2, 3]), 4)  # 0, and 300 more are allowed
    limit.count(["z" * 499], torch.tensor([0]))  # 499, and 100 more are allowed
    with pytest.raises(LabError, match=TOO_MANY):  # none is left
        limit.count(["z" * 101], torch.tensor([0]))


def test_short_symbols_have_no_limit() -> None:
    TextLimit().count(["x" * 100, "y"], torch.zeros(10_000, dtype=torch.int64))
    TextLimit().count([], torch.zeros(2, dtype=torch.int64), 4)


def _tested(task: Task, batch: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(task), "log", lambda *_, **__: None)
    monkeypatch.setattr(type(task), "log_dict", lambda *_, **__: None)
    task.eval()
    with torch.no_grad():
        task.test_step(batch, 0)


@pytest.mark.parametrize("side", ["source", "target"])
def test_sequences(side: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Reverse(train_size=1, validation_size=1, test_size=4)
    data.setup()
    task = Transduction(Transformer(Mechanism(Additive), data.codec.sizes, **SMALL), data.codec)
    batch = data.splits.test[torch.arange(4)]
    _tested(task, batch, monkeypatch)
    symbols = getattr(data.codec, side).vocabulary.symbols
    monkeypatch.setattr(
        getattr(data.codec, side).vocabulary, "symbols", [symbol * 1000 for symbol in symbols]
    )
    monkeypatch.setattr(task, "source_texts", lambda _: pytest.fail("it was made into text"))
    with pytest.raises(LabError, match=TOO_MANY):
        _tested(task, batch, monkeypatch)


def test_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = ClassificationBatch(torch.rand(2, 4, 3), torch.tensor([4, 1]), torch.tensor([1, 0]))
    for length in (1, 1000):
        codec = ClassificationCodec(["n" * length, "y" * length], length=4, features=3)
        task = Classification(MultiHeadClassifier(Mechanism(Additive), codec.sizes, **SMALL), codec)
        if length == 1:
            _tested(task, batch, monkeypatch)
            continue
        with pytest.raises(LabError, match=TOO_MANY):
            _tested(task, batch, monkeypatch)
        with pytest.raises(LabError, match=TOO_MANY):
            task.answer(batch)


def test_several_labels_for_each_input() -> None:
    letters = Tokenizer(Notation("characters"), Vocabulary(["a"]))
    codec = ClassificationCodec(["n" * 101, "y" * 101], 500, tokenizer=letters, answers=500)
    model = MultiHeadClassifier(Mechanism(Additive), codec.sizes, readout="last", **SMALL)
    task = Classification(model, codec).eval()
    assert task.answer(codec.encode(["a" * 500]))  # 50,500, and 51,000 are allowed
    codec.labels[:] = ["n" * 103, "y" * 103]
    with pytest.raises(LabError, match=TOO_MANY):
        task.answer(codec.encode(["a" * 500]))
