"""The dictionary answers first, then the model; parts of words are joined."""

import tracemalloc
from typing import Any

import pytest
from saved_models import LETTERS, PHONES, transduction

from attention_lab.data.reading.codecs import ImageCodec, TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.inference import pronunciation
from attention_lab.inference.pronunciation import LETTER_NAMES, Pronouncer

DICTIONARY = {"hello": ["HH AH0 L OW1", "HH EH0 L OW1", "HH EH1 L OW0"], "zoo": ["Z UW1"], "'lo": ["L OW1"]}


class Stub:
    """Writes a phone for each letter, and counts how often it is asked."""

    def __init__(self, target: Tokenizer = PHONES, source: Tokenizer = LETTERS) -> None:
        self.codec = TransductionCodec(source, target)
        self.asked: list[list[str]] = []

    def predict(self, lines: list[str]) -> list[str]:
        self.asked.append(list(lines))
        return [" ".join("B" for _ in line) for line in lines]

    def predict_n_best(self, lines: list[str], n: int) -> list[list[tuple[str, float]]]:
        self.asked.append(list(lines))
        return [
            [(f"{'B ' * len(line)}{'L' * rank}".strip(), -float(rank)) for rank in range(n)] for line in lines
        ]


def test_the_dictionary_comes_first_in_the_model_s_phones() -> None:
    stub: Any = Stub()
    pronounce = Pronouncer(stub, DICTIONARY)
    assert pronounce([["hello"], ["zoo"], ["'hello"], ["'lo"]]) == [
        [("HH AH L OW", 0.0)],
        [("B B B", 0.0)],  # this model does not know Z
        [("HH AH L OW", 0.0)],
        [("L OW", 0.0)],  # an entry with an apostrophe of its own
    ]
    assert stub.asked == [["zoo"]]
    both = Pronouncer(stub, DICTIONARY, n=5)([["hello"]])
    assert both == [[("HH AH L OW", 0.0), ("HH EH L OW", 0.0)]]  # alike without stress
    stressed: Any = Stub(Tokenizer(Notation("spaces"), Vocabulary(["HH", "AH0", "L", "OW1"])))
    assert Pronouncer(stressed, DICTIONARY)([["hello"]]) == [[("HH AH0 L OW1", 0.0)]]


def test_each_part_is_asked_for_once_short_ones_first() -> None:
    stub: Any = Stub()
    pronounce = Pronouncer(stub, {})
    assert pronounce([["aaa"], ["a", "bb"], ["bb"]]) == [[("B B B", 0.0)], [("B B B", 0.0)], [("B B", 0.0)]]
    pronounce([["a"], ["aaa"], ["dd"]])
    assert [one for one in stub.asked if one] == [["a", "bb", "aaa"], ["dd"]]


def test_a_long_text_is_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pronunciation, "_REMEMBERED", 3)
    stub: Any = Stub()
    pronounce = Pronouncer(stub, {})
    for word in ("a", "bb", "a", "ccc", "a"):
        assert pronounce([[word]]) == [[(" ".join("B" * len(word)), 0.0)]]
    assert [one for one in stub.asked if one] == [["a"], ["bb"], ["ccc"], ["a"]]


def test_long_pronunciations_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model from others may have symbols of thousands of characters."""
    monkeypatch.setattr(pronunciation, "MOST_TEXT", 8)
    stub: Any = Stub()
    pronounce = Pronouncer(stub, {})
    for word in ("aa", "bbbb", "aa", "c", "aa"):
        pronounce([[word]])
    assert [one for one in stub.asked if one] == [["aa"], ["bbbb"], ["aa"], ["c"]]


def test_letters_of_abbreviations_have_names() -> None:
    stub: Any = Stub()
    pronounce = Pronouncer(stub, {"e": ["wrong"]})
    assert pronounce([["s.", "b."], ["e.", "x."]]) == [[("EH S B IY", 0.0)], [("IY B", 0.0)]]  # no K here
    assert set(LETTER_NAMES) == set("abcdefghijklmnopqrstuvwxyz")


def test_the_n_best_of_parts_are_combined() -> None:
    stub: Any = Stub()
    assert Pronouncer(stub, {}, n=3)([["a", "b"]]) == [[("B B", 0.0), ("B B L", -1.0), ("B L B", -1.0)]]


def test_combining_the_n_best_of_parts_takes_little_memory() -> None:
    stub: Any = Stub()
    stub.predict_n_best = lambda lines, n: [[("B" * 20_000, -float(rank)) for rank in range(n)]] * len(lines)
    tracemalloc.start()
    (found,) = Pronouncer(stub, {}, n=100)([["a", "b"]])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [score for _, score in found[:4]] == [0.0, -1.0, -1.0, -2.0]
    assert most < 30_000_000  # all 10,000 pairs would take 400 MB


def test_pronunciations_that_are_too_long_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pronunciation, "MOST_TEXT", 0)
    stub: Any = Stub()
    stub.predict = lambda lines: ["B" * 90 for _ in lines]
    pronounce = Pronouncer(stub, {})
    assert pronounce([["a"], ["a"]]) == [[("B" * 90, 0.0)]] * 2
    stub.predict = lambda lines: ["B" * 110 for _ in lines]
    for words in ([["b"]], [["c", "c"]], [["d"], ["d"]]):
        with pytest.raises(LabError, match=r"^the outputs have more than .* this model are too long$"):
            pronounce(words)


def test_a_model_of_other_sources_is_refused() -> None:
    stub: Any = Stub(source=PHONES)
    for codec in (stub.codec, ImageCodec(8, 4, PHONES)):
        stub.codec = codec
        with pytest.raises(LabError, match="g2p needs a model that reads letters"):
            Pronouncer(stub, {})


def test_a_real_model_answers(tmp_path: Any) -> None:
    from attention_lab.inference.trained_model import TrainedModel

    model: Any = TrainedModel(transduction())
    assert Pronouncer(model, {})([["hello"]])[0][0][0] == model.predict(["hello"])[0]
