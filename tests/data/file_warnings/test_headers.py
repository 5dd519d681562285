"""A header in a file of columns is pointed out, and so are labels in place of texts."""

from pathlib import Path

import pytest

from attention_lab.data import Inflection, Labelled, Pairs
from attention_lab.data.file_warnings.format_hints import header_hints
from attention_lab.data.reading.files import Row
from attention_lab.errors import LabError


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


def test_quotes_around_fields_are_pointed_out(tmp_path: Path) -> None:
    """As R's `write.table` writes them: around texts, but not around numbers."""
    file = tmp_path / "a.tsv"
    lines = [f'{row % 2}\t"a ""good"" film {row}"' for row in range(20)]
    file.write_text("\n".join(['"label"\t"text"', *lines]) + "\n")
    data = Labelled(file=str(file))
    data.setup()
    assert data.hints[f"{file}:1"].startswith(f'{file}:1: \'"label"<TAB>"text"\' is read as an example')
    advice = "write the file without them, in R by write.table(..., quote=FALSE)"
    assert data.hints["quotes"] == f"{file}: quotes around fields are read as part of them: {advice}"
    file.write_text("\n".join([*lines, "1\ta film"]) + "\n")
    data = Labelled(file=str(file))
    data.setup()
    assert data.hints.keys() == set()


def test_words_that_may_be_examples_are_not_headers() -> None:
    rows = [Row("a:1", "source", "s ɔː s"), Row("a:2", "source", "target"), Row("a:11", "text", "label")]
    assert header_hints([rows, []]) == {}
    assert list(header_hints([[], [Row("b:1", "Source ", "TARGET")]])) == ["b:1"]


def test_labels_in_the_place_of_texts_are_pointed_out(tmp_path: Path) -> None:
    rows = [(f"a good film {row}", "abcdefgh"[row % 8]) for row in range(40)]
    swapped, right = tmp_path / "swapped.tsv", tmp_path / "right.tsv"
    swapped.write_text("".join(f"{text}\t{label}\n" for text, label in rows))
    right.write_text("".join(f"{label}\t{text}\n" for text, label in rows))
    data = Labelled(file=str(swapped))
    data.setup()
    assert data.hints["columns"] == (
        f"{swapped}: there are 40 labels, but only 8 texts: if a line is text<TAB>label, swap the columns"
    )
    data = Labelled(file=str(right))
    data.setup()
    assert "columns" not in data.hints
    swapped.write_text(
        "".join(f"{text}\t{'yes' if row % 2 else 'no'}\n" for row, (text, _) in enumerate(rows))
    )
    with pytest.raises(
        LabError,
        match=r"none of 2 distinct examples for training; there are 40 labels, but only 2 texts: "
        r"if a line is text<TAB>label, swap the columns$",
    ):
        Labelled(file=str(swapped)).setup()
    right.write_text("yes\ta good film\nno\ta bad film\n")
    with pytest.raises(LabError, match=r"for training \(2 lines of label<TAB>text\)$"):
        Labelled(file=str(right)).setup()


def test_tags_in_the_place_of_forms_are_pointed_out(tmp_path: Path) -> None:
    swapped, right = tmp_path / "swapped.tsv", tmp_path / "right.tsv"
    swapped.write_text("".join(f"go{row}\t{'V;PST' if row else 'V'}\twent{row}\n" for row in range(20)))
    right.write_text("".join(f"go{row}\twent{row}{';' * (row == 3)}\tV;PST\n" for row in range(20)))
    data = Inflection(file=str(swapped))
    data.setup()
    advice = "if a line is lemma<TAB>tags<TAB>form, swap the last two columns"
    assert data.hints["columns"].endswith(f": the form 'V;PST' looks like tags: {advice}")
    data = Inflection(file=str(right))
    data.setup()
    assert "columns" not in data.hints
