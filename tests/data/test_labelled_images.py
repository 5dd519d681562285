"""Labelled images: how they are read, cut into patches and put together again, and what does not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from small_data import whole

from attention_lab.data import ImageCodec, LabelledImageCodec, LabelledImages, codec_from_state
from attention_lab.data.reading import image_files
from attention_lab.data.reading.image_files import read_square
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.sizes import ClassificationSizes

RNG = np.random.default_rng(0)
PHOTOS = RNG.integers(0, 256, (12, 6, 6, 3)).astype(np.uint8)
"""RGB; each is scaled to itself."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve photos in a folder, the list of their labels outside of it, and a grey one."""
    (tmp_path / "photos").mkdir()
    for number, photo in enumerate(PHOTOS):
        Image.fromarray(photo).save(tmp_path / "photos" / f"{number}.png")
    lines = "".join(f"{'cat' if n % 2 else ' dog'}\tphotos/{n}.png \n" for n in range(12))
    (tmp_path / "mine.tsv").write_text(lines)
    Image.fromarray(PHOTOS[0, ..., 0]).save(tmp_path / "grey.png")
    return tmp_path


def data_of(folder: Path, **options: Any) -> LabelledImages:
    data = LabelledImages(file=str(folder / "mine.tsv"), image_size=6, patch_size=2, **options)
    data.setup()
    return data


def test_images_of_the_same_name_are_named_with_their_folders(folder: Path) -> None:
    """If each class has a folder, its images may be numbered; in a single folder, the name is enough."""
    places = [f"photos/{label}/{number}.png" for label in ("cat", "dog") for number in range(6)]
    for number, place in enumerate(places):
        (folder / place).parent.mkdir(exist_ok=True)
        (folder / "photos" / f"{number}.png").rename(folder / place)
    lines = [f"{Path(place).parent.name}\t{place}\n" for place in places]
    (folder / "mine.tsv").write_text("".join(lines))
    names = [name for part in data_of(folder).splits for name in whole(part).texts]
    assert sorted(names) == [place.removeprefix("photos/") for place in places]


def test_each_patch_is_a_vector_of_its_pixels(folder: Path) -> None:
    data = data_of(folder)
    assert data.sizes == ClassificationSizes(2, 9, features=12, grid=(3, 3))
    assert data.codec.labels == ["cat", "dog"] and not data.shared
    assert [len(part) for part in data.splits] == [10, 1, 1]
    mean, deviation = (torch.tensor(one).view(3, 1, 1) for one in (data.codec.mean, data.codec.deviation))
    seen = set()
    for part in data.splits:
        batch = whole(part)
        assert batch.lengths.tolist() == [9] * len(part)
        for name, label, patches in zip(batch.texts, batch.labels.tolist(), batch.inputs, strict=True):
            number = int(name.removesuffix(".png"))
            seen.add(number)
            assert data.codec.decode(label) == ("cat" if number % 2 else "dog")
            photo = torch.tensor(PHOTOS[number]).permute(2, 0, 1) / 255  # channels first
            for row in range(3):
                for column in range(3):
                    cut = photo[:, 2 * row : 2 * row + 2, 2 * column : 2 * column + 2]
                    expected = ((cut - mean) / deviation).flatten()
                    torch.testing.assert_close(patches[3 * row + column], expected, atol=1e-5, rtol=1e-5)
    assert len(seen) == 12


def test_channels_are_standardised_on_the_training_split(folder: Path) -> None:
    data = data_of(folder)
    names = whole(data.splits.train).texts
    pixels = np.stack([PHOTOS[int(name.removesuffix(".png"))] for name in names]) / 255
    assert data.codec.mean == pytest.approx(pixels.mean((0, 1, 2)))
    assert data.codec.deviation == pytest.approx(pixels.std((0, 1, 2)))
    for name in ("photos/0.png", "photos/1.png"):
        Image.new("RGB", (6, 6), "navy").save(folder / name)
    (folder / "mine.tsv").write_text("a\tphotos/0.png\nb\tphotos/1.png\n")
    file = str(folder / "mine.tsv")
    plain = LabelledImages(file, file, file, image_size=6, patch_size=3)
    plain.setup()
    assert plain.codec.deviation == [1.0] * 3 and not whole(plain.splits.test).inputs.any()
    assert plain.shared  # the same images in every split


