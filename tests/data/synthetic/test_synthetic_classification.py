from collections import Counter
from itertools import chain, product
from math import comb

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_data import whole

from attention_lab.data import ClassificationBatch, FarPairs, ListOps, Motifs
from attention_lab.data.synthetic.classification import SyntheticClassification
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

SMALL = {"train_size": 300, "validation_size": 40, "test_size": 50}


def motif_of(text: str, length: int) -> str:
    """The one motif, from the definition: every rotation looked for at every place."""
    letters = "abcdefghijklmnopqrstuvwxyz"[:length]
    rotations = [letters[turn:] + letters[:turn] for turn in range(length)]
    (found,) = [one for place in range(len(text)) for one in rotations if text[place:].startswith(one)]
    return found


def pair_of(text: str, min_distance: int) -> str:
    """Whether the two capitals agree, which are at least so far apart."""
    (first, second) = [place for place, letter in enumerate(text) if letter.isupper()]
    assert second - first >= min_distance
    return "same" if text[first] == text[second] else "different"


def examples(data: SyntheticClassification) -> list[list[tuple[str, str]]]:
    """The texts and labels of each split, read back from the batches that a model gets."""
    data.setup()
    found = []
    for part in data.splits:
        batch = whole(part)
        assert isinstance(batch, ClassificationBatch)
        texts = ["".join(data.codec.token_labels(ids, len(ids))) for ids in batch.inputs]
        found.append(list(zip(texts, map(data.codec.decode, batch.labels.tolist()), strict=True)))
    return found


@pytest.mark.parametrize(
    ("text", "label"), [("ffabcf", "abc"), ("abbcac", "bca"), ("cabfff", "cab"), ("bacbab", None)]
)
def test_motifs_by_hand(text: str, label: str | None) -> None:
    data = Motifs(length=6)
    rows = torch.tensor([[data.symbols.index(letter) for letter in text]], dtype=torch.uint8).numpy()
    assert data.occurrences(rows).tolist() == [int(label is not None)]
    if label is not None:
        assert motif_of(text, 3) == label


def test_two_motifs_are_counted_where_they_overlap() -> None:
    data = Motifs(length=6)
    rows = torch.tensor([[0, 1, 2, 0, 5, 5], [0, 1, 2, 0, 1, 2]], dtype=torch.uint8).numpy()  # abcaff, abcabc
    assert data.occurrences(rows).tolist() == [2, 4]


@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(0, 4), st.integers(3, 20), st.integers(0, 99))
def test_every_sequence_has_one_motif_which_is_its_class(
    width: int, more: int, length: int, seed: int
) -> None:
    sizes = {"train_size": 30, "validation_size": 1, "test_size": 1}
    data = Motifs(**sizes, length=width + length, vocabulary=width + more + 1, motif_length=width, seed=seed)
    for text, label in chain(*examples(data)):
        assert len(text) == width + length
        assert motif_of(text, width) == label


@settings(max_examples=25)
@given(st.integers(8, 20), st.integers(3, 26), st.data(), st.integers(0, 99))
def test_capitals_are_two_and_far_apart_and_agree_as_the_class_says(
    length: int, vocabulary: int, choice: st.DataObject, seed: int
) -> None:
    distance = choice.draw(st.integers(1, length - 1))
    sizes = {"train_size": 30, "validation_size": 1, "test_size": 1}
    data = FarPairs(**sizes, length=length, vocabulary=vocabulary, min_distance=distance, seed=seed)
    for text, label in chain(*examples(data)):
        assert len(text) == length
        assert pair_of(text, distance) == label


@pytest.mark.parametrize("kind", [Motifs, FarPairs])
def test_parts_share_nothing_and_smaller_training_sets_begin_the_larger(
    kind: type[Motifs] | type[FarPairs],
) -> None:
    parts = examples(kind(**SMALL))
    assert [len(part) for part in parts] == [300, 40, 50]
    assert len({text for part in parts for text, _ in part}) == 390
    fewer = examples(kind(**{**SMALL, "train_size": 7}))
    assert (fewer[0], fewer[1], fewer[2]) == (parts[0][:7], parts[1], parts[2])
    more = examples(kind(**{**SMALL, "train_size": 6000}))
    assert (more[0][:300], more[1], more[2]) == (parts[0], parts[1], parts[2])
    assert examples(kind(**SMALL)) == parts
    assert examples(kind(**SMALL, seed=1))[2] != parts[2]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        # abc, bca, cab at one of two places, and one more letter of four that makes no second motif:
        # of xabc not c (cabc has cab and abc), of abcx not a (abca has bca), three letters left for each
        (Motifs, 3 * 2 * 3),
        # of 4 places 3 pairs at least 2 apart, 4 letters for each of the others: 4 * 4 capitals, 4 * 4 small
        (FarPairs, 3 * 4**4),
    ],
)
def test_a_small_space_is_used_up_and_then_refused(data: type[Motifs] | type[FarPairs], count: int) -> None:
    options = {"length": 4, "vocabulary": 4, "validation_size": 2, "test_size": 3}
    more = {"min_distance": 2} if data is FarPairs else {}
    parts = examples(data(train_size=count - 5, **options, **more))
    assert len({text for part in parts for text, _ in part}) == count
    with pytest.raises(
        LabError, match=rf"{count + 1} different .* hardly more than {count} with data\.length=4"
    ):
        data(train_size=count - 4, **options, **more).setup()


