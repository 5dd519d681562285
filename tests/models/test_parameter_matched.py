"""Models of one size whatever their score."""

import pytest
import torch

from attention_lab.attention import Additive, Dot, General, Location, Mechanism
from attention_lab.errors import LabError
from attention_lab.models.parameter_matched import MatchedSeq2Seq, count
from attention_lab.sizes import TransductionSizes

SMALL = TransductionSizes(12, 14)


@pytest.mark.parametrize("score", [Additive, Dot, General, Location])
@pytest.mark.parametrize("sizes", [SMALL, TransductionSizes(900, 60)])
@pytest.mark.parametrize("options", [{}, {"cell": "gru", "wiring": "bahdanau", "input_feeding": True}])
def test_every_score_has_as_many_parameters(score: type, sizes: TransductionSizes, options: dict) -> None:
    model = MatchedSeq2Seq(Mechanism(score), sizes, parameters=200_000, hidden_size=48, **options)
    assert count(model) == pytest.approx(200_000, rel=0.005)
    assert model.decoder.attention.score.key_size == 48  # what is compared has one size for all
    assert all(not parameter.is_meta for parameter in model.parameters())


def test_it_encodes_and_decodes_as_any_other() -> None:
    torch.manual_seed(0)
    model = MatchedSeq2Seq(Mechanism(General), SMALL, parameters=9000, hidden_size=16)
    source, lengths = torch.randint(4, 12, (2, 5)), torch.tensor([5, 3])
    assert model(source, lengths, torch.randint(4, 14, (2, 4))).shape == (2, 4, 14)


def test_a_size_that_cannot_be_is_refused() -> None:
    with pytest.raises(
        LabError, match=r"model.parameters=100 is too few for this mechanism: set \d+ or more"
    ):
        MatchedSeq2Seq(Mechanism(Dot), SMALL, parameters=100, hidden_size=16)
    with pytest.raises(LabError, match=r"set model\.embedding_size=null"):
        MatchedSeq2Seq(Mechanism(Dot), SMALL, parameters=9000, embedding_size=8, hidden_size=16)
