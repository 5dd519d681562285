"""Labelled time series: the splits, standardisation, the codec, and what does not fit it."""

from pathlib import Path

import pytest
import torch
from small_data import whole

from attention_lab.data import (
    ClassificationCodec,
    ClassificationData,
    ClassificationSplit,
    RaggedVectors,
    SeriesCodec,
    Splits,
    TimeSeries,
    codec_from_state,
)
from attention_lab.data.reading.series_files import read_series
from attention_lab.errors import LabError, LineError
from attention_lab.sizes import ClassificationSizes

EXAMPLE = Path(__file__).parents[2] / "data" / "time_series_example.tsv"


def three_files(folder: Path, *texts: str, **options: int) -> TimeSeries:
    paths = [folder / f"{name}.tsv" for name in ("train", "dev", "test")]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text)
    return TimeSeries(*map(str, paths), **options)  # type: ignore[arg-type]


def test_one_file_of_series() -> None:
    data = TimeSeries(file=str(EXAMPLE))
    data.setup()
    rows = {Path(row.place).name: row for row in read_series(str(EXAMPLE))}
    longest = max(len(row.steps) for row in rows.values())
    assert data.sizes == ClassificationSizes(3, longest, features=2, variable_length=True)
    assert data.codec.labels == ["circle", "line", "zigzag"]
    assert [len(part) for part in data.splits] == [48, 6, 6] and not data.shared and not data.hints
    seen = set()
    for part in data.splits:
        batch = whole(part)
        for place, label, length, series in zip(
            batch.texts, batch.labels.tolist(), batch.lengths.tolist(), batch.inputs, strict=True
        ):
            row = rows[place]
            seen.add(place)
            assert (data.codec.decode(label), length) == (row.label, len(row.steps))
            mean, deviation = torch.tensor(data.codec.mean), torch.tensor(data.codec.deviation)
            torch.testing.assert_close(series[:length] * deviation + mean, torch.tensor(row.steps).float())
            assert not series[length:].any()
    assert seen == rows.keys()


def test_variables_are_standardised_on_the_steps_of_the_training_split(tmp_path: Path) -> None:
    data = three_files(tmp_path, "a\t1 10; 2 10\nb\t6 10\n", "a\t1 10;\n", "b\t0 3;\n")
    data.setup()
    assert data.codec.mean == [3.0, 10.0]  # of three steps, not of two series
    assert data.codec.deviation == pytest.approx([(14 / 3) ** 0.5, 1.0])
    assert whole(data.splits.test).inputs.flatten().tolist() == pytest.approx([-3 / (14 / 3) ** 0.5, -7.0])
    plain = three_files(tmp_path, "a\t1 10; 2 10\nb\t6 10\n", "a\t1 10;\n", "b\t0 3;\n", standardize=False)
    plain.setup()
    assert whole(plain.splits.test).inputs.tolist() == [[[0.0, 3.0]]]


def test_prediction_reads_a_line_like_the_file(tmp_path: Path) -> None:
    data = TimeSeries(file=str(EXAMPLE))
    data.setup()
    lines = [line.split("\t") for line in EXAMPLE.read_text().splitlines()]
    codec = codec_from_state(data.codec.state())
    assert codec == data.codec
    batch = codec.encode([series for _, series in lines])
    expected = RaggedVectors(
        [codec.standardize(torch.from_numpy(row.steps)) for row in read_series(str(EXAMPLE))]
    )
    assert batch.inputs.equal(expected[torch.arange(60)]) and batch.lengths.equal(expected.lengths)
    assert set(batch.labels.tolist()) == {-1}
    assert codec.input_text(batch.inputs[0], 11) == "11 steps of 2 numbers"
    assert codec.token_labels(batch.inputs[0], 3) == ["1", "2", "3"]
    for line, reason in {
        "1 2 3": "a step has 3 numbers, but the model reads 2; semicolons separate the steps",
        "1 2; 3": "step 2 has 1 number, but step 1 has 2",
        "; ".join(["1 2"] * 13): r"13 steps, but the model reads at most 12 \(data\.max_length\)",
        "1 1e30": "column '2': 1e\\+30 is .* standard deviations from the mean",
        "": "step 1 has no numbers",
    }.items():
        with pytest.raises(LineError, match=reason):
            codec.encode([lines[0][1], line])


def test_a_series_with_one_number_a_step_needs_no_semicolons(tmp_path: Path) -> None:
    data = three_files(tmp_path, "a\t1 2 3\nb\t4\n", "a\t1\n", "b\t0 3\n")
    data.setup()
    assert data.sizes == ClassificationSizes(2, 3, features=1, variable_length=True)
    assert data.codec.encode(["1 2", "1; 2"]).inputs.unique(dim=0).shape == (1, 2, 1)
    assert data.codec.encode(["1 2"]).lengths.tolist() == [2]


def test_what_does_not_fit_is_reported_with_its_place(tmp_path: Path) -> None:
    train = "a\t1 2\nb\t3\n"
    for texts, reason in [
        ((train, "a\t1\n", "c\t1\n"), "test.tsv:1: the label 'c' does not occur in training"),
        ((train, "a\t1; 2\n", "a\t1 2; 3 4\n"), "test.tsv:1: a step has 2 numbers, but the model reads 1"),
        (("a\t1\na\t2\n", "a\t1\n", "a\t1\n"), "train.tsv:1: every label is 'a'; at least two are needed"),
        (
            ("a\t1e-300\nb\t0\n", "a\t1\n", "a\t1\n"),
            "train.tsv: column '1': its numbers differ by",
        ),
    ]:
        with pytest.raises(LabError, match=reason):
            three_files(tmp_path, *texts).setup()
    with pytest.raises(LabError, match=r"train\.tsv:1: 2 steps, but the model reads at most 1"):
        three_files(tmp_path, train, "a\t1\n", "b\t1\n", max_length=1).setup()
    with pytest.raises(LabError, match=r"data\.max_length=0"):
        TimeSeries(file="x", max_length=0)