def test_an_image_is_put_together_from_its_patches(folder: Path) -> None:
    for colour in (True, False):
        codec = data_of(folder, colour=colour).codec
        batch = codec.encode([str(folder / "photos" / "3.png"), f" {folder}/grey.png "])
        shown = np.stack([codec.ink(one) for one in batch.inputs])
        grey = read_square(folder / "photos" / "3.png", 6, colour=colour).mean(0)
        assert np.abs(shown[0] - (255 - 255 * grey.numpy())).max() <= 1
        assert np.abs(shown[1] - (255.0 - PHOTOS[0, ..., 0])).max() <= 1
        assert batch.texts == ("3.png", "grey.png") and set(batch.labels.tolist()) == {-1}
        assert codec.token_labels(batch.inputs[0], 9)[:4] == ["r0c0", "r0c1", "r0c2", "r1c0"]
        assert codec.input_text(batch.inputs[0], 9) == "image of 6 x 6"
        assert codec_from_state(codec.state()) == codec


def test_images_of_any_form_become_squares(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    Image.fromarray(np.repeat(PHOTOS[0], 4, 1)).save(path)  # 24 x 6
    wide = read_square(path, 6, colour=True)
    assert np.abs(wide.permute(1, 2, 0).numpy() * 255 - PHOTOS[0]).max() <= 0.5
    for mode in ("L", "RGBA", "P", "CMYK", "1"):
        image = Image.fromarray(PHOTOS[0]).convert(mode)
        image.save(path := tmp_path / ("b.tiff" if mode == "CMYK" else "b.png"))
        assert read_square(path, 4, colour=True).shape == (3, 4, 4)
        assert read_square(path, 4, colour=False).shape == (1, 4, 4)
    Image.new("RGBA", (5, 5), (255, 0, 0, 0)).save(path := tmp_path / "b.png")
    assert read_square(path, 2, colour=True).eq(1).all()  # transparent: white


@pytest.mark.parametrize("colour", [True, False])
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB"])
def test_every_mode_is_read_as_if_laid_on_white(mode: str, colour: bool, tmp_path: Path) -> None:
    """Opaque images take a shorter way to the same pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (9, 9, 4), dtype=np.uint8)
    image = Image.fromarray(pixels)
    image = image if mode == "RGBA" else image.convert("LA" if mode == "LA" else "RGB").convert(mode)
    image.save(path := tmp_path / "a.tiff")
    white = Image.new("RGBA", image.size, "white")
    expected = Image.alpha_composite(white, Image.open(path).convert("RGBA")).convert(
        "RGB" if colour else "L"
    )
    read = read_square(path, 9, colour=colour).movedim(0, -1).squeeze(-1) * 255
    assert np.array_equal(read.round().numpy(), np.asarray(expected))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"image_size": 9, "patch_size": 2}, "data.image_size=9: give a multiple of data.patch_size=2"),
        ({"image_size": 2000}, "data.image_size=2000: choose at most 1024"),
        (
            {"image_size": 516},
            r"data\.image_size=516: an image has more than 16,384 patches with data.patch_size=4",
        ),
        ({"patch_size": 0}, "data.patch_size=0"),
    ],
)
def test_sizes_that_do_not_fit(options: dict[str, int], said: str) -> None:
    with pytest.raises(LabError, match=said):
        LabelledImages(file="x", **options)


def test_mistakes_in_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = folder / "mine.tsv"
    many = file.read_text()
    for line, said in {
        "cat\tphotos/no.png": r"mine\.tsv:13: .*photos/no\.png: No such file or directory",
        "cat\tmine.tsv": r"mine\.tsv:13: .*mine\.tsv is not an image; use PNG, JPEG or a similar format",
        "photos/1.png": r"mine\.tsv:13: .*label<TAB>image",
        "cat\t..": "mine.tsv:13: .*it is a directory",
    }.items():
        file.write_text(f"{many}{line}\n")
        with pytest.raises(LabError, match=said):
            data_of(folder)
    file.write_text(many.replace("cat", "dog"))
    with pytest.raises(LabError, match="every label is 'dog'; at least two are needed"):
        data_of(folder)
    file.write_text(many)
    monkeypatch.setattr(image_files, "MOST_PIXELS", 6 * 6 * 3 * 4)
    with pytest.raises(LabError, match=r"432 pixels in all: choose a smaller data\.image_size, or fewer"):
        data_of(folder)


def test_an_input_is_the_path_of_an_image(folder: Path) -> None:
    text = ImageCodec(4, 2, Tokenizer(Notation("characters"), Vocabulary(["a"])))
    for codec in (data_of(folder).codec, text):
        assert codec.as_line(Path("a.png")) == codec.as_line("a.png") == "a.png"
        with pytest.raises(LabError, match=r"^is of the type ndarray, not the path of an image$"):
            codec.as_line(PHOTOS[0])


def test_spaces_in_the_name_of_an_image(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spaces around a path, as in the other lines, are ignored."""
    photos, file = folder / "photos", folder / "mine.tsv"
    codec = data_of(folder).codec
    (photos / "1.png").rename(photos / " é 1.png ")
    file.write_text(file.read_text().replace("photos/1.png ", "photos/ é 1.png "), encoding="utf-8")
    assert data_of(folder).codec == codec
    monkeypatch.chdir(photos)
    inputs = codec.encode([" é 1.png ", " 2.png "]).inputs
    for number, patches in zip((1, 2), inputs, strict=True):
        photo = torch.tensor(PHOTOS[number]).permute(2, 0, 1) / 255
        torch.testing.assert_close(patches, codec.patches(photo))


def test_a_trained_model_needs_images_of_its_size(folder: Path) -> None:
    codec = data_of(folder).codec
    for option, other, told in (("image_size", 12, "12"), ("patch_size", 3, "3"), ("colour", False, "false")):
        options: dict[str, Any] = {"image_size": 6, "patch_size": 2, option: other}
        data = LabelledImages(test_file=str(folder / "mine.tsv"), **options)
        data.codec = codec
        with pytest.raises(LabError, match=f"the model needs data.{option}=.*, but this data has {told}$"):
            data.setup("test")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"deviation": [1.0, 0.0, 1.0]}, "needs a mean and a positive deviation for each of 1 or 3 channels"),
        ({"mean": [0.0, 0.0], "deviation": [1.0, 1.0]}, "needs a mean and a positive deviation for each"),
        ({"image_size": 1_000_000, "patch_size": 1}, "cuts images of 1000000 pixels into patches of 1"),
        ({"image_size": 258, "length": 129**2}, "cuts images into more than 16,384 patches"),
        ({"image_size": 7}, "cuts images of 7 pixels into patches of 2"),
        ({"patch_size": 0}, "cuts images of 6 pixels into patches of 0"),
        ({"length": 8}, "has 8 patches of 12 numbers, which its images do not have"),
        ({"features": 4}, "has 9 patches of 4 numbers, which its images do not have"),
        ({"answers": 2}, "has 2 answers, but an image has one label"),
        ({"labels": ["a", "a"]}, "has a label twice"),
        ({"image_size": "6"}, "has invalid values of image_size"),
    ],
)
def test_altered_codecs_are_refused(changed: dict[str, Any], said: str) -> None:
    images = [torch.rand(3, 6, 6)]
    state = LabelledImageCodec.of(["a", "b"], images, 2).state()
    with pytest.raises(LabError, match=said):
        codec_from_state(state | changed)


@pytest.mark.parametrize(
    ("images", "said"),
    [
        ([], "needs at least one image$"),
        ([torch.rand(3, 0, 0)], r"not \[3, 0, 0\]$"),
        ([torch.rand(2, 6, 6)], r"not \[2, 6, 6\]$"),
        ([torch.rand(3, 6, 8)], r"not \[3, 6, 8\]$"),
        ([torch.rand(3, 5, 5)], r"S a multiple of 2, not \[3, 5, 5\]$"),
        ([torch.rand(3, 6, 6), torch.rand(1, 6, 6)], "of one size"),
        (
            [np.zeros((3, 6, 6))],
            r"needs tensors \[C, S, S\] of one size, C = 1 or 3, S a multiple of 2, not .*ndarray",
        ),
        ([torch.rand(3, 6, 6) * 255], "with values from 0 to 1$"),
        ([torch.full((1, 6, 6), torch.nan)], "with values from 0 to 1$"),
    ],
)
def test_images_of_ones_own_are_checked(images: Any, said: str) -> None:
    with pytest.raises(LabError, match=said):
        LabelledImageCodec.of(["a", "b"], images, 2)
