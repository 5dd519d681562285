"""Attention to the patches of images: which key is which patch, and what is drawn of it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from attention_lab.tensorboard_plugin import AttentionRecord, decode, encode
from attention_lab.tensorboard_plugin.image_patches import (
    BatchImages,
    by_head,
    grey_pictures,
    over_image,
    patch_size_of,
)
from attention_lab.viz import Overlay

RNG = np.random.default_rng(0)
PIXELS = RNG.integers(0, 256, (4, 6)).astype(np.uint8)  # two rows and three columns of patches of 2 x 2
PATCHES = ["r0c0", "r0c1", "r0c2", "r1c0", "r1c1", "r1c2"]  # as a model reads them


def record(queries: int, tokens: int = 1, **more: Any) -> AttentionRecord:
    keys = 6 + tokens
    weights = RNG.dirichlet(np.ones(keys), (2, queries)).astype(np.float32)
    names = [str(number) for number in range(1, queries + 1)]
    return AttentionRecord(weights, names, [str(key) for key in range(keys)], **more)


@pytest.mark.parametrize("tokens", [0, 1, 5])
def test_each_patch_lies_where_it_is_in_the_image(tokens: int) -> None:
    one = record(6 + tokens, tokens)
    found = over_image(one, PIXELS, 2)
    assert found.picture is not None and (found.picture.pixels == PIXELS).all() and found.picture.cell == 2
    assert list(found.queries) == [*(f"token {n}" for n in range(1, tokens + 1)), *PATCHES]
    assert list(found.keys) == PATCHES and (found.weights == one.weights[..., tokens:]).all()
    again = decode(*encode(found)).picture
    assert again is not None and again.by_row and (again.pixels == PIXELS).all()
    overlay = Overlay(PIXELS / 255, 2, found.weights[0], by_row=True)
    for number, name in enumerate(PATCHES):
        row, column = int(name[1]), int(name[3])
        assert overlay.on_grid(found.weights[0, 0])[row, column] == one.weights[0, 0, tokens + number]


def test_masks_and_gold_keys_move_with_the_patches() -> None:
    mask = RNG.random((2, 3, 7)) < 0.5
    one = record(3, mask=mask, gold=np.array([[0, 2], [-1, 6], [1, -1]]))
    found = over_image(one, PIXELS, 2)
    assert found.mask is not None and found.gold is not None
    assert (found.mask == mask[..., 1:]).all()
    assert found.gold.tolist() == [[-1, 1], [-1, 5], [0, -1]]  # the class token is no patch
    assert list(found.queries) == ["1", "2", "3"]


def test_tokens_after_the_patches_are_left_out_too() -> None:
    """Such as the detection tokens of a YOLOS model, whose number is in its configuration."""
    one = record(12, 6, mask=RNG.random((2, 12, 12)) < 0.5, gold=np.arange(-1, 11)[:, None])
    model = nn.Sequential(nn.Conv2d(3, 4, 2, stride=2))
    model.config = SimpleNamespace(num_detection_tokens=4)  # type: ignore[assignment]
    found = BatchImages(PIXELS[None], model=nn.ModuleList([model])).below(0, one)
    assert (found.weights == one.weights[..., 2:8]).all() and list(found.keys) == PATCHES
    tokens = [f"token {number}" for number in range(1, 7)]
    assert list(found.queries) == [*tokens[:2], *PATCHES, *tokens[2:]]
    assert found.gold is not None and found.gold[:, 0].tolist() == [-1, -1, -1, *range(6), -1, -1, -1]
    assert one.mask is not None and found.mask is not None and (found.mask == one.mask[..., 2:8]).all()
    assert (by_head(found).weights[0] == found.weights[:, 0]).all()
    assert BatchImages(PIXELS[None], model=model).below(0, record(9, 3)).picture is None


def test_queries_with_labels_of_their_own_keep_them() -> None:
    one = replace(record(7), queries=list("abcdefg"))
    assert list(over_image(one, PIXELS, 2).queries) == list("abcdefg")
    assert list(over_image(record(6), PIXELS, 2).queries) == PATCHES


def test_other_attention_is_left_as_it_is() -> None:
    for keys in (1, 5, 6 + 7, 6 + 17):
        one = record(2, keys - 6)
        assert over_image(one, PIXELS, 2) is one
    assert over_image(record(2), PIXELS, 7).picture is None  # a patch larger than the image


def test_a_grid_is_not_guessed_where_the_model_may_have_padded_the_image() -> None:
    edge = np.pad(PIXELS, ((0, 1), (0, 0)))  # two rows of patches, or three
    for tokens in (0, 1, 2):
        assert over_image(record(2, tokens), edge, 2).picture is not None
    for tokens in (3, 4):  # or none and one, before the nine patches of a padded image
        assert over_image(record(2, tokens), edge, 2).picture is None


def test_causal_attention_is_that_of_a_text() -> None:
    images = BatchImages(PIXELS[None], 2)
    one = record(7)
    text = replace(one, weights=np.tril(one.weights))
    assert images.below(0, text) is text
    patches = replace(one, weights=np.tril(np.triu(one.weights)))  # each attends to itself
    assert images.below(0, patches).picture is not None


def test_pixels_outside_the_patches_are_cut_off_and_large_images_halved() -> None:
    edge = np.pad(PIXELS, ((0, 1), (0, 1)))
    found = over_image(record(2), edge, 2).picture
    assert found is not None and (found.pixels == PIXELS).all()
    large = over_image(record(2), np.kron(PIXELS, np.ones((300, 300), np.uint8)), 600).picture
    assert large is not None and large.pixels.shape == (300, 450) and large.cell == 150
    assert (large.pixels[::75, ::75] == PIXELS).all()


def test_images_of_any_form_become_ink() -> None:
    grey = RNG.random((2, 4, 6)).astype(np.float32)
    grey[:, 0, 0], grey[:, 0, 1] = 0, 1
    expected = np.rint(255 * (1 - grey))
    colours = np.repeat(grey[:, None], 3, 1)
    opaque = np.concatenate([colours, np.ones((2, 1, 4, 6), np.float32)], 1)
    for images in (
        grey,
        torch.tensor(grey[:, None]) * 7 - 3,
        torch.tensor(colours).requires_grad_(),
        np.moveaxis(colours, 1, 3),
        opaque,
        np.moveaxis(opaque, 1, 3),
        grey.tolist(),
    ):
        assert np.abs(np.stack(grey_pictures(images)) - expected).max() <= 1
    photos = [Image.fromarray(np.rint(one * 255).astype(np.uint8)).convert("RGB") for one in grey]
    assert np.abs(np.stack(grey_pictures(photos)) - expected).max() <= 1
    assert not grey_pictures(np.full((1, 4, 6), 0.3))[0].any()  # an image of one shade is paper
    for wrong in (grey[0], grey[None, :, None], np.zeros((1, 2, 4, 6)), np.zeros((0, 4, 6)), "cat.png"):
        with pytest.raises(ValueError, match=r"^images (must have the shape|is not an array of numbers)"):
            grey_pictures(wrong)


def test_all_heads_of_a_token_are_one_picture() -> None:
    own = over_image(record(7, mask=RNG.random((2, 7, 7)) < 0.7), PIXELS, 2)
    found = by_head(own)
    assert found.weights.shape == (1, 2, 6) and (found.weights[0] == own.weights[:, 0]).all()
    assert (found.mask == own.attended[:, 0]).all() and list(found.queries) == ["head 1", "head 2"]
    assert found.input == "token 1"
    plain = over_image(record(6, 0), PIXELS, 2)
    mean = by_head(replace(plain, heads=[3, 5]))
    assert np.allclose(mean.weights[0], plain.weights.mean(1)) and mean.input == "mean over the patches"
    assert list(mean.queries) == ["head 4", "head 6"]
    pooled = over_image(replace(record(1), input="a cat"), PIXELS, 2)
    assert (by_head(pooled).weights[0] == pooled.weights[:, 0]).all() and by_head(pooled).input == "a cat"
    words = replace(record(7), queries=list("a dog's"))  # as many as there are patches, by chance
    for other in (record(7), over_image(record(3), PIXELS, 2), over_image(words, PIXELS, 2)):
        assert by_head(other) is other


def test_the_patches_of_a_model_are_those_of_its_first_convolution_without_overlap() -> None:
    blocks = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(3, 4, 16, stride=16), nn.Conv2d(4, 4, 2, stride=2))
    assert patch_size_of(blocks) == 16
    assert patch_size_of(nn.Sequential(nn.Conv2d(3, 4, (8, 4), stride=(8, 4)))) is None
    assert patch_size_of(nn.Sequential(nn.Conv2d(3, 4, 1), nn.MaxPool2d(2))) is None
    assert patch_size_of([1.0]) is None
    assert BatchImages(PIXELS[None], model=blocks).side == BatchImages(PIXELS[None], np.int64(16)).side == 16


@pytest.mark.parametrize("size", [0, -2, 2.0, True, "16"])
def test_a_patch_size_is_a_number_of_pixels(size: Any) -> None:
    with pytest.raises(ValueError, match=r"^patch_size=.* must be a whole number of pixels, such as 16$"):
        BatchImages(PIXELS[None], size)
    with pytest.raises(ValueError, match=r"^images need patch_size, the side of a patch in pixels"):
        BatchImages(PIXELS[None])


def test_images_that_do_not_fit_are_named() -> None:
    images = BatchImages(PIXELS[None], 2)
    assert images.below(0, record(7)).picture is not None
    assert images.below(3, record(7, 30)).picture is None  # windows, perhaps
    with pytest.raises(ValueError, match=r"^images are given for 1 of 2 or more examples: give one"):
        images.below(1, record(7))
    images.check_used([record(7, 30), images.below(0, record(7))])
    said = (
        "images of 4 x 6 pixels have 6 patches of 2 x 2, but the attentions have 5, 36 keys: give the right"
    )
    with pytest.raises(ValueError, match=said):
        images.check_used([record(7, 30), record(7, -1)])
