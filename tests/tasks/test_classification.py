"""What the classification task shows of an example."""

import pytest
import torch
from torch import Tensor, nn
from toys import toy

from attention_lab.attention import Additive, Mechanism, lengths_mask
from attention_lab.data import ClassificationBatch, ClassificationCodec
from attention_lab.data.reading.datasets import ClassificationSplit
from attention_lab.data.reading.ragged import Ragged
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.models import MultiHeadClassifier
from attention_lab.tasks import Classification
from attention_lab.tasks.pictures import readable


@pytest.mark.parametrize("readout", ["mean", "cls", "attention"])
def test_every_attention_has_its_own_labels(readout: str) -> None:
    torch.manual_seed(0)
    codec = ClassificationCodec(["no", "yes"], length=4, features=3)
    model = toy(MultiHeadClassifier, Additive, codec.sizes, layers=1, readout=readout)
    task = Classification(model, codec).eval()
    batch = ClassificationBatch(torch.rand(2, 4, 3), torch.tensor([4, 1]), torch.tensor([1, -1]))
    first, second = task.observe(batch)
    assert (first.expected, second.expected) == ("yes", "")
    for observation, length in ((first, 4), (second, 1)):
        tokens = observation.input.split(" ")
        assert len(tokens) == length
        positions = ["[CLS]", *tokens] if readout == "cls" else tokens
        for name, weights in observation.weights.items():
            queries, keys = observation.labels(name)
            assert weights.shape == (1 if name == "readout.attention" else 2, len(queries), len(keys))
            assert torch.allclose(weights.sum(-1), torch.ones(weights.shape[:2]))
            assert queries == (["[readout]"] if name == "readout.attention" else positions)
            assert keys == positions
        assert ("readout.attention" in observation.weights) == (readout == "attention")
        places = [readable(record.module) for record in observation.records]
        assert places == ["encoder layer 1", *["readout"] * (readout == "attention")]


class _OneQuery(nn.Module):
    """A user's own classifier: learned queries attend to the vectors, and it says nothing of positions."""

    def __init__(self, queries: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(queries, 3))
        self.attention = Mechanism(Additive)(3, 3)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        memory = self.attention.remember(inputs, mask=lengths_mask(lengths, inputs.shape[1]))
        context: Tensor = self.attention(self.query.expand(len(inputs), -1, -1), memory)
        return context.mean(1)


@pytest.mark.parametrize("queries", [1, 3])
def test_a_model_of_ones_own_needs_no_labels_of_positions(queries: int) -> None:
    codec = ClassificationCodec(["a", "b", "c"], length=4, features=3)
    task = Classification(_OneQuery(queries), codec).eval()  # type: ignore[arg-type]
    batch = ClassificationBatch(torch.rand(2, 4, 3), torch.tensor([4, 2]), torch.tensor([1, -1]))
    for observation, length in zip(task.observe(batch), (4, 2), strict=True):
        tokens = observation.input.split(" ")
        labels = [f"query {number}" for number in range(1, queries + 1)], tokens
        assert observation.labels("attention") == labels
        assert observation.weights["attention"].shape == (1, queries, length)
        assert [record.module for record in observation.records] == ["attention"]


class _Returning(nn.Module):
    """A user's own classifier that returns the same values for every batch."""

    def __init__(self, returned: object) -> None:
        super().__init__()
        self.returned = returned

    def forward(self, inputs: Tensor, lengths: Tensor) -> object:
        return self.returned


@pytest.mark.parametrize(
    ("returned", "given"),
    [
        (torch.zeros(2, 32), r"\[2, 32\]"),  # no readout
        (torch.zeros(2, 1, 32), r"\[2, 1, 32\]"),
        (torch.zeros(4, 3), r"\[4, 3\]"),
        (torch.zeros(2, 3, dtype=torch.int64), "torch.int64"),
        ((torch.zeros(2, 3), None), "a tuple"),
    ],
)
def test_what_a_model_of_ones_own_returns_is_checked(returned: object, given: str) -> None:
    codec = ClassificationCodec(["a", "b", "c"], length=4, features=3)
    task = Classification(_Returning(returned), codec)  # type: ignore[arg-type]
    batch = ClassificationBatch(torch.rand(2, 4, 3), torch.tensor([4, 2]), torch.tensor([1, 2]))
    for step in (task.training_step, task.validation_step, task.test_step):
        with pytest.raises(LabError, match=rf"_Returning must return .*logits \[2, 3\], .*, not {given}"):
            step(batch, 0)


def test_a_text_is_shown_as_it_was_given() -> None:
    codec = ClassificationCodec(
        ["no", "yes"], length=5, tokenizer=Tokenizer.of(Notation("spaces"), [["is", "it"]])
    )
    model = toy(MultiHeadClassifier, Additive, codec.sizes, layers=1, readout="mean")
    given = ["how odd  is it", "it is"]
    batch = codec.encode(given)
    first, second = Classification(model, codec).eval().observe(batch)
    assert [first.input, second.input] == given
    assert first.records[0].keys == ["<unk>", "<unk>", "is", "it"]  # what the model reads
    split = ClassificationSplit(Ragged([[4], [5, 4]]), [0, 1], ["odd", "it is"])
    assert split[torch.tensor([1])].texts == ("it is",)


def test_several_answers_count_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    letters = Tokenizer.of(Notation("characters"), ["abc"])
    codec = ClassificationCodec(["no", "yes"], length=5, tokenizer=letters, answers=2)
    model = toy(MultiHeadClassifier, Additive, codec.sizes, layers=1, readout="last")
    task = Classification(model, codec, label_smoothing=0.1).eval()
    task.log = lambda *_, **__: None  # type: ignore[method-assign]
    batch = codec.encode(["abcab", "abc"])
    classes = model(batch.inputs, batch.lengths).argmax(-1)
    names = [" ".join(codec.labels[one] for one in row) for row in classes.tolist()]
    assert task.answer(batch) == [observed.output for observed in task.observe(batch)] == names
    assert [observed.expected for observed in task.observe(batch)] == ["", ""]
    unnamed = batch._replace(texts=())
    assert task.source_texts(unnamed) == ["a b c a b", "a b c"]
    monkeypatch.setattr("attention_lab.tasks.classification.LONGEST", 3)
    assert task.source_texts(unnamed) == ["a b c … (5 tokens)", "a b c"]
    wrong = classes.clone()
    wrong[0, 1] = 1 - wrong[0, 1]
    gold = batch._replace(labels=wrong)
    assert task.observe(gold)[1].expected == names[1]
    assert task.observe(gold)[0].expected != names[0]
    logits = model(batch.inputs, batch.lengths)
    smooth = 0.9 * logits.log_softmax(-1).gather(-1, wrong.unsqueeze(-1)).squeeze(-1)
    smooth = smooth + 0.1 * logits.log_softmax(-1).mean(-1)
    assert torch.allclose(task.training_step(gold, 0), -smooth.mean())
    task.test_step(gold, 0)
    assert task.accuracy["test"].compute() == 0.75  # type: ignore[operator]
    logged: dict[str, float] = {}
    task.log_dict = lambda values, **_: logged.update(values)  # type: ignore[method-assign,assignment]
    task.on_test_epoch_end()
    assert [(one.text, one.wrong) for one in task.scored] == [("abcab", 1), ("abc", 0)]
    assert logged["test/accuracy_low"] <= 0.75 <= logged["test/accuracy_high"]
