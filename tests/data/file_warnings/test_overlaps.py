"""Examples that several splits share are counted and reported in one line, for all data read from files."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from small_data import data_of_files

from attention_lab.data import (
    CSVRegression,
    DataModule,
    GraphFiles,
    ImageFiles,
    Labelled,
    Pairs,
    Text,
)
from attention_lab.data.file_warnings import overlaps
from attention_lab.data.file_warnings.overlaps import (
    PASSAGE,
    Keyed,
    shared_examples,
    shared_passages,
    split_names,
)
from attention_lab.data.reading.splitting import Splits

NAMES = Splits("train", "dev", "test")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _told(make: Callable[..., DataModule], *texts: str, **options: Any) -> str:
    shared: str = data_of_files(make, *texts, **options).shared
    return shared


def test_pairs_count_pairs_and_sources() -> None:
    told = _told(Pairs, "a\tx\nb\ty\nc\tz\n", "a\tx\na\tx\nb\tq\nd\tx\n", "e\te\nd\tx\n")
    assert told == (
        "2 of 4 examples in dev are also in train, and 1 more with another target; "
        "1 of 2 examples in test is also in dev"
    )
    assert _told(Pairs, "a\tx\n", "a\ty\n", "b\tx\n") == (
        "1 of 1 examples in dev is in train with another target"
    )
    assert _told(Pairs, "a\tx\n", "b\tx\n", "c\tx\n") == ""


def test_what_is_read_counts_and_not_how_it_is_written() -> None:
    spelled = ("\u00e9 b\tx\n", "e\u0301  b\tx\n", "q\tx\n")
    assert _told(Pairs, *spelled) == ""
    normal = {"source_split": "spaces", "source_normalization": "NFC"}
    assert _told(Pairs, *spelled, **normal) == "1 of 1 examples in dev is also in train"


def test_labelled_texts() -> None:
    told = _told(Labelled, "p\tone two\nn\tthree\n", "p\tone  two\np\tthree\n", "n\tthree\n")
    assert told.startswith("1 of 2 examples in dev is also in train, and 1 more with another label; ")
    assert told.count(";") == 2


def test_the_splits_of_one_file_share_nothing_but_rows_of_numbers() -> None:
    Path("all").write_text("".join(f"{n % 10}\t{n}\n" for n in range(40)))
    for make in (Pairs, Labelled):
        data = make(file="all")
        data.setup()
        assert data.shared == ""
    Path("all").write_text("x,y\n" + "1,2\n" * 10)
    table = CSVRegression(file="all")
    table.setup()
    assert table.shared == (
        "1 of 1 examples in all (validation) is also in all (training); "
        "1 of 1 examples in all (test) is also in all (training); "
        "1 of 1 examples in all (test) is also in all (validation)"
    )
    Path("all").write_text("x,y\n" + "".join(f"1,{n}\n" for n in range(10)))
    table = CSVRegression(file="all", fractions=[0.9, 0.1, 0])
    table.setup()
    assert table.shared == "1 of 1 examples in all (validation) is in all (training) with another y"


def test_pictures_are_compared_by_what_they_show() -> None:
    for number, ink in enumerate((0, 0, 128)):
        Image.new("L", (16, 16), ink).save(f"{number}.png")
    told = _told(ImageFiles, "0.png\ta\n", "1.png\ta\n2.png\ta\n", "1.png\tb\n", height=16, cell=8)
    assert told == (
        "1 of 2 examples in dev is also in train; 1 of 1 examples in test is in train with another text; "
        "1 of 1 examples in test is in dev with another text"
    )


def test_the_same_file_for_several_parts() -> None:
    Path("one").write_text("a\tx\nb\ty\n")
    data = Pairs(train_file="one", validation_file="one", test_file="one")
    data.setup()
    assert data.shared.startswith("2 of 2 examples in one (validation) are also in one (training); ")


def test_nodes_are_in_one_part_only() -> None:
    Path("edges").write_text("0\t1\n")
    Path("nodes").write_text("".join(f"{n}\t{'ab'[n % 2]}\n" for n in range(20)))
    graph = GraphFiles("edges", "nodes")
    graph.setup()
    assert graph.shared == ""


def _letters(count: int, seed: int) -> str:
    return "".join(random.Random(seed).choices("abcdefgh ", k=count))


def test_passages_of_a_text_are_found_wherever_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    train, own = _letters(1000, 0), _letters(PASSAGE, 1)
    validation = train[333 : 333 + 2 * PASSAGE] + own + "rest"
    said = f"passages of {PASSAGE} characters in dev are also in train"
    told = [f"2 of 3 {said}"]
    for chunk in (7, PASSAGE, 999, 1 << 21):
        monkeypatch.setattr(overlaps, "CHUNK", chunk)
        told.append(_told(Text, train, validation, _letters(200, 2)))
    assert set(told) == {told[0]}
    assert _told(Text, train, train[: PASSAGE - 1], own) == ""


def test_words_are_the_symbols_of_words() -> None:
    words = " ".join(_letters(2000, 0).split())
    part = " ".join(words.split()[5 : 5 + PASSAGE])
    told = _told(Text, words, part.replace(" ", "\n"), "other words here", unit="words", min_count=1)
    assert told == f"1 of 1 passages of {PASSAGE} words in dev is also in train"


ROWS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)).map(lambda one: Keyed(*one)), max_size=8)


@given(ROWS, ROWS)
def test_counts_are_those_of_a_plain_comparison(train: list[Keyed], one: list[Keyed]) -> None:
    same = sum(any(row == other for other in train) for row in one)
    either = sum(any(row.given == other.given for other in train) for row in one)
    told = shared_examples(Splits(train, one, []), NAMES, "answer")
    if not either:
        assert told == ""
    elif not same:
        are = "is" if either == 1 else "are"
        assert told == f"{either} of {len(one)} examples in dev {are} in train with another answer"
    else:
        more = f", and {either - same} more with another answer" if either > same else ""
        are = "is" if same == 1 else "are"
        assert told == f"{same} of {len(one)} examples in dev {are} also in train{more}"


@given(st.text("ab", min_size=60, max_size=200), st.text("ab", min_size=60, max_size=200), st.integers(0, 99))
def test_passages_are_those_of_a_plain_search(train: str, other: str, start: int) -> None:
    one = other + train[start:]
    pieces = [one[place : place + PASSAGE] for place in range(0, len(one) - PASSAGE + 1, PASSAGE)]
    count = sum(piece in train for piece in pieces)
    told = shared_passages(Splits(train, one, ""), NAMES, "letters")
    said = f"passages of {PASSAGE} letters in dev {'is' if count == 1 else 'are'} also in train"
    assert told == (f"{count} of {len(pieces)} {said}" if count else "")


def test_names_of_parts() -> None:
    assert split_names(Splits("a", "b", "c")) == ("a", "b", "c")
    assert split_names(Splits("a", "b", "b")) == ("a (training)", "b (validation)", "b (test)")
    assert split_names(Splits("f", "f", "f")) == ("f (training)", "f (validation)", "f (test)")