def test_a_test_file_is_read_with_the_codec_of_the_model(tmp_path: Path) -> None:
    first = three_files(tmp_path, "a\t1 2 3\nb\t4\n", "a\t1\n", "b\t0 3\n")
    first.setup()
    (tmp_path / "new.tsv").write_text("b\t1; 2\na\t3\n")
    data = TimeSeries(test_file=str(tmp_path / "new.tsv"))
    data.codec = first.codec
    data.setup()
    assert [len(part) for part in data.splits] == [0, 0, 2]
    assert whole(data.splits.test).labels.tolist() == [1, 0]
    other = TimeSeries(test_file=str(tmp_path / "new.tsv"))
    other.codec = ClassificationCodec(["a", "b"], length=3, features=1)  # type: ignore[assignment]
    with pytest.raises(LabError, match="has a ClassificationCodec, but this data needs a SeriesCodec"):
        other.setup()


def test_examples_of_several_files_and_a_long_series_are_pointed_out(tmp_path: Path) -> None:
    long = " ".join(["0"] * 1200)
    data = three_files(tmp_path, f"a\t1 2\nb\t3\nb\t4\na\t{long}\n", "a\t1, 2\nb\t9\n", "b\t1; 2\n")
    data.setup()
    assert "1 of 2 examples in" in data.shared and "dev.tsv is also in" in data.shared
    assert "1 of 1 examples in" in data.shared and "with another label" in data.shared
    [hint] = data.hints.values()
    assert "train.tsv:4: 1,200 steps, although half of the lines have at most" in hint


@pytest.mark.parametrize(
    "changed",
    [
        {"mean": [0.0]},
        {"deviation": []},
        {"deviation": [1.0, 0.0]},
        {"deviation": [1.0, -1.0]},
        {"features": None},
        {"labels": ["a", "a"]},
        {"answers": 2},
    ],
)
def test_a_damaged_codec_is_refused(changed: dict[str, object]) -> None:
    state = SeriesCodec(["a", "b"], 3, features=2, mean=[0.0, 1.0], deviation=[1.0, 2.0]).state()
    assert codec_from_state(state).state() == state
    with pytest.raises(LabError, match="the checkpoint's codec"):
        codec_from_state(state | changed)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.float32])
def test_series_of_any_type_of_numbers_are_standardised_alike(dtype: torch.dtype) -> None:
    series = [torch.tensor([[1, 10], [2, 20]]), torch.tensor([[6, 90]])]
    expected = SeriesCodec.of(["a", "b"], [one.double() for one in series], 2)
    codec = SeriesCodec.of(["a", "b"], [one.to(dtype) for one in series], 2)
    assert codec == expected and codec.mean == [3.0, 40.0]
    for one in series:
        assert codec.standardize(one.to(dtype)).equal(expected.standardize(one.double()))


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        ([], "SeriesCodec.of needs at least one step"),
        ([torch.zeros(0, 2)], "SeriesCodec.of needs at least one step"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], r"SeriesCodec.of needs tensors \[L, d\].*, not \[2, 4\]"),
        ([torch.zeros(3)], r"SeriesCodec.of needs tensors \[L, d\].*, not \[3\]"),
        ([[[1.0, 2.0]]], r"SeriesCodec.of needs tensors \[L, d\].*, not a list"),
        ([torch.tensor([[1.0, 2.0], [3.0, float("nan")]])], "column '2': not all of its numbers are finite"),
        ([torch.tensor([[float("inf"), 2.0], [0.0, 1.0]])], "column '1': not all of its numbers are finite"),
    ],
)
@pytest.mark.parametrize("standardize", [True, False])
def test_a_codec_needs_series_of_finite_numbers(
    series: list[torch.Tensor], reason: str, standardize: bool
) -> None:
    with pytest.raises(LabError, match=reason):
        SeriesCodec.of(["a", "b"], series, 2, standardize=standardize)


class _Own(ClassificationData):
    """Series of two lengths, with a codec of the user's choice."""

    def __init__(self, codec: ClassificationCodec) -> None:
        super().__init__(batch_size=2)
        self.own = codec

    def build(self) -> Splits[ClassificationSplit]:
        self.use_codec(self.own, "these series")
        vectors = RaggedVectors([torch.ones(2, 3), torch.zeros(1, 3)])
        return Splits(*[ClassificationSplit(vectors, [0, 1])] * 3)


def test_series_of_ones_own_need_a_codec_for_any_length() -> None:
    data = _Own(SeriesCodec.of(["a", "b"], [torch.arange(6.0).view(2, 3).double()], length=2))
    data.setup()
    assert whole(data.splits.train).inputs.tolist() == [[[1.0] * 3] * 2, [[0.0] * 3] * 2]
    with pytest.raises(LabError, match="1 steps, but the codec has exactly 2: a SeriesCodec allows"):
        _Own(ClassificationCodec(["a", "b"], length=2, features=3)).setup()
    with pytest.raises(LabError, match="vectors of 3 numbers, but the codec has 2"):
        _Own(SeriesCodec(["a", "b"], 2, features=2, mean=[0.0] * 2, deviation=[1.0] * 2)).setup()
