"""What a loaded model predicts from arrays of numbers, and the scores of its labels."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from toys import toy

from attention_lab.data.reading.codecs import ClassificationCodec, RegressionCodec, SeriesCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.inference.trained_model import TrainedModel
from attention_lab.models import MultiHeadClassifier
from attention_lab.tasks import Classification

SERIES = torch.tensor([[0.1, -2.0], [1e-7, 3.25], [4.0, 0.5]], dtype=torch.float64)
LABELS = ["a", "b", "c"]


def classifier(codec: ClassificationCodec) -> TrainedModel[Classification]:
    return TrainedModel(Classification(toy(MultiHeadClassifier, sizes=codec.sizes), codec))


@pytest.mark.parametrize(
    ("codec", "line", "same"),
    [
        (
            SeriesCodec.of(LABELS, [SERIES], 5),
            "0.1 -2; 0.0000001 3.25; 4 0.5",
            [SERIES, SERIES.tolist(), SERIES.numpy(), SERIES.clone().requires_grad_()],
        ),
        (
            SeriesCodec.of(LABELS, [SERIES[:, :1]], 5),
            "0.1; 0.0000001; 4",
            [SERIES[:, 0], SERIES[:, 0].tolist(), SERIES[:, 0].numpy(), SERIES[:, :1]],
        ),
        (
            ClassificationCodec(LABELS, length=3, features=2),
            "0.1 -2 0.0000001 3.25 4 0.5",
            [SERIES, SERIES.tolist(), SERIES.flatten()],
        ),
    ],
    ids=["series", "one variable", "vectors"],
)
def test_numbers_may_be_given_as_arrays(codec: ClassificationCodec, line: str, same: list[Any]) -> None:
    trained = classifier(codec)
    expected = trained.predict_n_best([line], 3)
    for one in same:
        assert trained.predict_n_best([one], 3) == expected
        assert trained.predict([one]) == trained.predict([line]) == [expected[0][0][0]]
        (found,), (wanted,) = trained.observe([one]), trained.observe([line])
        assert found.input == wanted.input
        assert all(found.weights[name].equal(wanted.weights[name]) for name in wanted.weights)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            SERIES.numpy(),
            r"^predict takes a list of inputs, such as predict\(list\(array\)\), not .* ndarray$",
        ),
        ([SERIES[None]], "^predict: input 1 is an array of 3 dimensions, not"),
        (["1 2", {}], "^predict: input 2 is of the type dict, not a text or an array of numbers$"),
        ([None], "^predict: input 1 is of the type NoneType, not a text or an array of numbers$"),
        ([SERIES * 1j], "^predict: input 1 is of the type Tensor, not a text or an array of numbers$"),
        ([SERIES.numpy() * 1j], "^predict: input 1 is of the type ndarray, not a text or an array"),
        (["1 2", SERIES * torch.nan], "^input 2: 'nan' should be a finite number"),
        ([SERIES[:0]], "^input 1: step 1 has no numbers"),
        ([SERIES.T], "^input 1: a step has 3 numbers, but the model reads 2$"),
    ],
)
def test_arrays_that_cannot_be_read(given: Any, said: str) -> None:
    with pytest.raises(LabError, match=said):
        classifier(SeriesCodec.of(LABELS, [SERIES], 5)).predict(given)


def test_a_row_of_a_table_may_be_an_array() -> None:
    codec = RegressionCodec.of(["x", "y"], "z", torch.rand(9, 3), standardize=True)
    batch = codec.encode([codec.as_line(torch.tensor([0.25, 4.0])), "0.25 4"])
    assert batch.inputs[0].equal(batch.inputs[1])


def probabilities(trained: TrainedModel[Classification], given: Tensor) -> Tensor:
    logits = trained.task.logits(trained.codec.encode([trained.codec.as_line(given)]))
    return logits[0].detach().double().softmax(-1)


def test_the_scores_of_labels_are_their_log_probabilities() -> None:
    trained = classifier(SeriesCodec.of(LABELS, [SERIES], 5))
    (found,) = trained.predict_n_best([SERIES], 100)
    expected = probabilities(trained, SERIES)
    assert sorted(label for label, _ in found) == LABELS
    for label, score in found:
        assert math.isclose(math.exp(score), expected[LABELS.index(label)], rel_tol=1e-12)
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)
    assert trained.predict_n_best([SERIES], 2) == [found[:2]]
    assert trained.predict([SERIES]) == [found[0][0]]


def test_scores_need_one_label_for_an_input() -> None:
    words = Tokenizer.of(Notation("words"), ["x y z"])
    several = ClassificationCodec(["a", "b"], length=4, tokenizer=words, answers=2)
    model = toy(MultiHeadClassifier, sizes=several.sizes, readout="last")
    with pytest.raises(LabError, match=r"gives 2 labels per input: n-best outputs need exactly one$"):
        TrainedModel(Classification(model, several)).predict_n_best(["x y"], 2)
