"""What the predict of a loaded model takes."""

from typing import Any

import pytest
from torch import nn

from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.experiment.checkpoints import TrainedModel
from attention_lab.tasks import Task


class Echo(Task):
    """Says how many inputs there are."""

    def answer(self, batch: Any) -> list[str]:
        return [str(len(batch.source))] * len(batch.source)

    def observe(self, batch: Any) -> list[Any]:
        return self.answer(batch)


@pytest.fixture
def trained() -> TrainedModel:
    letters = Tokenizer.of(Notation("characters"), ["abc"])
    return TrainedModel(Echo(nn.Identity(), TransductionCodec(letters, letters)))


@pytest.mark.parametrize("method", ["predict", "observe"])
def test_a_list_of_texts_is_needed(trained: TrainedModel, method: str) -> None:
    call = getattr(trained, method)
    assert call(["cab", "a"]) == call(("cab", "a")) == ["2", "2"]
    for given, said in {
        "cab": rf"^{method} takes a list of inputs, not a single text: {method}\(\['cab'\]\)$",
        "a" * 5000: r"aaa\.\.\.'\]\)$",
        (3,): rf"^{method}: input 1 is of the type int, not a text",
        ("a", None): rf"^{method}: input 2 is of the type NoneType, not a text",
        b"cab": "not of the type bytes$",
        7: "not of the type int$",
    }.items():
        with pytest.raises(LabError, match=said):
            call(given)


def test_symbols_that_training_had_none_of_are_named(trained: TrainedModel) -> None:
    assert trained.unseen_symbols(["cab", "b"]) == ""
    assert trained.unseen_symbols(["cab", '"a1"']) == 'training had none of these symbols: " 1 in input 2'
    many = trained.unseen_symbols([*["x"] * 7, "a"])
    assert many.startswith("training had none of these symbols: x in input 1, x in input 2,")
    assert many.endswith("x in input 5, and others in 2 more inputs")
    assert len(trained.unseen_symbols(["\x1b" + "".join(map(chr, range(1000, 9000)))])) < 80
