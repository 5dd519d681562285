import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.metrics import SequenceErrorRate, TokenErrorRate, edit_distance, nearest
from attention_lab.metrics.error_rates import sequence_lengths
from attention_lab.special_symbols import EOS, PAD

words = st.lists(st.integers(4, 7), max_size=8)


def padded(rows: list[list[int]], size: int) -> torch.Tensor:
    return torch.tensor([row + [PAD] * (size - len(row)) for row in rows], dtype=torch.int64).view(-1, size)


def ended(rows: list[list[int]], size: int = 10) -> torch.Tensor:
    return padded([[*row, EOS] for row in rows], size)


def references(slots: list[list[list[int]]], size: int = 10) -> torch.Tensor:
    """Pad to as many slots as the most; an unused slot is all PAD."""
    most = max(map(len, slots))
    empty = torch.zeros(len(slots), most, size, dtype=torch.int64)
    for row, slot in zip(empty, slots, strict=True):
        row[: len(slot)] = ended(slot, size)
    return empty


def plain_distance(first: list[int], second: list[int]) -> int:
    """The textbook table, cell by cell."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(second) + 1)] for i in range(len(first) + 1)]
    for i, a in enumerate(first, 1):
        for j, b in enumerate(second, 1):
            table[i][j] = min(table[i - 1][j] + 1, table[i][j - 1] + 1, table[i - 1][j - 1] + (a != b))
    return table[-1][-1]


def distance(first: list[int], second: list[int]) -> int:
    """One pair, with garbage beyond both lengths, which alone decide."""
    tails = [9, 9], [8]
    one, two = (torch.tensor([[*row, *tail]]) for row, tail in zip((first, second), tails, strict=True))
    return int(edit_distance(one, torch.tensor([len(first)]), two, torch.tensor([len(second)])))


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("rain", "shine", 3),
        ("kitten", "sitting", 3),
        ("", "abc", 3),
        ("abc", "", 3),
        ("", "", 0),
        ("ab", "ba", 2),
    ],
)
def test_edit_distance_by_hand(first: str, second: str, expected: int) -> None:
    assert distance([ord(c) for c in first], [ord(c) for c in second]) == expected


def test_edit_distance_is_exact_far_from_the_diagonal() -> None:
    word = list(range(100, 250))
    assert distance([1] * 26 + word, word + [2] * 26) == 52  # 26 insertions, 26 deletions


@given(words, words)
def test_edit_distance_equals_the_table(first: list[int], second: list[int]) -> None:
    assert distance(first, second) == plain_distance(first, second)


@given(st.lists(st.tuples(words, words), min_size=1, max_size=5))
def test_edit_distances_of_a_batch_are_those_of_its_pairs(pairs: list[tuple[list[int], list[int]]]) -> None:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    found = edit_distance(
        padded(first, 8),
        torch.tensor([len(row) for row in first]),
        padded(second, 8),
        torch.tensor([len(row) for row in second]),
    )
    assert found.tolist() == [plain_distance(*pair) for pair in pairs]


def test_any_leading_sizes() -> None:
    first = torch.tensor([[[4, 5, 6], [4, EOS, PAD]], [[EOS, PAD, PAD], [5, 6, EOS]]])
    second = first.flip(0)
    lengths = sequence_lengths(first)
    assert lengths.tolist() == [[3, 1], [0, 2]]
    assert edit_distance(first, lengths, second, lengths.flip(0)).tolist() == [[3, 2], [3, 2]]


def test_rates_by_hand() -> None:
    predictions = ended([[4, 5, 6], [4, 5], [7, 7, 7]])
    gold = references([[[4, 5, 6]], [[5, 4, 5, 6], [4, 5, 6]], [[4]]])
    sequences, tokens = SequenceErrorRate(), TokenErrorRate()
    found = nearest(predictions, gold)
    sequences.update(found)
    tokens.update(found)
    assert sequences.compute().item() == pytest.approx(2 / 3)
    assert tokens.compute().item() == pytest.approx((0 + 1 + 3) / (3 + 3 + 1))


@pytest.mark.parametrize("kind", [SequenceErrorRate, TokenErrorRate])
def test_a_rate_takes_predictions_and_references_or_what_is_nearest(
    kind: type[SequenceErrorRate | TokenErrorRate],
) -> None:
    given = ended([[4, 5, 6], [4, 5]]), references([[[4, 5, 6]], [[5, 4, 5, 6], [4, 5, 6]]])
    own, shared = kind(), kind()
    own.update(*given)
    shared.update(nearest(*given))
    assert own.compute() == shared.compute() > 0


def test_the_first_of_equally_near_references_gives_the_length() -> None:
    predictions = ended([[4, 5]])
    for slots, expected in (([[4], [4, 5, 6]], 1 / 1), ([[4, 5, 6], [4]], 1 / 3)):
        tokens = TokenErrorRate()
        tokens.update(nearest(predictions, references([slots])))
        assert tokens.compute().item() == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "wrong", "errors"),
    [
        ([4, 5, EOS, PAD, PAD], 0, 0),
        ([4, 5, EOS, 6, EOS], 0, 0),  # nothing counts after the first EOS
        ([4, 5, PAD, PAD, PAD], 0, 0),  # cut off before its EOS, then padded
        ([4, 5, 6, 6, 6], 1, 3),  # cut off at full length
        ([4, PAD, 5, EOS, PAD], 1, 1),  # padding in the midst was emitted: a mistake
        ([4, 5, PAD, EOS, PAD], 1, 1),
        ([EOS, 4, 5, EOS, PAD], 1, 2),
        ([PAD, PAD, PAD, PAD, PAD], 1, 2),
    ],
)
def test_where_a_prediction_ends(prediction: list[int], wrong: int, errors: int) -> None:
    sequences, tokens = SequenceErrorRate(), TokenErrorRate()
    found = nearest(torch.tensor([prediction]), references([[[4, 5]]]))
    sequences.update(found)
    tokens.update(found)
    assert sequences.compute().item() == wrong
    assert tokens.compute().item() == errors / 2


@pytest.mark.long
@given(
    st.lists(st.tuples(words, st.lists(words, min_size=1, max_size=3)), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_rates_equal_the_plain_ones_however_padded_and_batched(
    examples: list[tuple[list[int], list[list[int]]]], extra: int
) -> None:
    wrong = errors = length = 0
    for prediction, slots in examples:
        closest = min(slots, key=lambda slot: plain_distance(prediction, slot))
        wrong += prediction not in slots
        errors += plain_distance(prediction, closest)
        length += len(closest)
    predictions = ended([prediction for prediction, _ in examples], 9 + extra)
    gold = references([slots for _, slots in examples], 9 + 2 * extra)
    batches = list(zip(predictions.split(2), gold.split(2), strict=True))
    sequences, tokens = SequenceErrorRate(), TokenErrorRate()
    for batch in batches:
        found = nearest(*batch)
        sequences.update(found)
        tokens.update(found)
    assert sequences.compute().item() == pytest.approx(wrong / len(examples))
    assert tokens.numerator.item() == errors
    assert tokens.denominator.item() == length


def test_examples_without_a_reference_are_not_counted() -> None:
    predictions = ended([[4, 5], [6]])
    sequences, tokens = SequenceErrorRate(), TokenErrorRate()
    for metric in (sequences, tokens):
        metric.update(nearest(predictions, references([[], []])))  # no slot at all
        metric.update(nearest(predictions, references([[[4]], []])))  # the second has none
    assert sequences.compute().item() == 1
    assert tokens.compute().item() == 1


def test_unused_slots_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a thousand references of one example, they are nearly all slots of a batch."""
    compared = []

    def counted(first: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        compared.append(len(first))
        return edit_distance(first, *others)

    monkeypatch.setattr("attention_lab.metrics.error_rates.edit_distance", counted)
    slots = references([[[4], [5], [6]], [[4, 4, 4]], []])
    found = nearest(ended([[6], [4], [4]]), slots)
    assert compared == [4]
    assert found.distance.tolist() == [0, 2, 0]
    assert found.length.tolist() == [1, 3, 0]
    assert found.slot.tolist() == [2, 0, 0]
    assert found.has_reference.tolist() == [True, True, False]


def test_an_unused_slot_is_never_the_nearest() -> None:
    found = nearest(torch.tensor([[EOS], [EOS]]), references([[[4] * 9], [[4], [5]]]))
    assert found.distance.tolist() == [9, 1]


def test_counts_are_exact_beyond_the_integers_of_float32() -> None:
    tokens = TokenErrorRate()
    tokens.numerator += 2**24
    tokens.denominator += 2**24
    tokens.update(ended([[4]]), references([[[5]]]))
    assert tokens.numerator.item() == tokens.denominator.item() == 2**24 + 1


def test_an_empty_reference_is_a_reference() -> None:
    sequences = SequenceErrorRate()
    sequences.update(nearest(ended([[]]), references([[[]]])))
    assert sequences.compute().item() == 0


def test_nothing_counted_is_not_a_number() -> None:
    sequences = SequenceErrorRate()
    sequences.update(nearest(ended([[4]]), references([[]])))
    assert sequences.compute().isnan()


@pytest.mark.parametrize("kind", [SequenceErrorRate, TokenErrorRate])
def test_two_ranks_give_what_one_gives(kind: type[SequenceErrorRate | TokenErrorRate]) -> None:
    predictions, gold = ended([[4, 5, 6], [4], [7]]), references([[[4, 5]], [[4]], [[6, 7], [5]]])
    whole, rank, other = kind(), kind(), kind()
    whole.update(nearest(predictions, gold))
    rank.update(nearest(predictions[:1], gold[:1]))
    other.update(nearest(predictions[1:], gold[1:]))
    rank.merge_state(other)
    assert rank.compute() == whole.compute() == pytest.approx(2 / 3 if kind is SequenceErrorRate else 2 / 5)
