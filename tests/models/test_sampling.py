"""Sampling: the distribution by hand, and continuations that depend only on their own prompt."""

import math
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attention_lab.errors import LabError
from attention_lab.models.decoding.sampling import Sampling, draw, generate
from attention_lab.special_symbols import BOS, EOS, PAD, UNK

LOGITS = torch.tensor([0.4, 0.3, 0.2, 0.1], dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("sampling", "expected"),
    [
        (Sampling(), [0.4, 0.3, 0.2, 0.1]),
        (Sampling(temperature=0.0), [1, 0, 0, 0]),
        (Sampling(temperature=0.5), [16 / 30, 9 / 30, 4 / 30, 1 / 30]),  # squares
        (Sampling(top_k=1), [1, 0, 0, 0]),
        (Sampling(top_k=2), [4 / 7, 3 / 7, 0, 0]),
        (Sampling(top_k=9), [0.4, 0.3, 0.2, 0.1]),
        (Sampling(top_p=0.3), [1, 0, 0, 0]),  # the first alone has enough
        (Sampling(top_p=0.5), [4 / 7, 3 / 7, 0, 0]),  # the one that reaches it is in
        (Sampling(top_p=0.8), [4 / 9, 3 / 9, 2 / 9, 0]),
        (Sampling(top_k=3, top_p=0.75), [4 / 7, 3 / 7, 0, 0]),  # 4/9 + 3/9 is 0.78 of what top_k left
        (Sampling(temperature=0.5, top_p=0.6), [16 / 25, 9 / 25, 0, 0]),
    ],
)
def test_probabilities_by_hand(sampling: Sampling, expected: list[float]) -> None:
    turned = torch.tensor([2, 0, 3, 1])  # the order of the symbols plays no part
    for order in (torch.arange(4), turned):
        p = sampling.probabilities(LOGITS[order])
        assert torch.allclose(p, torch.tensor(expected, dtype=torch.float64)[order])


def test_a_higher_temperature_is_flatter() -> None:
    def entropy(temperature: float) -> float:
        p = Sampling(temperature).probabilities(LOGITS)
        return float(-(p * p.log()).sum())

    entropies = [entropy(temperature) for temperature in (0.25, 0.5, 1.0, 2.0, 4.0)]
    assert entropies == sorted(entropies)
    assert entropy(1e9) == pytest.approx(math.log(4))


def test_extreme_logits_stay_finite() -> None:
    p = Sampling(temperature=1e-300, top_p=0.9).probabilities(torch.tensor([1e30, -torch.inf, 0.0]))
    assert p.tolist() == [1, 0, 0]


def test_without_a_limit_nothing_is_lost() -> None:
    p = Sampling().probabilities(torch.tensor([0.0, -100.0, 0.0, -100.0]))
    assert (p > 0).all()


def test_equal_symbols_leave_exactly_k() -> None:
    assert Sampling(top_k=2).probabilities(torch.zeros(2, 3)).tolist() == [[0.5, 0.5, 0.0]] * 2
    assert Sampling(temperature=0.0).probabilities(torch.zeros(3)).tolist() == [1.0, 0.0, 0.0]
    assert Sampling(top_p=0.5).probabilities(torch.zeros(2)).tolist() == [1.0, 0.0]


def test_options_out_of_range_are_refused() -> None:
    for options, message in (
        ({"temperature": -1.0}, r"task\.temperature must be finite and at least 0, got -1.0"),
        ({"temperature": float("nan")}, r"task\.temperature must be finite and at least 0, got nan"),
        ({"temperature": float("inf")}, r"task\.temperature must be finite and at least 0, got inf"),
        ({"top_k": 0}, r"task\.top_k must be at least 1, or null, got 0"),
        ({"top_p": 0.0}, r"task\.top_p must be above 0 and at most 1, got 0.0"),
        ({"top_p": 1.5}, r"task\.top_p must be above 0 and at most 1, got 1.5"),
    ):
        with pytest.raises(LabError, match=message):
            Sampling(**options)  # type: ignore[arg-type]


def test_a_number_falls_into_the_share_of_its_symbol() -> None:
    p = torch.tensor([[0.25, 0.0, 0.5, 0.25, 0.0]], dtype=torch.float64)
    numbers = {0.0: 0, 0.2499: 0, 0.25: 2, 0.7499: 2, 0.75: 3, 1 - 2**-53: 3}
    for number, symbol in numbers.items():
        assert draw(p, torch.tensor([number], dtype=torch.float64)).tolist() == [symbol]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8).filter(any), st.floats(0, 1, exclude_max=True))
def test_nothing_impossible_is_drawn(shares: list[float], number: float) -> None:
    p = torch.tensor([shares], dtype=torch.float64)
    p = p / p.sum()
    (symbol,) = draw(p, torch.tensor([number], dtype=torch.float64)).tolist()
    assert p[0, symbol] > 0


