"""Numbers of any size are standardised correctly, or rejected in one line that names the column."""

import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attention_lab.data import CSVRegression, GraphFiles
from attention_lab.data.reading.codecs import RegressionCodec
from attention_lab.data.reading.standardizing import check_spreads, moments
from attention_lab.errors import LabError


def _file(path: Path, rows: list[tuple[float, float]]) -> str:
    path.write_text("x,y\n" + "".join(f"{x!r},{y!r}\n" for x, y in rows))
    return str(path)


def _refusal(path: Path, rows: list[tuple[float, float]], *, standardize: bool = True) -> str:
    with pytest.raises(LabError) as caught:
        CSVRegression(file=_file(path, rows), fractions=[1, 0, 0], standardize=standardize).setup()
    text = str(caught.value)
    assert text.count(str(path)) == 1 and "\n" not in text
    return text.removeprefix(str(path))


@given(
    st.lists(st.integers(-1000, 1000), min_size=2, max_size=20).filter(lambda one: len(set(one)) > 1),
    st.integers(-300, 290),
)
def test_moments_are_right_for_numbers_of_any_size(numbers: list[int], power: int) -> None:
    values = torch.tensor(numbers, dtype=torch.float64).unsqueeze(1)
    expected = values.std(0, correction=0).item()
    mean, deviation = moments(values * 10.0**power)
    assert deviation.item() == pytest.approx(expected * 10.0**power, rel=1e-9)
    assert mean.item() == pytest.approx(values.mean().item() * 10.0**power, rel=1e-9, abs=10.0 ** (power - 9))


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-310, 1e300, -7.3])
def test_a_constant_column_becomes_zeros(value: float) -> None:
    values = torch.full((7, 1), value, dtype=torch.float64)
    mean, deviation = moments(values)
    assert (mean.item(), deviation.item()) == (value, 1.0)


def test_a_column_of_subnormal_numbers_is_refused_with_what_would_be_right(tmp_path: Path) -> None:
    rows = [(number * 1e-310, float(number)) for number in range(10)]
    right = "its numbers differ by up to 9e-310, too little for float32: multiply the column by 1e310"
    assert _refusal(tmp_path / "a.csv", rows) == f": column 'x': {right}"
    assert _refusal(tmp_path / "a.csv", rows, standardize=False) == f": column 'x': {right}"
    assert _refusal(tmp_path / "a.csv", [(y, x) for x, y in rows]) == f": column 'y': {right}"


def test_small_and_large_inputs_are_standardised(tmp_path: Path) -> None:
    for scale in (1e-36, 1e-20, 1e20, 3e37):
        data = CSVRegression(
            file=_file(tmp_path / "a.csv", [(n * scale, 1.0) for n in range(10)]), fractions=[1, 0, 0]
        )
        inputs = data.training_set().inputs
        assert inputs.mean().item() == pytest.approx(0, abs=1e-6)
        assert inputs.std(correction=0).item() == pytest.approx(1)
        assert data.codec.restore_inputs(inputs)[3].item() == pytest.approx(3 * scale, rel=1e-5)


def test_large_inputs_are_refused(tmp_path: Path) -> None:
    rows = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]
    said = _refusal(tmp_path / "a.csv", [*rows, (1e300, 4.0)])
    assert said == ":5: column 'x': '1e+300' is too large: give numbers below 3.4e+38, in a larger unit"
    said = _refusal(tmp_path / "a.csv", [*rows, (1e30, 4.0)], standardize=False)
    assert said == (
        ": column 'x': its numbers differ by up to 1e+30, too much for float32: divide the column by 1e30"
    )


def test_a_constant_too_large_to_be_squared(tmp_path: Path) -> None:
    said = _refusal(tmp_path / "a.csv", [(1e30, 1.0), (1e30, 2.0)], standardize=False)
    assert said == (
        ": column 'x': 1e+30 is too large to be squared in float32: divide the column by 1e30, "
        "or set data.standardize=true"
    )


def test_targets_whose_errors_cannot_be_squared(tmp_path: Path) -> None:
    for scale, how in ((1e25, "divide the column by 1e25"), (1e-25, "multiply the column by 1e25")):
        said = _refusal(tmp_path / "a.csv", [(float(n), n * scale) for n in range(3)])
        assert said.startswith(": column 'y'") and said.endswith(how)
    for spread in (2e-18, 1.0, 9e17):  # squares from 4e-36 to 8e35
        check_spreads(["y"], torch.tensor([[0.0], [spread]], dtype=torch.float64), [True])


def test_a_number_far_outside_of_training_is_refused() -> None:
    codec = RegressionCodec(["x"], "y", mean=[0.0, 0.0], deviation=[1e-30, 1.0])
    with pytest.raises(LabError, match=r"column 'x': 2 is 2e\+30 standard deviations from the mean"):
        codec.encode(["2"])
    assert codec.encode(["2e-30"]).inputs.item() == pytest.approx(2)
    for deviation in (0.0, math.nan):
        with pytest.raises(LabError, match="column 'x'"):
            RegressionCodec(["x"], "y", [0.0, 0.0], [deviation, 1.0]).encode(["0"])


def test_features_of_nodes(tmp_path: Path) -> None:
    edges, nodes = tmp_path / "edges", tmp_path / "nodes"
    edges.write_text("0\t1\n")

    def write(scale: float) -> GraphFiles:
        nodes.write_text("".join(f"{n}\t{'ab'[n % 2]}\t1\t{n * scale!r}\n" for n in range(20)))
        return GraphFiles(str(edges), str(nodes))

    data = write(1e-30)
    data.setup()
    features, _ = data.codec.tensors
    assert features.std(0, correction=0).tolist() == pytest.approx([0, 1])
    with pytest.raises(LabError, match=r"nodes: column 'feature 2': .* multiply the column by 1e309"):
        write(1e-310).setup()
    write(1e30)
    data = GraphFiles(str(edges), str(nodes), standardize=False)
    with pytest.raises(LabError, match=r"nodes: column 'feature 2': 1e\+30 is too large to be squared"):
        data.setup()
