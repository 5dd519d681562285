"""Labels: fonts, shortening, and characters without a glyph."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import features

from attention_lab.data.vector_texts import SHADES
from attention_lab.viz import fonts
from attention_lab.viz.fonts import BUILT_IN, font_for, label_mask, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("oʊ</s>日本é", "oʊ</s>日本é"),
        (" ", "␣"),
        ("a b", "a b"),
        ("walk\tV;PST", "walk V;PST"),
        ("a\0b\n", "a\ufffdb↵"),
        ("\u202etxt", "\ufffdtxt"),
        ("\ud800", "\ufffd"),
        ("\uffff\ufffe", "\ufffd\ufffd"),
        ("می\u200cشد", "می\u200cشد"),
    ],
)
def test_what_has_no_shape_becomes_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@given(st.text(st.characters(), max_size=40), st.sampled_from([9, 11, 13]), st.integers(1, 120))
def test_any_label_fits_its_limit(text: str, size: int, limit: int) -> None:
    mask = label_mask(text, size, limit)
    assert mask.shape[0] == round(1.4 * size)
    assert 1 <= mask.shape[1] <= limit


@pytest.mark.skipif(not features.check("raqm"), reason="Pillow has no layout from right to left")
@pytest.mark.parametrize("word", ["فدهضظ", "שלום"])
def test_an_arrow_points_from_an_input_to_its_output(word: str) -> None:
    ink = label_mask(f"{word} → WWW", 20)
    start = label_mask(word, 20)
    np.testing.assert_array_equal(ink[:, : start.shape[1] - 2], start[:, :-2])


@pytest.mark.parametrize("text", ["\0", "\n", " ", "\ud800", "<script>", "\u202e"])
def test_hostile_labels_leave_ink(text: str) -> None:
    assert label_mask(text, 12).max() > 128


@given(st.text("abcdefghijklm </>", min_size=1, max_size=30))
def test_a_label_that_just_fits_is_whole(text: str) -> None:
    whole = label_mask(text, 12)
    np.testing.assert_array_equal(label_mask(text, 12, whole.shape[1]), whole)


def test_a_label_too_long_ends_in_an_ellipsis() -> None:
    short = label_mask("agreement", 12, 50)
    endings = [label_mask("agreement"[:count] + "…", 12) for count in range(1, 9)]
    fitting = [mask for mask in endings if mask.shape[1] <= 50]
    np.testing.assert_array_equal(short, fitting[-1])


def test_ten_thousand_characters_cost_what_two_hundred_do() -> None:
    assert label_mask("x" * 10_000, 12, 90) is label_mask("x" * 20_000, 12, 90)


def test_masks_are_shared_and_read_only() -> None:
    mask = label_mask("shared", 12)
    assert mask is label_mask("shared", 12)
    with pytest.raises(ValueError, match="read-only"):
        mask[0, 0] = 1


def test_capitals_stand_in_the_middle() -> None:
    for size in (11, 13, 24):
        rows = np.flatnonzero(label_mask("HEX", size).max(axis=1) > 100)
        assert abs((rows[0] + rows[-1]) / 2 - (round(1.4 * size) - 1) / 2) <= 1


def test_the_built_in_font_knows_latin_only() -> None:
    assert all(fonts._covers(BUILT_IN, character) for character in "Az09</> ")
    assert not fonts._covers(BUILT_IN, "漢")
    assert not fonts._covers(BUILT_IN, "ʃ")


def test_phones_are_drawn_by_dejavu_where_it_is_installed() -> None:
    assert (font_for("tʃɔəŋθʒ") == "DejaVuSans.ttf") == fonts._exists("DejaVuSans.ttf")


def test_first_font_with_all_characters_or_else_with_most(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"latin": "abc", "greek": "abλπ", "cjk": "漢字ab"}

    def installed() -> Iterator[str]:
        yield from known

    monkeypatch.setattr(fonts, "_installed", installed)
    monkeypatch.setattr(fonts, "_covers", lambda name, character: character in known[name])
    assert font_for("ab") == "latin"
    assert font_for("aλ") == "greek"
    assert font_for("漢字") == "cjk"
    assert font_for("漢字λ") == "cjk"
    assert font_for("cλ") == "latin"


def test_a_row_of_pixels_is_drawn_as_squares_of_grey() -> None:
    mask = label_mask("·░▒▓█", 13)
    height, width = mask.shape
    assert (height, width) == (label_mask("A", 13).shape[0], 5 * 10)
    middle = mask[height // 2].reshape(5, 10)
    assert (middle == middle[:, :1]).all()  # the characters of a font are patterns of dots
    assert middle[:, 0].tolist() == sorted(set(middle[:, 0].tolist())) and middle[-1, 0] == 255
    assert 0 < middle[0, 0] < 30  # paper is visible, too
    assert label_mask("·░▒▓█" * 9, 13, 96).shape[1] <= 96
    for text in ("█", "░A▒▓█", "···"):
        assert label_mask(text, 13).tolist() != label_mask("·░▒▓█", 13).tolist()


def test_pixels_are_those_of_the_data() -> None:
    assert fonts.PIXELS == SHADES  # `viz` does not import `data`
