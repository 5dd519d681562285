"""A pooling with a loss of its own is rejected for models that lack it: their scores would not learn."""

from typing import Any

import pytest
from toys import SYMBOLS, toy

from attention_lab.attention import Exact, Gumbel, Hard, Mechanism, Monotonic, ScaledDot, Soft
from attention_lab.data import ClassificationCodec, Notation, Tokenizer, TransductionCodec
from attention_lab.errors import LabError
from attention_lab.models import EncoderDecoder, Ensemble, MultiHeadClassifier, Seq2Seq, Transformer
from attention_lab.models.parts.recurrent_decoder import AttentiveDecoder
from attention_lab.models.parts.recurrent_encoder import RecurrentEncoder
from attention_lab.models.specs import Seq2SeqSpec
from attention_lab.tasks import Classification, Transduction

LETTERS = Tokenizer.of(Notation("characters"), ["abcde"])
PAIRS = TransductionCodec(LETTERS, LETTERS)
CLASSES = ClassificationCodec(["a", "b", "c"], 8, LETTERS)


def _mechanism(pooling: Any) -> Mechanism:
    return Mechanism(ScaledDot, pooling=pooling)


@pytest.mark.parametrize("pooling", [Hard, Exact, Monotonic])
def test_a_pooling_without_its_loss_is_rejected(pooling: Any) -> None:
    classifier = toy(MultiHeadClassifier, _mechanism(pooling))
    said = r"MultiHeadClassifier has none for encoder.layers.0\S+: choose pooling=soft or gumbel"
    with pytest.raises(LabError, match=f"^pooling={pooling.__name__.lower()} .* {said}"):
        Classification(classifier, CLASSES)
    with pytest.raises(LabError, match="Transformer has none for"):
        Transduction(toy(Transformer, _mechanism(pooling)), PAIRS)


@pytest.mark.parametrize("pooling", [Hard, Exact, Monotonic, Soft, Gumbel])
def test_the_projects_own_model_and_its_ensembles_have_the_loss(pooling: Any) -> None:
    model = toy(Seq2Seq, _mechanism(pooling))
    Transduction(model, PAIRS)
    Transduction(Ensemble([model]), PAIRS)


def test_all_paths_are_summed_only_by_the_decoder_for_this() -> None:
    spec = Seq2SeqSpec(embedding_size=5, hidden_size=6)
    decoder = AttentiveDecoder(_mechanism(Monotonic), SYMBOLS.target_vocabulary, spec)
    model = EncoderDecoder(RecurrentEncoder(SYMBOLS.source_vocabulary, spec), decoder)
    with pytest.raises(LabError, match=r"pooling=monotonic .* EncoderDecoder has none for decoder.attention"):
        Transduction(model, PAIRS)


@pytest.mark.parametrize("pooling", [Soft, Gumbel])
def test_others_are_learned_with_any_loss(pooling: Any) -> None:
    Classification(toy(MultiHeadClassifier, _mechanism(pooling)), CLASSES)


class _OwnLoss(Classification):
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        raise NotImplementedError


def test_a_task_of_another_package_may_have_the_loss() -> None:
    model = toy(MultiHeadClassifier, _mechanism(Hard))
    assert _OwnLoss(model, CLASSES).model is model
