"""Attention over images: `show` with the images that a vision model reads."""

from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from chromium import DRAWN, NEEDS_CHROMIUM, Browser
from PIL import Image
from torch import Tensor, nn
from vision import VisionTransformer

import attention_lab
from attention_lab.attention import recording
from attention_lab.notebook import View

PICTURE = "document.querySelector('.al-tools [aria-label=view] [aria-pressed=true]').textContent"


@pytest.fixture
def model() -> VisionTransformer:
    torch.manual_seed(0)
    return VisionTransformer(patches=16).eval()


IMAGES = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(0))


def test_the_attention_of_a_vision_transformer_lies_over_its_images(model: VisionTransformer) -> None:
    found = attention_lab.show(model, IMAGES, images=IMAGES).records
    with torch.no_grad(), recording(model) as weights:
        model(IMAGES)
    assert len(found) == 4
    for tag, one in found.items():
        expected = weights[one.module][int(tag.split("/")[0].split()[1]) - 1]
        assert one.picture is not None and one.picture.cell == 4 and one.picture.pixels.shape == (16, 16)
        assert (list(one.queries[:3]), one.queries[-1]) == (["token 1", "r0c0", "r0c1"], "r3c3")
        for key, name in enumerate(one.keys):
            row, column = int(name[1]), int(name[3])
            assert np.allclose(one.weights[..., key], expected[..., 1 + 4 * row + column])
    first, second = (found[f"example {n}/encoder.layers.0.self_attn"].picture for n in (1, 2))
    assert first is not None and second is not None and (first.pixels != second.pixels).any()


def test_recorded_weights_and_labels_of_ones_own(model: VisionTransformer) -> None:
    with torch.no_grad(), recording(model) as weights:
        model(IMAGES)
    whole = attention_lab.show(weights, images=IMAGES, patch_size=4).records
    assert all(one.picture for one in whole.values()) and len(whole) == 4
    token = {name: one[:, :, :1] for name, one in weights.items()}
    rows = attention_lab.show(token, ["class"], images=IMAGES, patch_size=4).records
    for tag, one in rows.items():
        assert list(one.queries) == ["class"] and (one.weights == whole[tag].weights[:, :1]).all()
    with pytest.raises(ValueError, match="images need patch_size"):
        attention_lab.show(weights, images=IMAGES)


