"""The n best outputs of a beam search, against all possible outputs."""

import math
from itertools import product

import pytest
import torch
from beams import beam_search
from toys import LENGTHS, SOURCE, exact_toy

from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq, Transformer
from attention_lab.models.decoding.beam_search import best_first, n_best_search, penalty
from attention_lab.sizes import TransductionSizes
from attention_lab.special_symbols import EOS, PAD, UNK

TINY = TransductionSizes(source_vocabulary=9, target_vocabulary=5)
SYMBOLS = (UNK, 4)
LONGEST = 3


@torch.no_grad()
def _all_outputs(model, row: int) -> dict[tuple[int, ...], float]:
    """The log-probability of every output of at most three symbols that ends."""
    source, lengths = SOURCE[row : row + 1], LENGTHS[row : row + 1]
    found = {}
    for count in range(LONGEST):
        for symbols in product(SYMBOLS, repeat=count):
            target = torch.tensor([[*symbols, EOS]])
            scores = model(source, lengths, target).log_softmax(-1)[0]
            found[*symbols, EOS] = float(scores.gather(1, target[0].unsqueeze(1)).sum())
    return found


@pytest.mark.parametrize("kind", [Seq2Seq, Transformer])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_outputs_in_order(kind, alpha: float) -> None:
    model = exact_toy(kind, sizes=TINY)
    tokens, scores = n_best_search(model, SOURCE, LENGTHS, LONGEST, 16, 5, alpha)
    for row in range(len(SOURCE)):
        every = {ids: score / penalty(len(ids), alpha) for ids, score in _all_outputs(model, row).items()}
        best = sorted(every, key=every.__getitem__, reverse=True)[:5]
        found = [tuple(one for one in ids if one != PAD) for ids in tokens[row].tolist()]
        assert found == best
        assert scores[row].tolist() == pytest.approx([every[ids] for ids in best], abs=1e-5)


@pytest.mark.parametrize("kind", [Seq2Seq, Transformer])
def test_the_best_of_several_is_the_best_of_one(kind) -> None:
    model = exact_toy(kind)
    limits = torch.tensor([9, 4, 6])
    one, score = beam_search(model, SOURCE, LENGTHS, limits, 4)
    several, scores = n_best_search(model, SOURCE, LENGTHS, limits, 4, 3)
    assert torch.allclose(scores[:, 0], score)
    assert torch.equal(several[:, 0, : one.shape[1]], one)
    assert (scores[:, :-1] >= scores[:, 1:]).all()
    assert len({tuple(ids) for ids in several[0].tolist()}) == 3


def test_where_there_are_fewer_the_others_have_no_score() -> None:
    model = exact_toy(Seq2Seq, sizes=TINY)
    _, scores = n_best_search(model, SOURCE, LENGTHS, 1, 8, 6)
    # Of one symbol: the end, or unfinished, which does not count beside a finished one.
    assert [[math.isfinite(score) for score in row] for row in scores.tolist()] == [[True] + [False] * 5] * 3


def test_a_score_that_is_no_number_comes_last() -> None:
    scores = torch.tensor([[math.nan, -2.0, -math.inf, -1.0]])
    outputs, found = best_first(torch.tensor([[[4], [5], [6], [7]]]), scores)
    assert outputs.flatten().tolist() == [7, 5, 4, 6]
    assert found.tolist() == [[-1.0, -2.0, -math.inf, -math.inf]]


@pytest.mark.parametrize(("beams", "n", "name"), [(0, 2, "beam_size"), (2, 0, "n"), (-1, 1, "beam_size")])
def test_sizes_below_one_are_refused(beams: int, n: int, name: str) -> None:
    with pytest.raises(LabError, match=f"^{name} must be at least 1, got"):
        n_best_search(exact_toy(Seq2Seq), SOURCE, LENGTHS, 3, beams, n)
