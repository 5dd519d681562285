"""Sentences of the small grammar: agreement, kinds of words, parts, and the probabilities it gives them."""

import math
import random
from collections import Counter
from itertools import pairwise

import pytest
import torch

from attention_lab.data import LanguageBatch, LanguageCodec, Sentences, Text, codec_from_state
from attention_lab.data.synthetic.sentences import GRAMMAR, Sentence, draw, longest, words_of_the_grammar
from attention_lab.errors import LabError
from attention_lab.sizes import LanguageSizes
from attention_lab.special_symbols import BOS, EOS


def _words(name: str) -> set[str]:
    return {word for choice in GRAMMAR[name] for word in choice}


def _drawn(count: int) -> list[Sentence]:
    numbers = random.Random(1)
    return [draw(numbers) for _ in range(count)]


def test_every_rule_leads_to_words() -> None:
    used = {part for choices in GRAMMAR.values() for choice in choices for part in choice}
    assert {part for part in used if part.isupper()} == GRAMMAR.keys() - {"SENTENCE"}
    assert all(word.isalpha() and word.islower() for word in words_of_the_grammar())
    assert {word for one in _drawn(20_000) for word in one.words} == set(words_of_the_grammar())


def test_a_noun_at_the_front_agrees_with_its_verb() -> None:
    """Also over a relative clause, whose verb and nouns stand between them."""
    many = _words("PEOPLE") | _words("ANIMALS")
    one = _words("PERSON") | _words("ANIMAL")
    plain = {word for name in ("GO", "EAT", "COOK", "SEE", "SAY") for word in _words(name)} | {"are", "drink"}
    marked = {word for name in ("GOES", "EATS", "COOKS", "SEES", "SAYS") for word in _words(name)}
    marked |= {"is", "drinks"}
    seen = Counter[bool]()
    for words, _ in _drawn(2000):
        noun = next(word for word in words if word in many | one)
        verbs = [word for word in words if word in plain | marked]
        own = verbs[1] if "who" in words[: words.index(verbs[0])] else verbs[0]
        assert (noun in many) == (own in plain), words
        seen[noun in many, own != verbs[0]] += 1
    assert len(seen) == 4 and min(seen.values()) > 50


def test_an_stands_before_vowels_and_nowhere_else() -> None:
    after = {word: set[str]() for word in ("a", "an")}
    for words, _ in _drawn(5000):
        for word, following in pairwise(words):
            if word in after:
                after[word].add(following[0])
    assert after["an"] and after["an"] <= set("aeiou")
    assert after["a"] and not after["a"] & set("aeiou")


def test_probabilities_are_how_often_sentences_come(monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"SENTENCE": [["NOUN", "runs"], ["NOUN", "runs"], ["NOUN", "sleeps"]], "NOUN": [["ann"], ["bob"]]}
    monkeypatch.setattr("attention_lab.data.synthetic.sentences.GRAMMAR", small)
    drawn = _drawn(20_000)
    counts = Counter(one.words for one in drawn)
    wanted = {one.words: math.exp(one.log_probability) for one in drawn}
    assert wanted[("ann", "runs")] == pytest.approx(1 / 3)
    assert wanted[("bob", "sleeps")] == pytest.approx(1 / 6)
    for words, probability in wanted.items():
        assert counts[words] / len(drawn) == pytest.approx(probability, abs=0.02)


def test_the_parts_are_apart_and_do_not_change_with_the_size_of_training() -> None:
    data, larger = (Sentences(size, 50, 60, seed=3) for size in (200, 300))
    train, validation, test = ([sentence.words for sentence in part] for part in data.sentences())
    assert [len(train), len(validation), len(test)] == [200, 50, 60]
    assert len({*validation, *test}) == 110
    assert not {*validation, *test} & {*train}
    more = larger.sentences()
    assert [one.words for one in more.test] == test
    assert [one.words for one in more.train[:200]] == train
    assert Sentences(200, 50, 60, seed=4).sentences().train != data.sentences().train


def test_a_sentence_is_its_words_between_begin_and_end() -> None:
    data = Sentences(20, 5, 5)
    data.setup()
    batch = data.splits.test[torch.arange(5)]
    assert isinstance(batch, LanguageBatch)
    for row, sentence in zip(batch.tokens.tolist(), data.sentences().test, strict=True):
        assert row[0] == BOS and EOS in row
        assert data.codec.decode(row) == " ".join(sentence.words)
    assert data.sizes == LanguageSizes(len(words_of_the_grammar()) + 4, longest() + 1)
    assert max(len(one.words) for one in _drawn(5000)) <= longest()
    again = codec_from_state(data.codec.state())
    assert isinstance(again, LanguageCodec) and again == data.codec


def test_a_model_of_other_symbols_is_refused(tmp_path) -> None:
    (tmp_path / "my.txt").write_text("ab " * 30)
    text = Text(file=str(tmp_path / "my.txt"), unit="words")
    text.setup()
    data = Sentences(20, 5, 5)
    data.codec = text.codec
    with pytest.raises(LabError, match=r"needs data=text with data\.unit=words, but this is data=sentences"):
        data.setup()


def test_sizes_are_checked() -> None:
    for option in ("train_size", "validation_size", "test_size"):
        with pytest.raises(LabError, match=rf"data\.{option}=0"):
            Sentences(**{option: 0})
