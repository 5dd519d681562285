"""Subwords: learned from the training split, lossless, kept as plain values that are checked."""

from pathlib import Path

import pytest
import torch
from counted_comparisons import Compared
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data import Pairs, subwords
from attention_lab.data.reading.codecs import codec_from_state
from attention_lab.data.reading.vocabulary import Notation
from attention_lab.data.specs.files import PairsSpec
from attention_lab.data.subwords import Splitter, check_pieces, join, learn_pieces, pieces_of
from attention_lab.errors import LabError

pytest.importorskip("tokenizers")
TEXTS = ["low lower lowest", "new newer newest", "wide wider widest", "low new wide"] * 3


def test_the_commonest_pairs_are_merged_first() -> None:
    alphabet, merges = learn_pieces(["aaab aaab", "aab"], 6, "x")
    assert alphabet == "ab▁"
    assert merges[0] == "a a"  # five times; nothing is as common
    assert len(pieces_of(alphabet, merges)) == 6
    assert (alphabet, merges) == learn_pieces(["aaab aaab", "aab"], 6, "x")  # the same every time


def test_words_of_training_are_pieces_and_others_fall_into_smaller_ones() -> None:
    split = Splitter(*learn_pieces(TEXTS, 60, "x"))
    assert split("low new") == ("▁low", "▁new")
    assert join(split("newel lo wide")) == "newel lo wide"
    unknown = split("löw")  # a character that is not in the alphabet stays, and is read as unknown
    assert unknown[-2:] == ("ö", "w") and join(unknown) == "löw"


def test_the_name_of_the_unknown_piece_is_found_in_linear_time(monkeypatch) -> None:
    pieces = sorted(map(Compared, [*"▁ab<>knu", *(f"<unk{'>' * count}" for count in range(1, 1000))]))
    monkeypatch.setattr(subwords, "pieces_of", lambda alphabet, merges: pieces)
    Compared.times = 0
    assert Splitter("▁ab<>knu", [])("abc") == ("▁", "a", "b", "c")
    assert Compared.times < 3 * len(pieces)


@given(st.lists(st.text("lowernstid", min_size=1), min_size=1).map(" ".join), st.integers(12, 80))
def test_joined_pieces_are_the_text(text: str, size: int) -> None:
    assert join(Splitter(*learn_pieces(TEXTS, size, "x"))(text)) == text


@pytest.mark.parametrize(
    ("alphabet", "merges"),
    [
        (7, []),
        ("ab", "a b"),
        ("ab", [3]),
        ("ab", ["ab"]),
        ("ab", ["a c"]),
        ("ab", ["a b", "a b"]),
        ("ab", ["ab a", "a b"]),
        ("a ", ["a  "]),  # a space is no piece
    ],
)
def test_invalid_merges_are_rejected(alphabet: object, merges: object) -> None:
    with pytest.raises(LabError, match="its subwords"):
        check_pieces(alphabet, merges)


def _pairs(folder: Path, **options: object) -> Pairs:
    for part, lines in {"train": TEXTS, "dev": ["low widest", "zebra"], "test": ["newer"]}.items():
        (folder / part).write_text("".join(f"{line}\t{line.upper()}\n" for line in lines))
    files = {f"{name}_file": str(folder / part) for name, part in FILES.items()}
    return Pairs(**files, source_split="subwords", target_split="subwords", **options)  # type: ignore[arg-type]


FILES = {"train": "train", "validation": "dev", "test": "test"}


def test_pairs_are_split_into_pieces_of_the_training_part(tmp_path: Path) -> None:
    data = _pairs(tmp_path, subwords=40)
    data.setup()
    codec = data.codec
    assert set("zb").isdisjoint(codec.source.notation.alphabet)  # of the development part alone
    assert len(codec.source.vocabulary) <= 44
    assert codec.decode(codec.target.vocabulary.ids(codec.target.notation.tokens("LOW WIDER"))) == "LOW WIDER"
    again = codec_from_state(codec.state())
    assert again.state() == codec.state()
    other = _pairs(tmp_path, subwords=20)  # the given codec's pieces, not those of its own
    other.codec = again  # type: ignore[assignment]
    other.setup()
    assert other.codec.source.notation.merges == codec.source.notation.merges
    first = torch.tensor([0])
    assert torch.equal(other.splits.test[first].source, data.splits.test[first].source)


def test_a_word_that_is_too_long_to_learn_from(tmp_path: Path) -> None:
    """It takes quadratic time: one of a million characters, an hour."""
    file = tmp_path / "data"
    file.write_text(f"a\tb\nab {'x' * 10_001}\tc\n")
    problem = "the symbol 'x*...x*' has 10,001 characters, more than 10,000: split it"
    with pytest.raises(LabError, match=f"^{file}:2: {problem}"):
        PairsSpec(file=str(file), source_split="subwords").load()
    file.write_text("".join(f"{n}\tb {'x ' * 10_001}\n" for n in range(3)))
    assert sum(map(len, PairsSpec(file=str(file), target_split="subwords").load())) == 3


def test_a_codec_with_other_merges_is_refused(tmp_path: Path) -> None:
    data = _pairs(tmp_path, subwords=40)
    data.setup()
    state = data.codec.state()
    state["source"]["merges"][0] = "x" * 100
    with pytest.raises(LabError, match="its subwords have the merge"):
        codec_from_state(state)


def test_other_splits_keep_the_state_that_they_had() -> None:
    assert Notation("spaces") == Notation("spaces", alphabet="", merges=[])
    data = Pairs(file="x")
    assert data.source.split == "characters"


def test_too_few_pieces_and_a_missing_package_are_told(tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(LabError, match=r"data.subwords=3: the training texts have 11 different characters"):
        _pairs(tmp_path, subwords=3).setup()
    monkeypatch.setattr(subwords, "find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"data.source_split=subwords needs .*pip install -e '\.\[text\]'"):
        _pairs(tmp_path).setup()
    for side in ("source", "target"):
        with pytest.raises(LabError, match=f"data.{side}_split=subwords needs"):
            PairsSpec(file="x", **{f"{side}_split": "subwords"})  # type: ignore[arg-type]
    PairsSpec(file="x", source_split="spaces")  # needs no package
