"""docs/mechanisms.md tells what is so: every cell is verified or refused."""

import matrix
import pytest

AGAIN = "write the page again: python tests/attention/matrix.py"


def test_the_page_begins_with_what_is_refused() -> None:
    assert matrix.PAGE.read_text(encoding="utf-8").startswith(matrix.header()), AGAIN


@pytest.mark.parametrize(
    ("model", "pooling"), matrix.sections(), ids=["-".join(one) for one in matrix.sections()]
)
def test_a_table_says_what_is_found_now(model: str, pooling: str) -> None:
    found = matrix.section(model, pooling)
    assert "**" not in found, "a cell differs from its formula"
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert (found in page) if found else (f"`model={model} pooling={pooling}`" not in page), AGAIN


def test_a_wrong_mechanism_would_show() -> None:
    cell = matrix.Cell("seq2seq", "additive", "softmax", "global", "soft")
    right = matrix.references.PAIRS["Additive"]
    try:
        matrix.references.PAIRS["Additive"] = lambda *a: right(*a) * 1.001
        assert matrix.error(cell) > matrix.TOLERANCE
    finally:
        matrix.references.PAIRS["Additive"] = right
    assert matrix.error(cell) < matrix.TOLERANCE
