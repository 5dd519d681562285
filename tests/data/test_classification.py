from pathlib import Path

import pytest
import torch
from small_data import whole

from attention_lab.data import Digits, Labelled
from attention_lab.data.specs.files import TextUnit
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

EXAMPLE = Path(__file__).parents[2] / "data" / "labelled_example.tsv"


def test_digits_as_rows() -> None:
    data = Digits("rows")
    data.setup()
    assert data.sizes == ClassificationSizes(classes=10, length=8, features=8)
    assert [len(part) for part in data.splits] == [1293, 144, 360]
    batch = whole(data.splits.test)
    assert (batch.inputs.shape, batch.inputs.dtype) == ((360, 8, 8), torch.float32)
    assert (batch.inputs.min().item(), batch.inputs.max().item()) == (0.0, 1.0)
    assert set(batch.lengths.tolist()) == {8}
    assert batch.labels[:5].tolist() == [2, 8, 2, 6, 6]  # as scikit-learn's train_test_split deals them
    assert data.codec.token_labels(batch.inputs[0], 8)[-1].strip("·") != ""


def test_digits_as_pixels_are_the_same_pictures() -> None:
    rows, pixels = Digits("rows"), Digits("pixels")
    rows.setup()
    pixels.setup()
    assert pixels.sizes == ClassificationSizes(classes=10, length=64, vocabulary=21, grid=(8, 8))
    vectors, tokens = whole(rows.splits.train), whole(pixels.splits.train)
    assert (tokens.inputs - 4).equal((vectors.inputs * 16).long().flatten(1))
    assert tokens.labels.equal(vectors.labels)
    text = " ".join(pixels.codec.token_labels(tokens.inputs[0], 64))
    assert pixels.codec.encode([text]).inputs[0].equal(tokens.inputs[0])
    assert rows.codec.encode([text]).inputs[0].equal(vectors.inputs[0])


@pytest.mark.long
def test_a_smaller_training_part_is_nested_in_larger_ones_and_keeps_the_proportions() -> None:
    chosen: dict[int | None, set[tuple[float, ...]]] = {}
    for size in (20, 100, 1292, 1293, None):
        data = Digits("rows", train_size=size)
        data.setup()
        train = whole(data.splits.train)
        assert [len(part) for part in data.splits] == [size or 1293, 144, 360]
        if size == 20:
            assert set(train.labels.bincount(minlength=10).tolist()) <= {1, 2, 3}
        chosen[size] = {tuple(image.flatten().tolist()) for image in train.inputs}
    assert chosen[20] < chosen[100] < chosen[1292] < chosen[1293] == chosen[None]
    everything = Digits("rows")
    everything.setup()
    assert train.inputs.equal(whole(everything.splits.train).inputs)
    with pytest.raises(LabError, match=r"data\.train_size=1294: data=digits has 1293 examples for training"):
        Digits("rows", train_size=1294).setup()
    with pytest.raises(LabError, match=r"data\.train_size=0"):
        Digits("rows", train_size=0)


def test_the_codec_of_other_digits_is_refused() -> None:
    data, other = Digits("rows"), Digits("pixels")
    other.setup()
    data.codec = other.codec
    with pytest.raises(LabError, match=r"not trained on data=digits with data\.unit=rows"):
        data.setup()
    with pytest.raises(LabError, match=r"data\.unit=columns: choose one of pixels, rows"):
        Digits("columns")  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["words", "characters"])
def test_one_file_of_texts(unit: TextUnit) -> None:
    lines = [line.split("\t") for line in EXAMPLE.read_text().splitlines()]
    texts = [text.split() if unit == "words" else list(text) for _, text in lines]
    data = Labelled(file=str(EXAMPLE), unit=unit)
    data.setup()
    assert data.codec.labels == ["number", "person", "place", "time"]
    assert data.sizes.length == max(map(len, texts))
    assert [len(part) for part in data.splits] == [48, 6, 6]
    batch = whole(data.splits.train)
    seen = [
        [data.codec.decode(label), data.codec.token_labels(inputs, length)]
        for inputs, length, label in zip(*(field.tolist() for field in batch[:3]), strict=True)
    ]
    known = [[label, text] for (label, _), text in zip(lines, texts, strict=True)]
    assert all(example in known for example in seen)
    again = Labelled(file=str(EXAMPLE), unit=unit)
    assert whole(again.splits.test).inputs.equal(whole(data.splits.test).inputs)


