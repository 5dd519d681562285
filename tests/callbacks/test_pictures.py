"""From observations to named pictures and files."""

from pathlib import Path

import pytest
import torch
from PIL import Image

from attention_lab.callbacks.pictures import attention_pictures, readable, save_pictures
from attention_lab.tasks import Observation


def _observation(text: str = "ab") -> Observation:
    weights = torch.softmax(torch.randn(2, 3, 2), -1)
    return Observation(
        input=text,
        output="x y",
        expected="",
        weights={"encoder.layers.0.attention.attention": weights, "decoder.attention": weights[:1]},
        masks={
            "encoder.layers.0.attention.attention": torch.ones(2, 3, 2, dtype=torch.bool),
            "decoder.attention": torch.ones(1, 3, 2, dtype=torch.bool),
        },
        queries=["x", "y", "</s>"],
        keys=["a", "b"],
        gold=torch.tensor([0, 1, -1]),
    )


@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("encoder.layers.0.attention.attention", "encoder layer 1"),
        ("encoder.layers.11.attention.attention", "encoder layer 12"),
        ("decoder.attention", "decoder"),
        ("attention", "attention"),
    ],
)
def test_places_have_readable_names(module: str, place: str) -> None:
    assert readable(module) == place


def test_one_picture_for_each_attention() -> None:
    assert [place for place, _ in attention_pictures(_observation())] == ["encoder layer 1", "decoder"]


@pytest.mark.parametrize("text", ["ab", "a/b\\c:../..", "", "\x00", "word " * 2000, "日本語", "<script>"])
def test_files_are_named_after_short_texts_and_stay_in_their_folder(text: str, tmp_path: Path) -> None:
    folder = tmp_path / "pictures"
    paths = save_pictures([_observation(text)], folder)
    assert sorted(paths) == sorted(folder.iterdir())
    assert [
        path.name.endswith(end)
        for path, end in zip(paths, ("encoder-layer-1.png", "decoder.png"), strict=True)
    ]
    assert all(len(path.name) < 80 for path in paths)
    for path in paths:
        with Image.open(path) as picture:
            assert picture.size[0] > 100


def test_a_word_is_in_its_file_name(tmp_path: Path) -> None:
    assert save_pictures([_observation("it's")], tmp_path)[1].name == "01_it-s_decoder.png"
