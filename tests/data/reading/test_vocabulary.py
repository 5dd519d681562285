from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data.reading.vocabulary import AnySplit, Notation, Tokenizer, Vocabulary, check_accents
from attention_lab.errors import LabError
from attention_lab.special_symbols import BOS, EOS, PAD, UNK


def test_symbols_are_numbered_after_the_special_ones() -> None:
    vocabulary = Vocabulary.of(["ba", "cab"])
    assert len(vocabulary) == 7
    assert vocabulary.ids("abcx") == [4, 5, 6, UNK]
    assert [vocabulary.symbol(number) for number in range(7)] == [
        "<pad>", "<s>", "</s>", "<unk>", "a", "b", "c",
    ]  # fmt: skip


def test_a_word_that_looks_like_a_special_symbol_is_a_word() -> None:
    vocabulary = Vocabulary.of([["<pad>", "</s>"]])
    assert vocabulary.ids(["</s>", "<pad>"]) == [4, 5]


@given(st.text(min_size=1).filter(str.strip).map(lambda text: text.strip("\r\n")))
def test_characters_come_back(text: str) -> None:
    tokenizer = Tokenizer.of(Notation("characters"), [text])
    assert tokenizer.decode([*tokenizer.encode(text), EOS, PAD]) == text


@given(st.lists(st.text(st.characters(categories=["L", "N"]), min_size=1), min_size=1))
def test_words_come_back(words: list[str]) -> None:
    tokenizer = Tokenizer.of(Notation("spaces"), [words])
    ids = tokenizer.encode("  ".join(words))
    assert tokenizer.decode(torch.tensor([*ids, EOS])) == " ".join(words)


def test_labels_show_the_end_and_stop_at_padding() -> None:
    tokenizer = Tokenizer(Notation("spaces"), Vocabulary(["AH", "B"]))
    ids = torch.tensor([5, UNK, 4, EOS, PAD, PAD])
    assert tokenizer.labels(ids) == ["B", "<unk>", "AH", "</s>"]
    assert tokenizer.decode(ids) == "B <unk> AH"
    assert tokenizer.labels([BOS, 4]) == ["<s>", "AH"]


@pytest.mark.parametrize(
    ("normalization", "symbols"),
    [
        ("none", ("\u00e9", "\ufb01")),
        ("NFC", ("\u00e9", "\ufb01")),
        ("NFD", ("e", "\u0301", "\ufb01")),
        ("NFKD", ("e", "\u0301", "f", "i")),
    ],
)
def test_normalization_decides_what_a_symbol_is(normalization: str, symbols: tuple[str, ...]) -> None:
    assert Notation("characters", normalization).tokens("\u00e9\ufb01") == symbols  # type: ignore[arg-type]


def test_lower_case_is_made_on_request() -> None:
    assert Notation("characters", lowercase=True).tokens("It's") == ("i", "t", "'", "s")


@pytest.mark.parametrize("line", ["", "\n", "  \t "])
def test_an_empty_line_is_refused(line: str) -> None:
    with pytest.raises(LabError, match=r"^empty; at least one symbol"):
        Tokenizer(Notation("characters"), Vocabulary(["a"])).encode(line)


def test_text_without_separate_accents_is_not_searched_one_character_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[str] = []

    def normalize(form: str, text: str) -> str:
        calls.append(text)
        return text

    monkeypatch.setattr("unicodedata.normalize", normalize)
    check_accents("Bäume " * 1000)
    assert sorted(calls) == sorted({*"Bäume "})


@pytest.mark.parametrize("split", ["characters", "spaces", "lemma_tags"])
def test_equal_symbols_are_one_object(split: AnySplit) -> None:
    """Each object takes 80 bytes, 40 times as much as the character in a file."""
    tokens = Notation(split).tokens("ж ж ж\tж")
    assert len({id(token) for token in tokens}) == len({*tokens})


def test_a_text_that_normalization_makes_very_long_is_refused() -> None:
    notation = Notation("characters", "NFKD")
    assert len(notation.tokens("\ufdfa" * 7)) == 7 * 18
    with pytest.raises(LabError, match="normalization=NFKD makes 144 characters of 8, more than 4 times"):
        notation.tokens("\ufdfa" * 8)


@pytest.mark.parametrize("accents", ["\u0301\u0323", "\u0f73", "\u0301\uff9e"])
def test_a_run_of_accents_that_takes_quadratic_time_is_refused(accents: str) -> None:
    """Putting half a million accents in order would take ten minutes."""
    text = "e" + accents * 250_000
    assert len(Notation("characters").tokens(text)) == len(text)
    with pytest.raises(LabError, match=r"^more than 1000 accents on one letter$"):
        Notation("characters", "NFKD").tokens(text)
    assert len(Notation("characters", "NFD").tokens("e\u0301\u0323" * 1000)) == 3000


@pytest.mark.parametrize("symbol", [1, 1.5, ("a", "b"), None])
def test_symbols_are_text(symbol: Any) -> None:
    with pytest.raises(LabError, match="not text"):
        Vocabulary(["a", symbol])