def test_classes_places_and_letters_are_balanced() -> None:
    sizes = {"train_size": 9000, "validation_size": 1, "test_size": 1}
    motifs = examples(Motifs(**sizes))[0]
    assert all(abs(count - 3000) < 230 for count in Counter(label for _, label in motifs).values())  # 5 sd
    places = Counter(text.index(label) for text, label in motifs)
    assert sorted(places) == list(range(22)) and min(places.values()) > 300  # of 9000 / 22 = 409
    pairs = examples(FarPairs(**sizes))[0]
    assert abs(Counter(label for _, label in pairs)["same"] - 4500) < 240
    capitals = Counter("".join(filter(str.isupper, text)) for text, _ in pairs)
    for first, second in product("ABCD", repeat=2):
        expected = 9000 / 2 / (4 if first == second else 12)
        assert abs(capitals[first + second] - expected) < 5 * expected**0.5
    where = Counter(tuple(place for place, one in enumerate(text) if one.isupper()) for text, _ in pairs)
    assert len(where) == comb(24 - 12 + 1, 2)  # as many pairs at least 12 apart as of any 13 places
    assert max(where.values()) < 2 * min(where.values())


def test_letters_without_their_order_tell_next_to_nothing_of_a_motif() -> None:
    sizes = {"train_size": 9000, "validation_size": 1, "test_size": 1}
    counts: dict[str, Counter[str]] = {label: Counter() for label in ("abc", "bca", "cab")}
    for text, label in examples(Motifs(**sizes))[0]:
        counts[label].update(text)
    for letter in "abcdef":
        shares = [one[letter] / one.total() for one in counts.values()]
        assert max(shares) - min(shares) < 0.012  # a quarter to either side of a motif is left out


def test_sizes_and_labels() -> None:
    motifs, pairs = Motifs(**SMALL), FarPairs(**SMALL)
    motifs.setup()
    pairs.setup()
    assert motifs.sizes == ClassificationSizes(classes=3, length=24, vocabulary=4 + 6)
    assert motifs.codec.labels == ["abc", "bca", "cab"]
    assert pairs.sizes == ClassificationSizes(classes=2, length=24, vocabulary=4 + 8)
    assert pairs.codec.labels == ["different", "same"]
    assert pairs.codec.encode(["aBdD"]).inputs[0].tolist() == [4, 9, 7, 11]


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (Motifs, {"motif_length": 1}, r"data\.motif_length=1: give a whole number of at least 2"),
        (Motifs, {"vocabulary": 2}, r"data\.vocabulary=2: give a whole number of at least 3"),
        (Motifs, {"vocabulary": 27}, r"data\.vocabulary=27: choose at most 26 letters"),
        (Motifs, {"length": 2}, r"data\.length=2: give a whole number of at least 3"),
        (Motifs, {"length": 24.0}, r"data\.length=24\.0: give a whole number"),
        (Motifs, {"test_size": 0}, r"data\.test_size=0"),
        (Motifs, {"seed": -1}, r"data\.seed=-1: give a whole number of at least 0"),
        (FarPairs, {"vocabulary": 1}, r"data\.vocabulary=1: give a whole number of at least 2"),
        (FarPairs, {"min_distance": 0}, r"data\.min_distance=0: give a whole number of at least 1"),
        (FarPairs, {"min_distance": 24}, r"data\.min_distance=24: choose less than data\.length=24"),
        (FarPairs, {"batch_size": 0}, r"data\.batch_size=0"),
        # a motif in nearly every place: none of the candidates has only one
        (
            Motifs,
            {"length": 200, "vocabulary": 2, "motif_length": 2},
            r"hardly more than 0 with data\.length=200, data\.vocabulary=2 and data\.motif_length=2",
        ),
    ],
)
def test_bad_options(kind: type[SyntheticClassification], options: dict[str, int], message: str) -> None:
    with pytest.raises(LabError, match=message):
        kind(**options).setup()


def test_all_letters_and_the_largest_distance_can_be_chosen() -> None:
    assert Motifs(vocabulary=26).spec.vocabulary == 26
    assert FarPairs(length=24, min_distance=23).spec.min_distance == 23


def test_a_given_codec_is_kept_if_it_fits() -> None:
    first, shorter, longer = Motifs(**SMALL), Motifs(**SMALL, length=20), Motifs(**SMALL, length=30)
    first.setup()
    shorter.codec = longer.codec = first.codec
    shorter.setup()
    assert shorter.sizes.length == 24
    with pytest.raises(LabError, match=r"data\.length=30: the model was made for at most 24"):
        longer.setup()
    for other in (Motifs(**SMALL, vocabulary=7), Motifs(**SMALL, motif_length=4), FarPairs(**SMALL)):
        other.codec = first.codec
        with pytest.raises(LabError, match=r"the model was not trained on this data with data\.length=24"):
            other.setup()
    listops = ListOps(**SMALL)
    listops.codec = first.codec
    with pytest.raises(LabError, match="not trained on data=listops"):
        listops.setup()
