"""Connectionist temporal classification of the encoder's annotations, against a sum over all frames."""

import math
from itertools import groupby, product

import pytest
import torch
from torch import Tensor, nn
from toys import toy

from attention_lab.attention import ScaledDot
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq, Transformer
from attention_lab.models.parts.ctc import CTCHead
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS, PAD

SIZE, VOCABULARY, FRAMES = 3, 7, 2


def _head(dropout: float = 0.0) -> CTCHead:
    torch.manual_seed(0)
    return CTCHead(SIZE, VOCABULARY, FRAMES, dropout)


def _likelihood(probabilities: list[list[float]], symbols: list[int]) -> float:
    """The sum over all ways to fill the frames that leave `symbols`, repetitions merged and blanks out."""
    total = 0.0
    for path in product(range(VOCABULARY), repeat=len(probabilities)):
        if [symbol for symbol, _ in groupby(path) if symbol != PAD] == symbols:
            total += math.prod(frame[symbol] for frame, symbol in zip(probabilities, path, strict=True))
    return total


@pytest.mark.parametrize("symbols", [[4, 5], [4, 4], [6], []], ids=str)
def test_it_is_the_likelihood_summed_over_all_frames(symbols: list[int]) -> None:
    head, annotations = _head(), torch.randn(1, 2, SIZE)
    assert head(annotations).shape == (1, 2 * FRAMES, VOCABULARY)
    probabilities = head(annotations).softmax(-1)[0].tolist()
    loss = head.loss(annotations, torch.ones(1, 1, 2, dtype=torch.bool), torch.tensor([[*symbols, EOS]]))
    expected = -math.log(_likelihood(probabilities, symbols)) / max(len(symbols), 1)
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def _loss(annotations: Tensor, lengths: list[int], target: list[list[int]]) -> Tensor:
    mask = torch.arange(annotations.shape[1]) < torch.tensor(lengths)[:, None]
    return _head().loss(annotations, mask.unsqueeze(1), torch.tensor(target))


def test_padding_counts_for_nothing_and_the_impossible_neither() -> None:
    annotations = torch.randn(2, 3, SIZE)
    together = _loss(annotations, [3, 2], [[4, 5, EOS], [5, EOS, PAD]])
    alone = [_loss(annotations[:1], [3], [[4, 5, EOS]]), _loss(annotations[1:, :2], [2], [[5, EOS]])]
    torch.testing.assert_close(together, (alone[0] + alone[1]) / 2)
    poisoned = annotations.clone()
    poisoned[1, 2] = 1e9
    assert _loss(poisoned, [3, 2], [[4, 5, EOS], [5, EOS, PAD]]) == together
    # Three symbols do not fit into the two frames of one annotation.
    assert _loss(annotations[:1], [1], [[4, 5, 6, EOS]]) == 0


def test_of_half_precision_the_loss_is_computed_in_single() -> None:
    head, annotations = _head(), torch.randn(1, 3, SIZE)
    mask, target = torch.ones(1, 1, 3, dtype=torch.bool), torch.tensor([[4, 5, EOS]])
    found = head.bfloat16().loss(annotations.bfloat16(), mask, target)
    expected = head.float().loss(annotations, mask, target)
    torch.testing.assert_close(found, expected, rtol=0.02, atol=0)


@pytest.mark.parametrize("model", [Seq2Seq, Transformer])
def test_models_have_one_where_asked_for(model: type[nn.Module]) -> None:
    sizes = TransductionSizes(7, VOCABULARY)
    made = toy(model, ScaledDot, sizes, ctc_frames=FRAMES)
    encoded = made.encode(torch.tensor([[4, EOS]]), torch.tensor([2]))
    assert made.tagger(encoded.keys).shape == (1, 2 * FRAMES, VOCABULARY)
    assert toy(model, ScaledDot, sizes).tagger is None
    with pytest.raises(LabError, match=r"ctc_frames"):
        toy(model, ScaledDot, sizes, ctc_frames=-1)
