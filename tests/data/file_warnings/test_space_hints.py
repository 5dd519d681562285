"""Lists of symbols with spaces between them are distinguished from sentences, dates and single words."""

import random
from pathlib import Path

import pytest

from attention_lab.data import Pairs, Sentences
from attention_lab.data.cmudict import dictionary_file, read_dictionary
from attention_lab.data.file_warnings.format_hints import space_hint

REPOSITORY = Path(__file__).parents[3]
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def _dates(*forms: str) -> list[str]:
    sample = random.Random(0)
    return [
        sample.choice(forms).format(
            day=sample.randint(1, 28),
            month=sample.randint(1, 12),
            name=sample.choice(MONTHS),
            year=sample.randint(1950, 2025),
        )
        for _ in range(2000)
    ]


WORDS = read_dictionary(dictionary_file())


def test_phones_are_recognised_in_few_and_in_many_texts() -> None:
    phones = [WORDS[word][0] for word in random.Random(0).sample(sorted(WORDS), 5000)]
    assert space_hint(phones[:60], "target")
    line = space_hint(phones, "target")
    assert line.startswith("the targets look like symbols with spaces between them ('")
    assert line.endswith("data.target_split=spaces reads 'AH0' as one symbol")
    ipa = ["k a̠ː n ɯ ŋ", "k a̠ ɾ e̞", "k a̠ː ɾ j ʌ̹ ŋ", "s͈ ʌ̹ ŋ", "a̠ i ɕ e̞ kʲ i"]
    assert "data.source_split=spaces" in space_hint(ipa * 10, "source")


@pytest.mark.parametrize(
    "texts",
    [
        (REPOSITORY / "CONTRIBUTING.md").read_text().split("\n"),
        (REPOSITORY / "LICENSE").read_text().split("\n"),
        _dates("{day} {name} {year}", "{name} {day} , {year}", "{year} {month} {day}"),
        _dates("{day:02} {month:02} {year}"),
        _dates("{day} {month} 99"),
        _dates("{year}-{month:02}-{day:02}"),
        sorted(WORDS)[:5000],
        ["3 + 4", "1 - 2 + 3"] * 50,
        ["A B", "A B C"] * 5,
        [""] * 50,
    ],
    ids=["sentences", "licence", "dates", "numeric", "short", "iso", "words", "digits", "few", "empty"],
)
def test_others_are_not(texts: list[str]) -> None:
    assert space_hint([text for text in texts if text.strip()] or texts, "target") == ""


def test_sentences_of_a_small_vocabulary_are_not_symbols() -> None:
    data = Sentences(train_size=500, validation_size=1, test_size=1)
    texts = [" ".join(one.words) for one in data.sentences().train]
    assert space_hint(texts, "target") == ""


def test_pairs_hint_at_the_sides_that_are_read_by_character(tmp_path: Path) -> None:
    rows = [f"w{number}\t{'AH B ' * (1 + number % 4)}OW\n" for number in range(100)]
    (tmp_path / "pairs.tsv").write_text("".join(rows))
    data = Pairs(file=str(tmp_path / "pairs.tsv"))
    data.setup()
    assert list(data.hints) == ["data.target_split"]
    spaced = Pairs(file=str(tmp_path / "pairs.tsv"), target_split="spaces")
    spaced.setup()
    assert spaced.hints == {}
