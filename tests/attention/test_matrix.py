"""docs/mechanisms.md tells what is so: every cell is verified or refused."""

import matrix


def test_the_page_is_what_is_found_now() -> None:
    found = matrix.page()
    assert "**" not in found, "a cell differs from its formula"
    assert matrix.PAGE.read_text(encoding="utf-8") == found, (
        "write it again: python tests/attention/matrix.py"
    )


def test_a_wrong_mechanism_would_show() -> None:
    cell = matrix.Cell("seq2seq", "additive", "softmax", "global", "soft")
    right = matrix.references.PAIRS["Additive"]
    try:
        matrix.references.PAIRS["Additive"] = lambda *a: right(*a) * 1.001
        assert matrix.error(cell) > matrix.TOLERANCE
    finally:
        matrix.references.PAIRS["Additive"] = right
    assert matrix.error(cell) < matrix.TOLERANCE
