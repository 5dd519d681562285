"""Checked reading of a file of nodes."""

from typing import NamedTuple

import torch

from attention_lab.data.reading.files import naming, parse_number, read_text
from attention_lab.data.standardizing import check_sizes, check_spreads, moments
from attention_lab.errors import LabError


class Nodes(NamedTuple):
    """Names, labels (empty where unknown) and features (None where there are no columns) of all nodes."""

    names: list[str]
    labels: list[str]
    features: list[list[float]] | None


def read_nodes(path: str, standardize: bool) -> Nodes:
    """The nodes in a file of `node<TAB>label` lines, each with the same number of features behind it.

    Args:
        path: of the file.
        standardize: shift and scale every feature to mean 0 and deviation 1; a constant is only shifted.

    Raises:
        LabError: `read_text` does, a name is missing or comes twice, the features of a line are no finite
            numbers or not as many as in the first line, or float32 cannot hold a column of them.
    """
    lines: dict[str, int] = {}
    labels: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        place, fields = f"{path}:{number}", [field.strip() for field in line.split("\t")]
        if len(fields) < 2:
            raise LabError(f"{place}: no tab; a line is node<TAB>label, and the label may be empty")
        name, label, *numbers = fields
        if not name:
            raise LabError(f"{place}: the node is empty; a line is node<TAB>label")
        if name in lines:
            raise LabError(f"{place}: the node {name!r} is in line {lines[name]} already")
        if rows and len(numbers) != len(rows[0]):
            raise LabError(f"{place}: {len(numbers)} features where line 1 has {len(rows[0])}")
        lines[name] = number
        labels.append(label)
        rows.append([parse_number(field, place) for field in numbers])
    with naming(path):
        features = _checked(rows, standardize) if rows[0] else None
    return Nodes(list(lines), labels, features)


def _checked(rows: list[list[float]], standardize: bool) -> list[list[float]]:
    """The features, standardised if that is wanted. Raises LabError if float32 cannot hold a column."""
    values = torch.tensor(rows, dtype=torch.float64)
    names = [f"feature {number}" for number in range(1, values.shape[1] + 1)]
    if not standardize:
        check_sizes(names, values, values)
        return rows
    check_spreads(names, values, squared=[False] * len(names))
    mean, deviation = moments(values)
    standard: list[list[float]] = ((values - mean) / deviation).tolist()
    return standard
