"""The encoder and its classifier: padding, causality, readouts, the scale of embeddings."""

import math

import pytest
import torch

from attention_lab.attention import Additive, Gaussian, Mechanism, ScaledDot, recording
from attention_lab.errors import LabError
from attention_lab.models import SequenceClassifier
from attention_lab.models.encoder import ScaledEmbedding
from attention_lab.sizes import PAD, ClassificationSizes

SIZES = ClassificationSizes(classes=3, length=8, vocabulary=12)
OPTIONS = {"d_model": 16, "heads": 2, "layers": 2, "feedforward": 24}


def _classifier(
    score: type = ScaledDot, sizes: ClassificationSizes = SIZES, **options: object
) -> SequenceClassifier:
    torch.manual_seed(0)
    return SequenceClassifier(Mechanism(score), sizes, **OPTIONS, **options).double().eval()  # type: ignore[arg-type]


@pytest.mark.parametrize("score", [ScaledDot, Additive, Gaussian])
@pytest.mark.parametrize("readout", ["mean", "cls"])
@pytest.mark.parametrize("causal", [False, True])
def test_padding_and_company_change_nothing(score: type, readout: str, causal: bool) -> None:
    model = _classifier(score, readout=readout, causal=causal)
    long, short = torch.randint(4, 12, (1, 8)), torch.randint(4, 12, (1, 3))
    padded = torch.cat([short, torch.full((1, 5), PAD)], 1)
    together = model(torch.cat([long, padded]), torch.tensor([8, 3]))
    assert torch.allclose(together[1:], model(short, torch.tensor([3])), atol=1e-10)
    poisoned = padded.clone()
    poisoned[:, 3:] = 11
    assert torch.allclose(together[1:], model(poisoned, torch.tensor([3])), atol=1e-10)


def test_a_causal_encoder_does_not_see_the_future() -> None:
    model = _classifier(causal=True)
    x = torch.randn(1, 6, 16, dtype=torch.float64)
    changed = x.clone()
    changed[:, 4:] *= -1
    before, after = (model.encoder(each, torch.tensor([6])) for each in (x, changed))
    assert torch.allclose(before[:, :4], after[:, :4], atol=1e-12)
    assert not torch.allclose(before[:, 4:], after[:, 4:], atol=1e-3)


def test_cls_reads_the_whole_sequence_under_a_causal_mask() -> None:
    model = _classifier(readout="cls", causal=True)
    x = torch.randint(4, 12, (1, 5))
    changed = x.clone()
    changed[0, 0] = 4 + (x[0, 0] - 3) % 8
    assert not torch.allclose(model(x, torch.tensor([5])), model(changed, torch.tensor([5])), atol=1e-6)
    assert model.position_labels(["a", "b"]) == ["a", "b", "[CLS]"]
    assert _classifier(readout="cls").position_labels(["a"]) == ["[CLS]", "a"]


def test_without_positions_the_order_does_not_matter() -> None:
    model = _classifier(positions="none")
    x = torch.randint(4, 12, (1, 6))
    assert torch.allclose(model(x, torch.tensor([6])), model(x.flip(1), torch.tensor([6])), atol=1e-10)
    model = _classifier(positions="sinusoidal")
    assert not torch.allclose(model(x, torch.tensor([6])), model(x.flip(1), torch.tensor([6])), atol=1e-6)


def test_every_layer_and_head_is_recorded() -> None:
    model = _classifier()
    with recording(model) as weights:
        model(torch.randint(4, 12, (3, 8)), torch.tensor([8, 5, 1]))
    assert [tuple(weights[name].shape) for name in weights] == [(3, 2, 8, 8)] * 2
    assert list(weights) == [f"encoder.layers.{i}.attention.attention" for i in range(2)]


def test_vectors_instead_of_tokens() -> None:
    model = _classifier(sizes=ClassificationSizes(classes=3, length=8, features=5))
    assert model(torch.randn(2, 8, 5, dtype=torch.float64), torch.tensor([8, 8])).shape == (2, 3)


@pytest.mark.parametrize("scaled", [True, False])
def test_embeddings_start_with_the_size_of_the_positions(scaled: bool) -> None:
    torch.manual_seed(0)
    embedding = ScaledEmbedding(500, 64, scaled)
    vectors = embedding(torch.arange(1, 500))
    assert 0.95 < vectors.std().item() < 1.05
    factor = math.sqrt(64) if scaled else 1.0
    assert torch.allclose(vectors, embedding.weight[1:] * factor)
    assert (embedding(torch.tensor([PAD])) == 0).all()


def test_an_unknown_readout_is_refused() -> None:
    with pytest.raises(LabError, match="choose mean or cls"):
        _classifier(readout="max")
