"""The predictions of a loaded model as numbers: probabilities of labels, and values of a regression."""

import pytest
import torch
from saved_models import transduction
from torch import Tensor
from toys import toy

from attention_lab.attention import Gaussian, Mechanism
from attention_lab.data.reading.codecs import ClassificationCodec, RegressionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer
from attention_lab.errors import LabError
from attention_lab.inference.trained_model import BATCH, TrainedModel
from attention_lab.models import KernelRegression, MultiHeadClassifier
from attention_lab.models.ensemble import ClassifierEnsemble
from attention_lab.sizes import RegressionSizes
from attention_lab.tasks import Classification, Regression

LABELS = ["a", "b", "c"]
WORDS = Tokenizer.of(Notation("words"), ["x y z"])


def classifier(answers: int = 1, seed: int = 0) -> TrainedModel[Classification]:
    codec = ClassificationCodec(LABELS, length=4, tokenizer=WORDS, answers=answers)
    readout = "mean" if answers == 1 else "last"
    model = toy(MultiHeadClassifier, sizes=codec.sizes, readout=readout, seed=seed)
    return TrainedModel(Classification(model, codec))


def regression(mean: float = 0.0) -> tuple[TrainedModel[Regression], Tensor]:
    """A kernel regression of 9 samples whose targets have this mean, and the samples [9, 3]."""
    samples = torch.rand(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    samples[:, -1] += mean
    codec = RegressionCodec.of(["x", "y"], "z", samples, standardize=True)
    model = KernelRegression(Mechanism(Gaussian), RegressionSizes(2, 1, 9))
    model.memorize(*codec.standardize(samples))
    return TrainedModel(Regression(model, codec)), samples


def test_probabilities_are_in_the_order_of_the_labels() -> None:
    trained = classifier()
    inputs = ["x", "y x z", "z"]
    found = trained.predict_probabilities(inputs)
    assert found.shape == (3, 3)
    assert found.dtype == torch.float64
    assert torch.allclose(found.sum(-1), torch.ones(3, dtype=torch.float64), rtol=0, atol=1e-12)
    for row, scores in zip(found.tolist(), trained.predict_n_best(inputs, 3), strict=True):
        by_label = dict(scores)
        expected = torch.tensor([by_label[label] for label in LABELS], dtype=torch.float64).exp()
        assert torch.allclose(torch.tensor(row, dtype=torch.float64), expected, rtol=1e-12)
    assert [LABELS[row.argmax()] for row in found] == trained.predict(inputs)


def test_an_ensemble_gives_the_mean_of_the_probabilities() -> None:
    first, second = classifier(), classifier(seed=1)
    expected = (first.predict_probabilities(["x y"]) + second.predict_probabilities(["x y"])) / 2
    both = Classification(ClassifierEnsemble([first.model, second.model]), first.codec)
    found = TrainedModel(both).predict_probabilities(["x y"])
    assert torch.allclose(found, expected, rtol=1e-6)


def test_several_labels_for_an_input_have_probabilities_at_each_position() -> None:
    trained = classifier(answers=2)
    found = trained.predict_probabilities(["x y", "z z x"])
    assert found.shape == (2, 2, 3)
    chosen = [" ".join(LABELS[row.argmax()] for row in rows) for rows in found]
    assert chosen == trained.predict(["x y", "z z x"])


@pytest.mark.parametrize("mean", [0.0, 1e6])
def test_values_are_in_the_units_of_the_data_and_not_rounded(mean: float) -> None:
    trained, samples = regression(mean)
    rows = samples[:, :2]
    found = trained.predict_values(list(rows))
    assert found.shape == (9,)
    assert found.dtype == torch.float64
    assert [f"{value:.6g}" for value in found.tolist()] == trained.predict(list(rows))
    inputs = (rows - torch.tensor(trained.codec.mean[:2])) / torch.tensor(trained.codec.deviation[:2])
    with torch.no_grad():
        scaled = trained.model(inputs.float(), torch.full([9], -1)).double()[:, 0]
    expected = scaled * trained.codec.deviation[-1] + trained.codec.mean[-1]
    assert torch.allclose(found, expected, rtol=0, atol=1e-6)  # in float32, 0.06 with a mean of 1e6


def test_many_inputs_are_predicted_in_batches() -> None:
    trained, samples = regression()
    one = trained.predict_values([samples[0, :2]])
    many = trained.predict_values([samples[0, :2]] * (BATCH + 1))
    assert torch.allclose(many, one.expand(BATCH + 1), rtol=0, atol=1e-6)


def test_no_inputs_give_no_rows() -> None:
    assert classifier().predict_probabilities([]).shape == (0, 3)
    assert classifier(answers=2).predict_probabilities([]).shape == (0, 2, 3)
    assert regression()[0].predict_values([]).shape == (0,)


def test_the_wrong_kind_of_model_is_rejected() -> None:
    trained, _ = regression()
    with pytest.raises(LabError, match=r"^predict_probabilities needs a classifier, not Regression$"):
        trained.predict_probabilities(["1 2"])
    with pytest.raises(LabError, match=r"^predict_values needs a regression, not Classification$"):
        classifier().predict_values(["x"])
    words = TrainedModel(transduction())
    with pytest.raises(LabError, match=r"^predict_probabilities needs a classifier, not Transduction; for "):
        words.predict_probabilities(["ab"])
    with pytest.raises(LabError, match=r"^predict_values takes a list of inputs, not a single text"):
        trained.predict_values("1 2")  # type: ignore[arg-type]
