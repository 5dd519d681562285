"""docs/mechanisms.md tells what is so: every cell is verified or refused."""

import itertools

import matrix
import pytest

ALWAYS = ("multihead", "soft")
"""The table that is compared in every run of the tests; the others are slow, and sampled."""
AGAIN = "write the page again: python tests/attention/matrix.py"


def test_the_page_begins_with_what_is_refused() -> None:
    assert matrix.PAGE.read_text(encoding="utf-8").startswith(matrix.header()), AGAIN


def _tables() -> list[object]:
    return [
        pytest.param(*one, id="-".join(one), marks=() if tuple(one) == ALWAYS else pytest.mark.slow)
        for one in matrix.sections()
    ]


@pytest.mark.parametrize(("model", "pooling"), _tables())
def test_a_table_says_what_is_found_now(model: str, pooling: str) -> None:
    found = matrix.section(model, pooling)
    assert "**" not in found, "a cell differs from its formula"
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert (found in page) if found else (f"`model={model} pooling={pooling}`" not in page), AGAIN


@pytest.mark.parametrize("model", [model for model in matrix.MODELS if model != ALWAYS[0]])
def test_a_sample_of_the_other_models_is_verified(model: str) -> None:
    """Every score with every pooling; normalisers and windows in turn."""
    columns = list(itertools.product(matrix.names("normalizer"), matrix.names("window")))
    pairs = itertools.product(matrix.names("scoring"), matrix.names("pooling"))
    cells = [
        matrix.Cell(model, scoring, *columns[5 * n % len(columns)], pooling)
        for n, (scoring, pooling) in enumerate(pairs)
    ]
    states = {cell: matrix.state(cell) for cell in cells}
    assert {cell: state for cell, state in states.items() if "**" in state} == {}
    assert sum(state != "—" for state in states.values()) >= 3


def test_a_wrong_mechanism_would_show() -> None:
    cell = matrix.Cell("seq2seq", "additive", "softmax", "global", "soft")
    right = matrix.references.PAIRS["Additive"]
    try:
        matrix.references.PAIRS["Additive"] = lambda *a: right(*a) * 1.001
        assert matrix.error(cell) > matrix.TOLERANCE
    finally:
        matrix.references.PAIRS["Additive"] = right
    assert matrix.error(cell) < matrix.TOLERANCE
