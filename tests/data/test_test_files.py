"""A trained model is tested on a new file alone: no file of training is needed or read."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from attention_lab.data import ImageFiles, Inflection, Labelled, Pairs, Text
from attention_lab.data.specs import check_data
from attention_lab.errors import LabError

KINDS: dict[str, tuple[Any, str, str]] = {
    "pairs": (Pairs, "ab\tba\nbc\tcb\ncd\tdc\n", "ad\tda\nax\txa\n"),
    "inflection": (Inflection, "ab\tabs\tN;PL\nbc\tbcs\tN;PL\ncd\tcds\tV\n", "ad\tads\tN;PL\n"),
    "labelled": (Labelled, "x\ta b\ny\tb c\nx\tc d\n", "y\ta d\n"),
    "text": (Text, "abcabcabcabc" * 3, "abcx"),
    "image_files": (ImageFiles, "1.png\tab\n2.png\tbc\n3.png\tcd\n", "1.png\tad\n"),
}


@pytest.fixture(params=KINDS)
def files(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Path, Path]:
    """The class of a data set, a file to train on, and another to test on."""
    kind, training, test = KINDS[request.param]
    (tmp_path / "training").write_text(training)
    (tmp_path / "test").write_text(test)
    for number in (1, 2, 3):
        Image.new("L", (16, 32), 80 * number).save(tmp_path / f"{number}.png")
    return kind, tmp_path / "training", tmp_path / "test"


def test_the_test_file_is_enough_for_a_trained_model(files: tuple[Any, Path, Path]) -> None:
    kind, training, test = files
    trained = kind(file=str(training))
    trained.setup()
    training.unlink()
    data = kind(test_file=str(test))
    data.codec = trained.codec
    data.setup()
    assert (len(data.splits.train), len(data.splits.validation)) == (0, 0)
    assert len(data.splits.test) == len(test.read_text().splitlines())
    assert data.probe(4) is not None and next(iter(data.test_dataloader())) is not None
    assert "(test)" not in data.unseen.test and data.shared == ""


def test_training_needs_the_other_files(files: tuple[Any, Path, Path]) -> None:
    kind, _, test = files
    missing = (
        "data.train_file and data.validation_file are missing: give all three files, or a single data.file"
    )
    with pytest.raises(LabError, match=missing):
        kind(test_file=str(test)).setup()
    with pytest.raises(LabError, match=missing):
        check_data({"_target_": f"attention_lab.data.{kind.__name__}", "test_file": str(test)})


def test_known_forms_need_the_training_examples(tmp_path: Path) -> None:
    (tmp_path / "test").write_text("ab\tabs\tN\n")
    data = Inflection(test_file=str(tmp_path / "test"), known_forms=2)
    data.codec = object()  # type: ignore[assignment]
    with pytest.raises(LabError, match=r"data\.known_forms=2 needs the training examples"):
        data.setup()
