"""Data sets that are read and written from the last symbol to the first."""

from pathlib import Path

import pytest
import torch

from attention_lab.data import CMUDict, Inflection, Pairs
from attention_lab.data.reading.codecs import codec_from_state
from attention_lab.data.reading.vocabulary import Notation
from attention_lab.data.transduction import TransductionData
from attention_lab.errors import LabError

PAIRS = "".join(f"{word}\t{word[1:]}e\n" for word in ("gehen", "sehen", "stehen", "lag", "sag", "trag"))


def _data(kind: str, folder: Path, turned: bool) -> TransductionData:
    if kind == "cmudict":
        return CMUDict(size=20, validation_size=3, test_size=3, right_to_left=turned)
    text = PAIRS.replace("e\n", "e\tV;PST\n") if kind == "inflection" else PAIRS
    (folder / "data.tsv").write_text(text, encoding="utf-8")
    if kind == "inflection":
        return Inflection(file=str(folder / "data.tsv"), fractions=[0.4, 0.3, 0.3], right_to_left=turned)
    split = {"source_split": "subwords", "subwords": 12} if kind == "subwords" else {}
    return Pairs(file=str(folder / "data.tsv"), fractions=[0.4, 0.3, 0.3], right_to_left=turned, **split)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["pairs", "subwords", "inflection", "cmudict"])
def test_symbols_are_turned_and_nothing_else_changes(kind: str, tmp_path: Path) -> None:
    plain, turned = (_data(kind, tmp_path, turned) for turned in (False, True))
    plain.setup()
    turned.setup()
    assert turned.codec != plain.codec == turned.codec.left_to_right
    assert turned.sizes == plain.sizes
    assert all(codec_from_state(data.codec.state()) == data.codec for data in (plain, turned))
    assert "right_to_left" not in plain.codec.target.state()  # as in checkpoints of earlier versions
    for a, b in zip(plain.examples(), turned.examples(), strict=True):
        for one, other in zip(a, b, strict=True):
            tags = [symbol for symbol in one.source if symbol[0] == ";"]
            letters = one.source[len(tags) :]
            assert list(other.source) == [*tags, *letters[::-1]]
            assert other.target == one.target[::-1]
    for part in ("validation", "test"):
        rows = torch.arange(len(getattr(plain.splits, part)))
        batch, back = (getattr(data.splits, part)[rows] for data in (plain, turned))
        for row in range(len(rows)):
            assert turned.codec.decode(back.target[row]) == plain.codec.decode(batch.target[row])
            assert turned.codec.source_text(back.source[row]) == plain.codec.source_text(batch.source[row])


def test_a_model_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    plain, turned = (_data("pairs", tmp_path, turned) for turned in (False, True))
    plain.setup()
    turned.codec = plain.codec
    with pytest.raises(LabError, match=r"needs data\.right_to_left=false, but this data has true"):
        turned.setup()


@pytest.mark.parametrize(
    ("split", "text", "symbols"),
    [
        ("characters", "abc", ("c", "b", "a")),
        ("spaces", "AH T", ("T", "AH")),
        ("lemma_tags", "gehen\tV;PST", (";V", ";PST", *"neheg")),
        ("lemma_tags", "gehen\tV;PST\tgeht\tV", (";V", ";PST", *"neheg", "=V", *"theg")),
    ],
)
def test_symbols_from_right_to_left(split, text: str, symbols: tuple[str, ...]) -> None:
    notation = Notation(split, right_to_left=True)
    assert notation.tokens(text) == symbols
    assert notation.text(symbols) == text
