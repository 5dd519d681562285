"""Symbols that never occur in training are reported in one line per file, for all data with a vocabulary."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from small_data import FILES, data_of_files

from attention_lab.data import CMUDict, DataModule, ImageFiles, Inflection, Labelled, Pairs, Text
from attention_lab.data.file_warnings.unseen_symbols import Terms, unseen_symbols
from attention_lab.data.reading.codecs import TransductionCodec
from attention_lab.data.reading.vocabulary import Vocabulary


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _told(make: Callable[..., DataModule], *texts: str, **options: Any) -> tuple[str, str, str]:
    return tuple(data_of_files(make, *texts, **options).unseen)


def test_both_sides_of_pairs() -> None:
    told = _told(Pairs, "ab\tx\n", "ba\tx\nac\txé\nd\ty\n", "b\tx\n")
    assert told == (
        "",
        "2 source symbols in dev never occur in training and are read as unknown: 'c', 'd' "
        "(in 2 of 3 examples, first in line 2); "
        "2 target symbols in dev never occur in training and are never generated unless copied: 'é', 'y' "
        "(in 2 of 3 examples, first in line 2)",
        "",
    )


def test_the_commonest_come_first_and_all_are_bounded() -> None:
    rows = ["q", "z", "qz", "z", "vuwxz", "Z" * 100]
    line = unseen_symbols(rows, Vocabulary(["a"]), "a.tsv", Terms())
    assert line == (
        "7 symbols in a.tsv never occur in training and are read as unknown: 'z', 'q', 'u', 'v', 'w' "
        "and 2 more (in 6 of 6 examples)"
    )
    long = unseen_symbols([["Z" * 100]], Vocabulary(["a"]), "a.tsv", Terms())
    assert f"'{'Z' * 19}…'" in long
    hidden = unseen_symbols(["\u0301\x1b\u00a0"], Vocabulary(["a"]), "a.tsv", Terms())
    assert "U+001B, U+00A0, U+0301" in hidden


def test_lemmas_and_tags() -> None:
    told = _told(Inflection, "go\tgoes\tV;3\n", "go\tgone\tV;PTCP\n", "so\tses\tV\n")
    assert told[1] == (
        "1 source symbol in dev never occurs in training and is read as unknown: 'PTCP' "
        "(in 1 of 1 examples, first in line 1); "
        "1 target symbol in dev never occurs in training and is never generated unless copied: 'n' "
        "(in 1 of 1 examples, first in line 1)"
    )
    assert told[2] == ""


def test_labelled_words() -> None:
    told = _told(Labelled, "p\tone two\nn\tthree\n", "p\tone four five\nn\ttwo\n", "n\tthree\n")
    assert told[1:] == (
        "2 words in dev never occur in training and are read as unknown: 'five', 'four' "
        "(in 1 of 2 texts, first in line 1)",
        "",
    )


def test_running_texts_count_symbols() -> None:
    told = _told(Text, "aabbc\n", "abcca\n", "ab\n", block_size=2)
    assert told[1] == (
        "1 character in dev occurs fewer than data.min_count=2 times in training and is read as unknown: 'c' "
        "(in 2 of 5 characters)"
    )
    words = _told(Text, "a b\n", "a c\n", "d\n", unit="words", min_count=1)
    assert words[2] == "1 word in test never occurs in training and is read as unknown: 'd' (in 1 of 1 words)"


def test_texts_of_pictures() -> None:
    Image.new("L", (8, 8), 255).save("a.png")
    told = _told(ImageFiles, "a.png\tx\n", "a.png\ty\n", "a.png\tx\n", height=8)
    assert told[1].startswith(
        "1 symbol in dev never occurs in training and is never generated: 'y' (in 1 of 1"
    )


def test_a_file_that_is_split_has_no_line_numbers_and_packaged_data_no_line_at_all() -> None:
    Path("one").write_text("".join(f"{letter}\t{letter}\n" for letter in "abcdefghij"))
    data = Pairs(file="one")
    data.setup()
    assert "source symbol in one (test) never occurs" in data.unseen.test
    assert "line" not in data.unseen.test
    packaged = CMUDict(size=10, validation_size=10, test_size=10)
    packaged.setup()
    assert packaged.unseen == ("", "", "")


def test_the_vocabulary_is_that_of_the_trained_model() -> None:
    codec = data_of_files(Pairs, "abc\tx\n", "a\tx\n", "a\tx\n").codec
    Path("test").write_text("cd\tx\n")
    again = Pairs(**{**FILES, "train_file": "dev"})
    again.codec = TransductionCodec.from_state(codec.state())
    again.setup()
    assert "unknown: 'd' (in" in again.unseen.test


def test_batches_carry_the_symbols_that_have_no_id() -> None:
    data = data_of_files(Pairs, "ab\txy\n", "a\tx\n", "aé\tx\naé\txñy\nb\ty\n")
    batch = data.splits.test[torch.arange(2)]
    codec = data.codec
    assert [
        codec.source_text(ids, one.source) for ids, one in zip(batch.source, batch.unseen, strict=True)
    ] == [
        "aé",
        "b",
    ]
    assert codec.source_text(batch.source[0]) == "a<unk>"
    assert codec.decode(batch.references[0, 1], batch.unseen[0].references[1]) == "xñy"
    assert data.splits.validation[torch.arange(1)].unseen == ()
    assert codec.encode(["ñb"]).unseen[0].source == ("ñ",)


def test_symbols_in_another_unicode_form_are_said_to_be_known() -> None:
    composed, decomposed = "été", "e\u0301te\u0301"
    told = unseen_symbols([[decomposed, "nu"]], Vocabulary([composed]), "a.tsv", Terms())
    assert told.endswith("(in 1 of 1 examples); in the Unicode form NFC, 1 of them does")
    told = unseen_symbols(["éàx"], Vocabulary(["e", "a", "\u0300", "\u0301"]), "a.tsv", Terms())
    assert told.endswith("(in 1 of 1 examples); in the Unicode form NFD, 2 of them do")
    told = unseen_symbols([[decomposed]], Vocabulary(["autre"]), "a.tsv", Terms())
    assert told.endswith("(in 1 of 1 examples)")