class Captioner(nn.Module):
    """A text of as many tokens as there are patches, which attends to itself and to the image."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = VisionTransformer(patches=16)
        self.embedding = nn.Embedding(30, 8)
        self.text = nn.MultiheadAttention(8, 2, batch_first=True)
        self.cross = nn.MultiheadAttention(8, 2, kdim=3, vdim=3, batch_first=True)

    def forward(self, input_ids: Tensor, pixel_values: Tensor) -> Tensor:
        """The text, as vectors."""
        self.encoder(pixel_values)
        text = self.embedding(input_ids)
        text = text + self.text(text, text, text)[0]
        patches = torch.nn.functional.avg_pool2d(pixel_values, 4).flatten(2).mT
        patches = torch.cat([patches[:, :1], patches], 1)
        return self.cross(text, patches, patches)[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("tokens", [16, 20])
def test_attention_to_a_text_is_not_laid_over_an_image(tokens: int) -> None:
    ids = torch.arange(2 * tokens).view(2, tokens).flip(1) % 30
    view = attention_lab.show(Captioner(), {"input_ids": ids, "pixel_values": IMAGES}, images=IMAGES)
    laid = {one.module: one.picture is not None for one in view.records.values()}
    assert laid == {
        "encoder.encoder.layers.0.self_attn": True,
        "encoder.encoder.layers.1.self_attn": True,
        "text": False,
        "cross": True,
    }
    assert list(view.records["example 1/cross"].queries[-2:]) == ["1", "0"]
    assert "mean over the patches" not in view.svg("example 1/cross")
    alike = {"input_ids": ids[:, :1].expand(2, 17), "pixel_values": IMAGES}
    with pytest.raises(ValueError, match="or only the vision model if it is part of another"):
        attention_lab.show(Captioner(), alike, images=IMAGES)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"images": IMAGES[0]}, r"^3 images for 2 examples: give one for each, \[B, C, H, W\] if in colour"),
        ({"images": IMAGES[:1]}, "^images are given for 1 of 2 or more examples: give one for each$"),
        ({"images": IMAGES, "patch_size": 8}, "have 4 patches of 8 x 8, but the attentions have 17 keys"),
        ({"images": IMAGES, "patch_size": -4}, "patch_size=-4 must be a whole number of pixels"),
        ({"patch_size": 4}, r"^patch_size is for images: give images=\.\.\. as well$"),
        ({"images": "cat.png"}, "^images is not an array of numbers"),
    ],
)
def test_images_that_do_not_fit(options: dict[str, Any], said: str, model: VisionTransformer) -> None:
    with pytest.raises(ValueError, match=said):
        attention_lab.show(model, IMAGES, **options)


def test_a_png_and_an_svg_show_each_head_over_the_image(model: VisionTransformer) -> None:
    view = attention_lab.show(model, IMAGES[:1], images=IMAGES[:1])
    assert all(f">{text}<" in view.svg() for text in ("token 1", "head 1", "head 2"))
    picture = np.asarray(Image.open(BytesIO(view.png())).convert("RGB"))
    token = replace(next(iter(view.records.values())), picture=None)
    maps = View({"": {"example 1/encoder.layers.0.self_attn": token}}).png()
    assert picture.shape != np.asarray(Image.open(BytesIO(maps)).convert("RGB")).shape


@NEEDS_CHROMIUM
def test_the_arrow_keys_reach_every_query(browser: Browser, tmp_path: Path) -> None:
    images = torch.rand(1, 3, 32, 48)
    torch.manual_seed(0)
    model = VisionTransformer(patches=96)
    browser.open(attention_lab.show(model, images, images=images).save(tmp_path / "page.html").as_uri())
    shown = "[...document.querySelectorAll('.al-figure canvas')].length"
    assert browser.run(PICTURE) == "Picture" and browser.run(shown) == 2
    texts = browser.run(DRAWN)
    assert any("queries 1 to 60 of 97" in text for text in texts) and {"token 1", "r4c10"} <= {*texts}
    for _ in range(61):
        browser.press("ArrowDown")
    texts = browser.run(DRAWN)
    assert any("queries 61 to 97 of 97" in text for text in texts) and {"r4c11", "r7c11"} <= {*texts}
    assert "token 1" not in texts
    browser.press("ArrowUp")
    assert any("queries 1 to 60 of 97" in text for text in browser.run(DRAWN))
    assert not browser.complaints()


DARKEST = """(() => {
  const base = document.querySelector('.al-base'), over = document.querySelector('.al-over');
  const { width, height } = base, ratio = width / base.clientWidth;
  const pixels = new Uint32Array(base.getContext('2d').getImageData(0, 0, width, height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const light = (pixel) => (pixel & 255) + ((pixel >> 8) & 255) + ((pixel >> 16) & 255);
  const large = [...counts].filter(([pixel, count]) => count > 2000 && pixel >>> 24);
  const dark = large.sort(([one], [two]) => light(one) - light(two))[0][0];
  const places = [...pixels.keys()].filter((at) => pixels[at] === dark);
  const middle = places[Math.floor(places.length / 2)];
  const { left, top } = over.getBoundingClientRect();
  const [x, y] = [(middle % width) / ratio + left, Math.floor(middle / width) / ratio + top];
  over.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y, bubbles: true }));
  const text = () => document.querySelector('.al-main').innerText;
  return new Promise((done) => setTimeout(() => done([x, y, text()]), 200));
})()"""
"""Point at the middle of the largest dark area, and say where it is, and what the page says."""


@NEEDS_CHROMIUM
def test_a_patch_is_drawn_and_read_where_it_is(browser: Browser, tmp_path: Path) -> None:
    places = {}
    for key in range(6):
        weights = np.full((1, 1, 6), 0.01, np.float32)
        weights[..., key] = 0.95
        view = attention_lab.show(weights, ["all"], images=np.zeros((1, 4, 6)), patch_size=2)
        browser.open(view.save(tmp_path / f"{key}.html").as_uri())
        *places[key], text = browser.run(DARKEST)
        assert f"r{key // 3}c{key % 3}" in text and "0.95" in text
    (x, y), side = places[0], places[1][0] - places[0][0]
    assert side > 20
    for key, place in places.items():
        row, column = divmod(key, 3)
        assert place == pytest.approx([x + side * column, y + side * row], abs=3)