def three(folder: Path, train: str, test: str, **options: int) -> Labelled:
    (folder / "train.tsv").write_text(train)
    (folder / "test.tsv").write_text(test)
    names = str(folder / "train.tsv"), str(folder / "test.tsv"), str(folder / "test.tsv")
    return Labelled(*names, **options)  # type: ignore[arg-type]


def test_three_files_of_texts(tmp_path: Path) -> None:
    data = three(tmp_path, "no\ta b\nyes\tb\n", "yes \tb  c a\n")
    data.setup()
    assert data.sizes == ClassificationSizes(classes=2, length=3, vocabulary=6)
    batch = whole(data.splits.test)
    assert batch.inputs.tolist() == [[5, 3, 4]]
    assert (batch.lengths.tolist(), batch.labels.tolist()) == ([3], [1])
    assert whole(data.splits.train).inputs.tolist() == [[4, 5], [5, 0]]


@pytest.mark.parametrize(
    ("train", "test", "expected"),
    [
        (
            "no\ta\nyes\tb\n",
            "no\ta\nx\tb\n",
            "test.tsv:2: the label 'x' does not occur in training; the labels are no, yes",
        ),
        (
            "".join(f"{number:02}\tyes\n" for number in range(40)),
            "text\tno\n",
            "test.tsv:1: the label 'text' does not occur in training; the labels are "
            "00, 01, 02, 03, 04, 05, 06, 07, 08, 09 and 30 more",
        ),
        ("no\ta\nno\tb\n", "no\ta\n", "train.tsv:1: every label is 'no'; at least two are needed"),
        ("no\ta\nyes b\n", "no\ta\n", "train.tsv:2: no tabs, but one is needed: label<TAB>text"),
        ("no\ta\n\tb\n", "no\ta\n", "train.tsv:2: the label is empty; a line is label<TAB>text"),
    ],
)
def test_errors(tmp_path: Path, train: str, test: str, expected: str) -> None:
    with pytest.raises(LabError) as caught:
        three(tmp_path, train, test).setup()
    assert str(caught.value) == f"{tmp_path}/{expected}"


def test_long_labels_are_shown_in_part(tmp_path: Path) -> None:
    long = "n" * 5000
    for train, test, end in (
        (f"{long}1\ta\n{long}2\tb\n", f"{long}3\ta\n", "…"),
        (f"{long}\ta\n", f"{long}\ta\n", "at least two are needed"),
    ):
        with pytest.raises(LabError) as caught:
            three(tmp_path, train, test).setup()
        assert len(str(caught.value)) < 1000
        assert str(caught.value).endswith(end)


def test_a_text_longer_than_the_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"train\.tsv:2: 3 words, but the model reads at most 2 \(data"):
        three(tmp_path, "no\ta\nyes\tb b b\n", "no\ta\n", max_length=2).setup()


def test_longer_texts_can_be_made_to_fit(tmp_path: Path) -> None:
    data = three(tmp_path, "no\ta\nyes\tb\n", "no\ta\n", max_length=9)
    data.setup()
    assert data.sizes.length == 9
    assert data.codec.encode(["a b c d"]).inputs.shape == (1, 4)
    with pytest.raises(LabError, match=r"data\.max_length=0"):
        Labelled(max_length=0)


def test_a_given_codec_is_kept(tmp_path: Path) -> None:
    first = three(tmp_path, "no\ta b\nyes\tb\n", "yes\tb\n")
    first.setup()
    second = three(tmp_path, "no\tc b\n", "yes\tb\n")
    second.codec = first.codec
    second.setup()
    assert second.sizes == first.sizes
    assert whole(second.splits.train).inputs.tolist() == [[3, 5]]
