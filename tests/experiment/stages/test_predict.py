"""What stage=predict prints and which lines it names, for models that say the same for every input."""

from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.experiment.inputs import Places
from attention_lab.experiment.stages.predict import prediction_table, readable_lines
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.tasks import Transduction


def _trained(split: Any = "characters") -> TrainedModel[Transduction]:
    tokenizer = Tokenizer.of(Notation(split), ["abc"])
    return TrainedModel(Transduction(nn.Identity(), TransductionCodec(tokenizer, tokenizer)))


def test_predictions_control_no_terminal() -> None:
    trained: Any = SimpleNamespace(task=None, predict=lambda texts: ["\x1b]0;x\x07\u202ea\tb\nc می‌خواهم"])
    table = prediction_table(trained, ["\x9b2J", ""], {1: "\x9b2J"})
    assert table == "\ufffd2J\t\\x1b]0;x\\x07\ufffda\\tb\\nc می‌خواهم\n\t\n"


@pytest.mark.parametrize(
    ("inputs", "place"), [("words.txt", "words.txt:3"), ("-", "standard input:3"), (["a"], "input 3")]
)
def test_the_place_of_a_bad_line_is_named(
    inputs: Any, place: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for trained, line, said in (
        (_trained("lemma_tags"), "perav", "a line is lemma<TAB>tags"),
        (_trained(), "a\tb", "contains a tab; give only the source"),
    ):
        with pytest.raises(LabError) as raised:
            readable_lines(
                trained, ["a\tN" if trained.reads_columns else "a", " \t", line], Places.of(inputs)
            )
        assert str(raised.value).startswith(f"{place}: {said}")
    assert capsys.readouterr().err == ""
