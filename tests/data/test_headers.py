"""A header in a file of columns is pointed out."""

from pathlib import Path

import pytest

from attention_lab.data import Inflection, Labelled, Pairs
from attention_lab.data.headers import header_hints
from attention_lab.data.reading.files import Row


@pytest.mark.parametrize(
    ("kind", "header", "line"),
    [
        (Pairs, "English\tFrench", "a{0}\tb{0}"),
        (Labelled, "label\ttext", "yes\tgood {0}"),
        (Inflection, "lemma\tform\ttags", "go{0}\twent{0}\tV;PST"),
    ],
)
def test_a_header_is_pointed_out(kind: type[Pairs], header: str, line: str, tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("\n".join([header, *(line.format(i) for i in range(20))]) + "\n")
    data = kind(file=str(file))
    data.setup()
    shown = header.replace("\t", "<TAB>")
    assert f"{file}:1: '{shown}' is read as an example: remove it if it is a header" in data.hints.values()


def test_words_that_may_be_examples_are_not_headers() -> None:
    rows = [Row("a:1", "source", "s ɔː s"), Row("a:2", "source", "target"), Row("a:11", "text", "label")]
    assert header_hints([rows, []]) == {}
    assert list(header_hints([[], [Row("b:1", "Source ", "TARGET")]])) == ["b:1"]
