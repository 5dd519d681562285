"""Pictures written as text."""

import pytest
import torch

from attention_lab.data.vector_texts import shades
from attention_lab.tasks.pixel_rows import console_lines, is_picture


@pytest.mark.parametrize(
    ("text", "drawn"),
    [("··█ ·░▓", True), ("", False), ("a cat", False), ("··█ ·░", False), ("█ ·", False), ("··█·", False)],
)
def test_rows_of_pixels_are_known_by_their_characters(text: str, drawn: bool) -> None:
    assert is_picture(text) is drawn
    assert not is_picture(" ".join(["··"] * 33))


def test_a_digit_is_drawn_with_two_rows_of_pixels_in_a_line() -> None:
    rows = torch.tensor([[0, 0, 1.0], [0, 1, 1], [0, 0, 0.5], [0.25, 0, 0], [1, 0, 0]])
    text = " ".join(map(shades, rows))
    assert is_picture(text)
    assert console_lines(text) == (" ▄█", "  ▀", "▀  ")
