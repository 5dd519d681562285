from pathlib import Path

import pytest
import torch
from small_data import whole

from attention_lab.data import CSVRegression, Diabetes, RegressionCodec, Sine, TransductionCodec
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.regression import RegressionData
from attention_lab.errors import LabError
from attention_lab.sizes import RegressionSizes
from attention_lab.untrusted.configuration import check_values


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "numbers.csv"
    path.write_text("name,x,y,z\n" + "".join(f"row {x},{x},{10 * x},{-x}\n" for x in range(10)))
    return str(path)


def values(data: RegressionData) -> list[list[list[float]]]:
    """The inputs of each split in the units of the data, sorted."""
    data.setup()
    rows = data.splits.map(whole)
    return [sorted(data.codec.restore_inputs(part[0]).round(decimals=4).tolist()) for part in rows]


def test_sine_without_noise_is_the_formula() -> None:
    data = Sine(train_size=20, validation_size=5, test_size=4, noise=0)
    batch = data.training_set()
    x = batch.inputs
    assert batch.targets.allclose(2 * x.sin() + x**0.8)
    assert x.min() >= 0
    assert x.max() <= 5
    assert x.squeeze().equal(x.squeeze().sort().values)
    assert batch.index.tolist() == list(range(20))
    assert data.sizes == RegressionSizes(features=1, targets=1, samples=20)
    assert [len(part) for part in data.splits] == [20, 5, 4]


def test_the_noise_has_the_given_deviation() -> None:
    batch = Sine(train_size=20_000, noise=0.5).training_set()
    noise = batch.targets - 2 * batch.inputs.sin() - batch.inputs**0.8
    assert noise.mean().item() == pytest.approx(0, abs=0.02)
    assert noise.std().item() == pytest.approx(0.5, abs=0.01)


def test_the_seed_of_the_data_decides_alone() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(5)
        first = Sine(seed=1).training_set()
        torch.manual_seed(6)
        assert Sine(seed=1).training_set().targets.equal(first.targets)
    assert not Sine(seed=2).training_set().targets.equal(first.targets)


def test_parts_of_a_file_are_disjoint_and_deterministic(file: str) -> None:
    parts = values(CSVRegression(file=file))
    assert [len(part) for part in parts] == [8, 1, 1]
    assert sorted(row for part in parts for row in part) == [[float(x)] for x in range(10)]
    assert parts == values(CSVRegression(file=file))
    assert parts != values(CSVRegression(file=file, seed=1))


def test_rows_outside_training_have_no_index(file: str) -> None:
    data = CSVRegression(file=file)
    assert next(iter(data.val_dataloader())).index.tolist() == [-1]
    assert sorted(next(iter(data.train_dataloader())).index.tolist()) == list(range(8))


def test_all_rows_for_training_are_evaluated_leave_one_out(file: str) -> None:
    data = CSVRegression(file=file, fractions=[1, 0, 0])
    for loader in (data.val_dataloader(), data.test_dataloader()):
        (batch,) = loader
        assert batch.index.tolist() == list(range(10))
        assert batch.inputs.equal(data.training_set().inputs)


def test_training_statistics_standardise_every_part(file: str) -> None:
    data = CSVRegression(file=file, inputs="x")
    train = data.training_set()
    assert train.inputs.mean().item() == pytest.approx(0, abs=1e-6)
    assert train.targets.std(correction=0).item() == pytest.approx(1)
    test = data.splits.test[torch.tensor([0])]
    x, y = data.codec.restore_inputs(test[0]).item(), data.codec.restore_targets(test[1]).item()
    assert y == pytest.approx(10 * x)


def test_several_inputs_and_no_standardisation(file: str) -> None:
    data = CSVRegression(file=file, inputs=["y", "x"], target="z", fractions=[1, 0, 0], standardize=False)
    assert data.training_set().inputs[3].tolist() == [30.0, 3.0]
    assert data.sizes == RegressionSizes(features=2, targets=1, samples=10)


