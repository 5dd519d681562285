"""docs/mechanisms.md is true: every cell is verified or rejected."""

import itertools

import matrix
import pytest

from attention_lab.commandline.incompatible import find_incompatibility

AGAIN = "write the page again: python tests/attention/matrix.py"


def test_the_page_begins_with_what_is_refused() -> None:
    assert matrix.PAGE.read_text(encoding="utf-8").startswith(matrix.header()), AGAIN


def test_every_model_has_its_tables() -> None:
    assert sorted(matrix.MODELS) == matrix.names("model"), "add the model to small_models.MODELS"


@pytest.mark.slow
@pytest.mark.parametrize(("model", "pooling"), matrix.sections())
def test_a_table_says_what_is_found_now(model: str, pooling: str) -> None:
    found = matrix.section(model, pooling)
    assert "**" not in found, "a cell differs from its formula"
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert (found in page) if found else (f"`model={model} pooling={pooling}`" not in page), AGAIN


@pytest.mark.long
@pytest.mark.sampled(3)
@pytest.mark.parametrize("model", matrix.MODELS)
def test_a_sample_is_verified(model: str) -> None:
    """Every score with every pooling; normalisers and windows in turn."""
    columns = list(itertools.product(matrix.names("normalizer"), matrix.names("window")))
    states: dict[matrix.Cell, str] = {}
    for scoring, pooling in itertools.product(matrix.names("scoring"), matrix.names("pooling")):
        cells = [matrix.Cell(model, scoring, *column, pooling) for column in columns]
        valid = [cell for cell in cells if find_incompatibility(cell._asdict()) is None]
        if valid:
            cell = valid[7 * len(states) % len(valid)]
            states[cell] = matrix.state(cell)
    assert {cell: state for cell, state in states.items() if "**" in state} == {}
    assert len(states) >= len(matrix.names("scoring")) - 2


def test_a_wrong_mechanism_would_show() -> None:
    cell = matrix.Cell("seq2seq", "additive", "softmax", "global", "soft")
    right = matrix.references.PAIRS["Additive"]
    try:
        matrix.references.PAIRS["Additive"] = lambda *a: right(*a) * 1.001
        assert matrix.error(cell) > matrix.TOLERANCE
    finally:
        matrix.references.PAIRS["Additive"] = right
    assert matrix.error(cell) < matrix.TOLERANCE
