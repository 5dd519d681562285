"""BLEU and chrF, against values worked out by hand."""

import math

import pytest

from attention_lab.errors import LabError
from attention_lab.metrics import text_scores as module
from attention_lab.metrics.text_scores import check_sacrebleu, text_scores

pytest.importorskip("sacrebleu")


def test_equal_texts_have_the_highest_scores() -> None:
    assert text_scores(["a b c d e"], [["a b c d e"]]) == pytest.approx({"bleu": 100, "chrf": 100})
    assert text_scores([], []) == {}


def test_bleu_by_hand() -> None:
    # 5 of 6 words, 3 of 5 pairs, 2 of 4 triples and 1 of 3 quadruples of the output are in the reference.
    found = text_scores(["the cat sat on the mat"], [["the dog sat on the mat"]])
    precisions = (5 / 6, 3 / 5, 2 / 4, 1 / 3)
    assert found["bleu"] == pytest.approx(100 * math.prod(precisions) ** (1 / 4))
    short = text_scores(["the cat sat on"], [["the cat sat on the mat"]])  # the brevity penalty alone
    assert short["bleu"] == pytest.approx(100 * math.exp(1 - 6 / 4))


def test_the_best_reference_counts_and_examples_may_have_different_numbers_of_them() -> None:
    outputs, references = ["a b c d", "e f g h"], [["x y", "a b c d"], ["e f g h"]]
    assert text_scores(outputs, references) == pytest.approx({"bleu": 100, "chrf": 100})


def test_a_missing_package_is_told(monkeypatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(LabError, match=r"task.text_metrics=true needs .*pip install -e '\.\[text\]'"):
        check_sacrebleu()