def test_columns_whose_names_are_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("2023,2024\n1,2\n")
    node = {"inputs": [2023], "target": 2024}  # as YAML and the command line read them
    check_values({"_target_": "attention_lab.data.CSVRegression", **node}, "the checkpoint")
    data = CSVRegression(file=str(tmp_path / "a.csv"), inputs=[2023], target=2024, fractions=[1, 0, 0])
    data.setup()
    assert (data.codec.inputs, data.codec.target) == (["2023"], "2024")
    with pytest.raises(LabError, match=r"^data\.target=2024 is among data\.inputs: remove it there$"):
        CSVRegression(file="a.csv", inputs=["2024"], target=2024)


def test_bad_options(file: str) -> None:
    with pytest.raises(LabError, match=r"data\.inputs=\[\]: name at least one column"):
        CSVRegression(file=file, inputs=[])
    with pytest.raises(LabError, match=r"data\.fractions"):
        CSVRegression(file=file, fractions=[0.5, 0.5])
    with pytest.raises(LabError, match=r"data\.noise=-1"):
        Sine(noise=-1)
    with pytest.raises(LabError, match=r"data\.batch_size=0"):
        Sine(batch_size=0)
    with pytest.raises(LabError, match="leave none of 10 distinct examples for training"):
        CSVRegression(file=file, fractions=[0.01, 0.495, 0.495]).setup()


def test_nothing_is_read_before_setup() -> None:
    data = CSVRegression(file="absent.csv")
    with pytest.raises(LabError, match=r"absent\.csv: No such file"):
        data.setup()


def test_a_given_codec_is_kept(file: str) -> None:
    data = CSVRegression(file=file, fractions=[1, 0, 0])
    data.codec = RegressionCodec(["x"], "y", mean=[1.0, 0.0], deviation=[2.0, 1.0])
    data.setup()
    assert data.training_set().inputs[5].item() == 2.0


def test_a_codec_that_does_not_fit_is_refused(file: str) -> None:
    data = CSVRegression(file=file)
    data.codec = RegressionCodec(["z"], "y", mean=[0.0, 0.0], deviation=[1.0, 1.0])
    with pytest.raises(LabError, match="the model reads z and predicts y; this data has x and y"):
        data.setup()
    symbols = Tokenizer(Notation("characters"), Vocabulary(["a"]))
    data.codec = TransductionCodec(symbols, symbols)  # type: ignore[assignment]
    with pytest.raises(LabError, match="has a TransductionCodec, but this data needs a RegressionCodec"):
        data.setup()


def test_the_probe_is_the_whole_validation_part() -> None:
    data = Sine(validation_size=9)
    assert data.probe(3)[0].equal(data.splits.validation[torch.arange(9)][0])


def test_diabetes() -> None:
    data = Diabetes()
    data.setup()
    assert data.sizes == RegressionSizes(features=10, targets=1, samples=354)
    assert [len(part) for part in data.splits] == [354, 44, 44]
    assert data.codec.inputs[:3] == ["age", "sex", "bmi"]
    assert data.training_set().inputs.std(0, correction=0).allclose(torch.ones(10))
    ages = data.codec.restore_inputs(data.training_set().inputs)[:, 0]
    assert 18 < ages.min() < ages.max() < 100


def test_each_split_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    for name, rows in (("train", range(4)), ("validation", range(4, 6)), ("test", range(6, 9))):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{x},{2 * x}\n" for x in rows))
    files = {f"{name}_file": str(tmp_path / f"{name}.csv") for name in ("train", "validation", "test")}
    data = CSVRegression(**files)
    assert values(data) == [[[0.0], [1.0], [2.0], [3.0]], [[4.0], [5.0]], [[6.0], [7.0], [8.0]]]
    with pytest.raises(LabError, match=r"^data\.train_file and data\.validation_file are missing: give all"):
        CSVRegression(test_file=files["test_file"]).setup()
    tested = CSVRegression(test_file=files["test_file"])
    tested.codec = data.codec
    assert [len(part) for part in values(tested)] == [0, 0, 3]
    assert len(tested.probe(1).inputs) == 3
