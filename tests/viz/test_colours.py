"""The colour map: light is 0, and equal steps of weight are equal steps of lightness."""

import re

import numpy as np

from attention_lab.viz.canvas import BAD, GOLD, INK, PALETTE, PAPER, RAMP, SHADES, Canvas, lightness


def test_lightness_of_known_colours() -> None:
    colours = np.array([[255, 255, 255], [0, 0, 0], [119, 119, 119], [255, 0, 0]], dtype=float)
    np.testing.assert_allclose(lightness(colours), [100, 0, 50.03, 53.24], atol=0.02)


def test_lightness_falls_evenly_from_light_to_dark() -> None:
    levels = lightness(PALETTE[:SHADES].astype(float))
    assert levels[0] > 96 and levels[-1] < 12
    steps = -np.diff(levels)
    assert steps.min() > 0
    assert np.abs(levels - np.linspace(levels[0], levels[-1], SHADES)).max() < 0.5


def test_no_special_colour_is_a_weight() -> None:
    weights = {tuple(colour) for colour in PALETTE[:SHADES].tolist()}
    others = {tuple(colour) for colour in PALETTE[PAPER : BAD + 1].tolist()}
    assert len(weights) == SHADES and not weights & others
    assert PALETTE[PAPER].tolist() == [255, 255, 255]
    assert len({*range(SHADES), *range(PAPER, INK + 1), GOLD, BAD}) == BAD + 1


def test_text_is_clipped_at_the_edge_and_keeps_what_is_darker() -> None:
    canvas = Canvas(30, 20)
    canvas.pixels[10] = INK
    canvas.text("a label far wider than the paper", (2, 10))
    assert canvas.pixels.shape == (20, 30)
    assert (canvas.pixels[10] == INK).all()
    assert (canvas.pixels[:10] > PAPER).any()


def test_turned_text_reads_upwards() -> None:
    level, upright = Canvas(80, 80), Canvas(80, 80)
    level.text("Leaf", (0, 0), anchor=(0.0, 0.0))
    upright.text("Leaf", (0, 80), anchor=(0.0, 1.0), turned=True)
    np.testing.assert_array_equal(np.rot90(level.pixels), upright.pixels)


def test_the_palette_has_the_colours_of_the_attention_tab() -> None:
    """Both read `ramp.js`: its ends are the first and the last shade, its ink and its gold those of text."""
    named = re.findall(r'"([0-9a-f]{6})"', RAMP.read_text(encoding="utf-8"))
    assert [bytes(colour).hex() for colour in PALETTE[[0, SHADES - 1, INK, GOLD]]] == [
        named[0],
        *named[-3:],
    ]
