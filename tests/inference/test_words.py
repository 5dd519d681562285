"""The letters of words as people write them."""

from contextlib import suppress
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.errors import LabError
from attention_lab.inference.words import LONGEST, word_parts

ENGLISH = frozenset(ascii_lowercase + "'")


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("hello", "hello"),
        ("Hello,", "hello"),
        ("(HELLO)", "hello"),
        ("well-known", "well known"),
        ("and/or", "and or"),
        ("O'Brien", "o'brien"),
        ("don’t", "don't"),
        ("'quoted'", "quoted"),
        ("''", ""),
        ("'tis", "'tis"),
        ("dogs'", "dogs'"),
        ("café", "cafe"),
        ("cafe\u0301", "cafe"),
        ("straße", "strasse"),
        ("Łódź", "lodz"),
        ("Æther", "aether"),
        ("\ufb01sh", "fish"),
        ("Ａｂｃ", "abc"),
        ("soft\u00adhyphen", "softhyphen"),
        ("\ufeffhello", "hello"),
        ("…", ""),
        ("--", ""),
        ("'.'", ""),
        ("U.S.", "u. s."),
        ("e.g.", "e. g."),
        ("J.R.R.", "j. r. r."),
        ("Dr.", "dr"),
        ("TV", "t. v."),
        ("TV'S", "tv's"),
        ("NASA", "nasa"),
        ("hmm", "hmm"),
        ("B", "b"),
        ("end.Next", "end next"),
    ],
)
def test_the_parts_of_a_word(word: str, parts: str) -> None:
    assert word_parts(word, ENGLISH) == parts.split()


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("42", "digits cannot be read; write numbers as words"),
        ("mp3", "digits cannot be read"),
        ("½", "digits cannot be read"),
        ("AT&T", "& cannot be read; write it as a word"),
        ("me@example.com", "@ cannot be read"),
        ("C++", r"\+ \(U\+002B\) cannot be read; the model knows a-z '$"),
        ("hello😀", r"😀 \(U\+1F600\) cannot be read"),
        ("Москва", r"М \(U\+041C\) cannot be read"),
        ("東京", r"東 \(U\+6771\) cannot be read"),
        ("a\x00b", r"\N{REPLACEMENT CHARACTER} \(U\+0000\) cannot be read"),
        ("e" + "\u0301\u0323" * 200_000, "it has 400001 characters, but at most 1000 can be read"),
        ("a" * (LONGEST + 1), f"it has {LONGEST + 1} letters, but at most {LONGEST} can be read"),
    ],
)
def test_words_that_cannot_be_read_are_reported(word: str, said: str) -> None:
    with pytest.raises(LabError, match=said):
        word_parts(word, ENGLISH)


def test_letters_that_the_model_knows_stay() -> None:
    assert word_parts("Größe", frozenset("größe")) == ["größe"]
    with pytest.raises(LabError, match=r"the model knows egrßöü$"):
        word_parts("b", frozenset("größeü"))


@given(st.text(max_size=20))
def test_any_text_is_read_or_refused(text: str) -> None:
    parts: list[str] = []
    with suppress(LabError):
        parts = word_parts(text, ENGLISH)
    for part in parts:
        assert part
        assert set(part.removesuffix(".")) <= ENGLISH
