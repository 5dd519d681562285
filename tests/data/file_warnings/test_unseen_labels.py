"""Labels that chance has left out of training, or that differ only in their Unicode form, are pointed out."""

from pathlib import Path

import pytest
from PIL import Image

from attention_lab.data import GraphFiles, Labelled, LabelledImages, TimeSeries


def test_labels_that_only_validation_and_test_have(tmp_path: Path) -> None:
    """The model could not learn them, and nothing said why all these examples were wrong."""
    file = tmp_path / "x.tsv"
    file.write_text("".join(f"{label}\tword{label}\n" for label in range(30)))
    data = Labelled(file=str(file))
    data.setup()
    found = data.hints["labels"]
    start = f"6 labels in {file} never occur in training and are not learned: "
    assert found.startswith(start)
    assert found.endswith(" and 1 more (in 6 of 6 validation and test examples)")


@pytest.mark.parametrize("kind", [Labelled, TimeSeries])
def test_labels_that_training_has(kind: type[Labelled | TimeSeries], tmp_path: Path) -> None:
    file = tmp_path / "x.tsv"
    file.write_text("".join(f"{'yes' if row % 2 else 'no'}\t{row} {row}\n" for row in range(40)))
    data = kind(file=str(file))
    data.setup()
    assert data.hints == {}
    file.write_text("".join(f"{row}\t{row} {row}\n" for row in range(40)))
    data = kind(file=str(file))
    data.setup()
    assert "labels" in data.hints


def test_a_label_of_images_that_training_lacks(tmp_path: Path) -> None:
    for number in range(10):
        Image.new("L", (4, 4), number).save(tmp_path / f"{number}.png")
    file = tmp_path / "x.tsv"
    file.write_text("".join(f"{number}\t{number}.png\n" for number in range(10)))
    data = LabelledImages(file=str(file), image_size=4, patch_size=4)
    data.setup()
    assert data.hints["labels"].startswith(
        f"2 labels in {file} never occur in training and are not learned: "
    )


@pytest.mark.parametrize("kind", [Labelled, TimeSeries, GraphFiles])
def test_labels_that_differ_only_in_their_unicode_form(
    kind: type[Labelled | TimeSeries | GraphFiles], tmp_path: Path
) -> None:
    """They looked the same wherever they were shown, and half of the examples were wrong."""
    labels = ["caf\u00e9", "cafe\u0301", "bar"]
    rows = [(f"{row}", labels[row % 3]) for row in range(60)]
    file, edges = tmp_path / "x.tsv", tmp_path / "edges.tsv"
    edges.write_text("0\t1\n")
    of_graph = kind is GraphFiles
    file.write_text("".join("\t".join(row if of_graph else row[::-1]) + "\n" for row in rows))
    data = GraphFiles(edges=str(edges), nodes=str(file)) if of_graph else kind(file=str(file))
    data.setup()
    assert data.hints["forms"] == (
        f"{file}: the label 'caf\u00e9' is written in several Unicode forms, each of which counts as another "
        "label: convert the file to NFC"
    )
    file.write_text(file.read_text().replace(labels[1], labels[0]))
    data = GraphFiles(edges=str(edges), nodes=str(file)) if of_graph else kind(file=str(file))
    data.setup()
    assert "forms" not in data.hints
