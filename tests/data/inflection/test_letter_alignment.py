"""Letters of a form and of its lemma: by hand, and what holds for any words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data.inflection.letter_alignment import LONGEST, align_letters


@pytest.mark.parametrize(
    ("lemma", "form", "expected"),
    [
        ("walken", "gewalkt", [-1, -1, 0, 1, 2, 3, -1]),
        ("Buch", "Bücher", [0, 1, 2, 3, -1, -1]),  # the changed vowel stands for the one in its place
        ("atmen", "utmen", [0, 1, 2, 3, 4]),  # also at the beginning
        ("anrufe", "rufe an", [2, 3, 4, 5, -1, -1, -1]),  # two letters are too few to have moved
        ("festhalten", "halte fest", [4, 5, 6, 7, 8, -1, 0, 1, 2, 3]),
        ("go", "went", [-1, -1, -1, -1]),
    ],
)
def test_by_hand(lemma: str, form: str, expected: list[int]) -> None:
    assert align_letters(tuple(lemma), tuple(form)) == expected


def test_tags_are_not_letters() -> None:
    source = (";N", ";a", *"ab")
    assert align_letters(source, tuple("xab")) == [-1, 2, 3]
    assert align_letters(source, tuple("cb")) == [2, 3]


def test_a_text_too_long_for_a_word_is_not_aligned() -> None:
    """It would take cubic time: with a thousand random letters, seconds, and with ten thousand, hours."""
    word = "ab" * (LONGEST // 2)
    assert align_letters(word, word) == list(range(LONGEST))
    assert align_letters(word + "c", word) == [-1] * LONGEST
    assert align_letters(word * 3, "abab") == [0, 1, 2, 3]


WORDS = st.text("abc ", max_size=10)


@given(WORDS, WORDS)
def test_no_letter_comes_from_two_places_or_from_a_tag(lemma: str, form: str) -> None:
    positions = align_letters((";N", *lemma), tuple(form))
    assert len(positions) == len(form)
    found = [place for place in positions if place >= 0]
    assert len(set(found)) == len(found)
    assert all(1 <= place <= len(lemma) for place in found)


@given(WORDS.map(str.strip))
def test_a_word_is_aligned_with_itself(word: str) -> None:
    assert align_letters(tuple(word), tuple(word)) == list(range(len(word)))