def test_draws_have_the_right_frequencies() -> None:
    p = Sampling(temperature=2.0, top_k=3).probabilities(LOGITS)
    uniform = torch.rand(40_000, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    counts = draw(p.expand(len(uniform), -1), uniform).bincount(minlength=4)
    assert torch.allclose(counts / len(uniform), p.float(), atol=0.01)


class Read(NamedTuple):
    """A state that is all symbols read so far."""

    tokens: Tensor


class Bigrams:
    """`p(y | last symbol)`, and a note of what it was given to read."""

    def __init__(self, table: Tensor, length: int = 100) -> None:
        self.table, self.length = table, length
        self.read: list[list[list[int]]] = []

    def start(self, tokens: Tensor) -> tuple[Tensor, Read]:
        self.read.append(tokens.tolist())
        assert tokens.shape[1] <= self.length
        return self.table[tokens[:, -1]], Read(tokens)

    def step(self, tokens: Tensor, state: Read) -> tuple[Tensor, Read]:
        seen = torch.cat([state.tokens, tokens.unsqueeze(-1)], 1)
        assert seen.shape[1] <= self.length
        return self.table[tokens], Read(seen)


def _chain(length: int = 100) -> Bigrams:
    """4 to 5 to ... to 8 to the end; whatever it likes best is a symbol that is never generated."""
    table = torch.zeros(9, 9)
    table[:, [PAD, BOS, UNK]] = 9.0
    for last in range(4, 8):
        table[last, last + 1] = 5.0
    table[8, EOS] = 5.0
    table[BOS, 4] = 5.0
    return Bigrams(table, length)


def _uniform(rows: int, steps: int, seed: int = 0) -> Tensor:
    return torch.rand(rows, steps, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_prompts_are_continued_to_their_end_or_the_limit() -> None:
    prompts = torch.tensor([[BOS, 7, PAD, PAD], [BOS, 4, PAD, PAD], [BOS, 4, 5, 4], [BOS, 8, 8, 8]])
    outputs = generate(
        _chain(), prompts, torch.tensor([2, 1, 4, 4]), _uniform(4, 3), Sampling(temperature=0.0)
    )
    assert outputs.tolist() == [
        [BOS, 7, 8, EOS, PAD, PAD, PAD],
        [BOS, 4, 5, 6, PAD, PAD, PAD],
        [BOS, 4, 5, 4, 5, 6, 7],
        [BOS, 8, 8, 8, EOS, PAD, PAD],
    ]
    longer = torch.tensor([[BOS, 4, 8, 8, 8, 8]])  # what stands behind the prompt is not read
    assert generate(
        _chain(), longer, torch.tensor([2]), _uniform(1, 2), Sampling(temperature=0.0)
    ).tolist() == [[BOS, 4, 5, 6]]
    short = generate(_chain(), prompts[:1], torch.tensor([2]), _uniform(1, 9), Sampling(temperature=0.0))
    assert short.tolist() == [[BOS, 7, 8, EOS]]  # all have ended: nothing more is computed


def test_every_symbol_is_drawn_with_a_number_of_its_own() -> None:
    table = torch.full((9, 9), -torch.inf)
    table[:, 4:6] = 0.0  # 4 below one half, 5 above
    uniform = torch.tensor([[0.1, 0.6, 0.2], [0.7, 0.3, 0.8]], dtype=torch.float64)
    outputs = generate(
        Bigrams(table), torch.tensor([[BOS, 4], [BOS, PAD]]), torch.tensor([2, 1]), uniform, Sampling()
    )
    assert outputs.tolist() == [[BOS, 4, 4, 5, 4], [BOS, 5, 4, 5, PAD]]


@pytest.mark.long
@given(st.integers(0, 2**30), st.integers(2, 9))
def test_company_changes_nothing(seed: int, length: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    model = Bigrams(torch.randn(9, 9, generator=generator), length)
    lengths = torch.randint(1, 7, (4,), generator=generator)
    prompts = torch.randint(4, 9, (4, 6), generator=generator)
    prompts[:, 0] = BOS
    prompts = prompts.where(torch.arange(6) < lengths.unsqueeze(-1), PAD)
    uniform = _uniform(4, 8, seed)
    together = generate(model, prompts, lengths, uniform, Sampling())
    assert not torch.isin(together[:, 1:], torch.tensor([BOS, UNK])).any()
    for row in range(4):
        alone = generate(
            model, prompts[row : row + 1], lengths[row : row + 1], uniform[row : row + 1], Sampling()
        )
        end = min(alone.shape[1], together.shape[1])
        assert alone[0, :end].equal(together[row, :end])
        assert not together[row, end:].any()
        assert not alone[0, end:].any()
        assert alone[0, : lengths[row]].equal(prompts[row, : lengths[row]])


def test_a_long_text_is_read_again_from_a_later_symbol() -> None:
    table = torch.full((8, 8), -9.0)
    for last, following in ((BOS, 4), (4, 5), (5, 6), (6, 7), (7, 4)):
        table[last, following] = 9.0
    model = Bigrams(table, length=5)
    prompt = torch.tensor([[BOS, 4, 5, 6, 7, 4, 5]])
    outputs = generate(model, prompt, torch.tensor([7]), _uniform(1, 6), Sampling(temperature=0.0))
    assert outputs.tolist() == [[BOS, *(4, 5, 6, 7) * 3]]
    # Four symbols fit behind BOS; where there would be a fifth, the first two are left out.
    expected = [[BOS, 6, 7, 4, 5], [BOS, 4, 5, 6], [BOS, 6, 7, 4], [BOS, 4, 5, 6]]
    assert [row for (row,) in model.read] == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("symbol", [BOS, 4])  # the first step, or a later one
def test_logits_that_are_nan_are_an_error(temperature: float, symbol: int) -> None:
    model = _chain()
    model.table[symbol] = torch.nan
    with pytest.raises(LabError, match=r"^Bigrams gives logits that are NaN: no symbol can be chosen$"):
        generate(model, torch.tensor([[BOS]]), torch.tensor([1]), _uniform(1, 9), Sampling(temperature))
