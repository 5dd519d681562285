"""Options of tables, checked without reading a file."""

import pytest

from attention_lab.data.specs.tables import CSVSpec
from attention_lab.errors import LabError


@pytest.mark.parametrize(
    ("inputs", "complaint"),
    [
        ((), "data.inputs=(): name at least one column of the file"),
        (None, "data.inputs=None: name at least one column of the file"),
        (("x", "y"), "data.target=y is among data.inputs: remove it there"),
        ("y", "data.target=y is among data.inputs: remove it there"),
        (("x", "z", "x"), "data.inputs=['x', 'z', 'x']: name each column once"),
    ],
)
def test_the_columns_of_a_csv_file_are_different(inputs: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(LabError) as caught:
        CSVSpec(file="table.csv", inputs=inputs)
    assert str(caught.value).startswith(complaint)
