"""Labels of a single file that chance has left out of training are pointed out."""

from pathlib import Path

import pytest
from PIL import Image

from attention_lab.data import Labelled, LabelledImages, TimeSeries


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
