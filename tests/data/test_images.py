"""Images of text: what is in which split, gold cells, the codec, and files."""

import random
import re
import zlib
from itertools import product
from pathlib import Path
from struct import pack

import pytest
import torch
from PIL import Image
from small_data import whole
from torch import Tensor

from attention_lab.data import Digits, DigitStrips, ImageFiles, images
from attention_lab.data.reading import image_files
from attention_lab.data.reading.codecs import ImageCodec, codec_from_state
from attention_lab.data.reading.codecs import image as image_codec
from attention_lab.data.reading.image_files import Images, read_image
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.errors import LabError
from attention_lab.sizes import ImageSizes
from attention_lab.special_symbols import EOS, PAD

SMALL = {"train_size": 30, "validation_size": 20, "test_size": 25}
EXAMPLE = Path(__file__).parents[2] / "data" / "image_files_example.tsv"
CODEC = ImageCodec(4, 2, Tokenizer(Notation("characters"), Vocabulary(["a", "b"])))


def squares(images: Tensor) -> set[tuple[float, ...]]:
    """Every 8 x 8 square in images [B, H, W] that holds anything, as its pixels."""
    found = images.unfold(1, 8, 1).unfold(2, 8, 1).flatten(3).flatten(0, 2).unique(dim=0)
    return {tuple(square) for square in found.tolist()}


def test_strips_are_padded_images() -> None:
    data = DigitStrips(**SMALL)
    data.setup()
    assert data.sizes == ImageSizes(height=12, cell=4, target_vocabulary=14)
    assert [len(part) for part in data.splits] == [30, 20, 25]
    batch = whole(data.splits.train)
    assert (batch.source.dtype, batch.source.shape[:2]) == (torch.float32, (30, 12))
    assert (batch.source.min(), batch.source.max()) == (0, 1)
    assert (batch.source_lengths % 4 == 0).all()
    assert batch.source.shape[2] == batch.source_lengths.max()
    beyond = torch.arange(batch.source.shape[2]) >= batch.source_lengths.unsqueeze(1)
    assert not batch.source.mT[beyond].any()
    assert set((batch.target_lengths - 1).tolist()) == {2, 3, 4, 5}
    assert batch.references[:, 0].equal(batch.target)
    assert batch.alignment.shape == (*batch.target.shape, 2 * 2)  # the cells of a digit


@pytest.fixture(scope="module")
def pools() -> list[dict[tuple[float, ...], str]]:
    """The digits of training, validation and test: pixels to name."""
    digits = Digits("rows")
    digits.setup()
    batches = digits.splits.map(whole)
    return [
        {
            tuple(pixels): str(label)
            for pixels, label in zip(inputs.flatten(1).tolist(), labels.tolist(), strict=True)
        }
        for inputs, _, labels, _ in batches
    ]


def test_digits_of_a_strip_are_those_of_its_part(pools: list[dict[tuple[float, ...], str]]) -> None:
    strips = DigitStrips(**SMALL, gap=2)
    for own, part in enumerate(strips.splits):
        batch = whole(part)
        for image, target in zip(batch.source, batch.target, strict=True):
            seen = squares(image.unsqueeze(0))
            found = [sorted(pool[square] for square in seen & pool.keys()) for pool in pools]
            assert set(found[own]) == set(strips.codec.decode(target))
            assert not any(found[other] for other in {0, 1, 2} - {own})


def test_digits_stand_apart_by_the_gaps_that_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random()
    monkeypatch.setattr(generator, "randint", lambda low, high: high)
    strip = DigitStrips(**SMALL, gap=1)._strip(torch.ones(2, 8, 8), ["1", "2"], generator)
    assert "".join(map(str, strip.image.amax(0).int().tolist())) == "01111111101111111100"  # of whole cells


@pytest.mark.parametrize("cell", [1, 2, 4, 8])
def test_gold_cells_are_in_their_digit(cell: int, pools: list[dict[tuple[float, ...], str]]) -> None:
    data, known = DigitStrips(**SMALL, cell=cell, height=16), pools[0]
    data.setup()
    batch = whole(data.splits.train)
    rows = 16 // cell
    checked = 0
    for image, target, gold in zip(
        batch.source, batch.target, batch.alignment.view(*batch.target.shape, -1), strict=True
    ):
        assert gold[target <= EOS].eq(-1).all()
        for symbol, cells in zip(data.codec.decode(target), gold.tolist(), strict=False):
            assert len(set(cells)) == (8 // cell) ** 2
            # Some 8 x 8 square that holds the centre of every one of them is a digit of that name.
            places = [(c % rows * cell, c // rows * cell) for c in cells]
            (top, left), (low, right) = min(places), max(places)
            corners = product(
                range(low + cell // 2 - 7, top + cell // 2 + 1),
                range(right + cell // 2 - 7, left + cell // 2 + 1),
            )
            inside = [image[y : y + 8, x : x + 8].flatten().tolist() for y, x in corners if y >= 0 and x >= 0]
            assert symbol in [known.get(tuple(square)) for square in inside]
            checked += 1
    assert checked == int((batch.target > EOS).sum())


def test_strips_come_from_their_seed_and_not_from_the_sizes() -> None:
    one, same, other = (
        DigitStrips(**SMALL),
        DigitStrips(**SMALL | {"train_size": 7}),
        DigitStrips(**SMALL, seed=1),
    )
    assert all(
        a.equal(b) for a, b in zip(whole(one.splits.test)[:6], whole(same.splits.test)[:6], strict=True)
    )
    assert not whole(one.splits.test).target.equal(whole(other.splits.test).target)


def test_images_are_padded_with_paper() -> None:
    images = Images([torch.ones(2, 3), torch.ones(2, 1)])
    assert images[torch.tensor([1, 0])].tolist() == [[[1, 0, 0], [1, 0, 0]], [[1, 1, 1], [1, 1, 1]]]
    assert images[torch.tensor([1])].shape == (1, 2, 1)
    assert images.lengths.tolist() == [3, 1]


def save(path: Path, size: tuple[int, int], grey: int = 255, mode: str = "L") -> str:
    Image.new("L", size, grey).convert(mode).save(path)
    return str(path)


def test_the_codec(tmp_path: Path) -> None:
    assert codec_from_state(CODEC.state()) == CODEC
    lines = [save(tmp_path / "a.png", (10, 8), 0), save(tmp_path / "b.png", (4, 4), 51, "RGB")]
    batch = CODEC.encode([lines[0], f" {lines[1]}\n"])
    assert batch.source.shape == (2, 4, 6)
    assert batch.source_lengths.tolist() == [6, 4]  # 5 pixels are two cells and a half
    torch.testing.assert_close(
        batch.source[:, 0], torch.tensor([[1, 1, 1, 1, 1, 0], [0.8, 0.8, 0.8, 0.8, 0, 0]])
    )
    assert batch.target.tolist() == [[EOS], [EOS]]
    assert (batch.references.shape, batch.alignment.tolist()) == ((2, 0, 1), [[-1], [-1]])
    assert CODEC.source_labels(batch.source[0]) == ["r0c0", "r1c0", "r0c1", "r1c1", "r0c2", "r1c2"]
    assert CODEC.source_text(batch.source[1, :, :4]) == "image of 4 x 4"
    assert (CODEC.decode([5, 4, EOS]), CODEC.target.labels([5, EOS, PAD])) == ("ba", ["b", "</s>"])
    assert CODEC.sizes == ImageSizes(4, 2, 6)


def test_transparent_is_white(tmp_path: Path) -> None:
    Image.new("RGBA", (4, 4), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    assert not CODEC.encode([str(tmp_path / "clear.png")]).source.any()


def test_bad_images_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = save(tmp_path / "good.png", (40, 40))
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "cut.png").write_bytes((tmp_path / "good.png").read_bytes()[:60])
    save(tmp_path / "wide.png", (5000, 4))
    cases = {
        "": "input 2: empty; give the path of an image",
        "none.png": "input 2: none.png: No such file or directory (looked for it from ",
        "text.png": "input 2: text.png is not an image; use PNG, JPEG or a similar format",
        "cut.png": "input 2: cut.png: the image is damaged",
        "wide.png": "input 2: wide.png is 1250 times as wide as it is high; cut it into pieces",
    }
    monkeypatch.chdir(tmp_path)
    for line, expected in cases.items():
        with pytest.raises(LabError, match=f"^{re.escape(expected)}") as caught:
            CODEC.encode([good, line])
        assert "\n" not in str(caught.value)
        assert ("looked for it from" in str(caught.value)) == (line == "none.png")
    with pytest.raises(LabError, match="no lines"):
        CODEC.encode([])
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(LabError, match=r"good\.png has too many pixels"):
        CODEC.encode([good])


def test_images_take_no_more_memory_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("L", (4, 4), "white").save(tmp_path / "a.png")
    (tmp_path / "x.tsv").write_text("a.png\tx\n" * 5)
    with pytest.raises(LabError, match=r"data.height=5000: choose at most 4096"):
        read_image(tmp_path / "a.png", 5000, 1)
    monkeypatch.setattr(image_files, "MOST_PIXELS", 16 * 4)
    data = ImageFiles(*[str(tmp_path / "x.tsv")] * 3, height=4, cell=4)
    with pytest.raises(LabError, match=r"x.tsv:5: the images up to here have more than 64 pixels in all"):
        data.examples()


def test_an_image_has_a_limited_number_of_cells(tmp_path: Path) -> None:
    """A checkpoint chooses height and cell: with 4096 and 4, one image took more than 8 GB."""
    path = tmp_path / "a.png"
    Image.new("L", (64, 64), "white").save(path)
    assert read_image(path, 724, 4).shape == (724, 724)
    with pytest.raises(
        LabError, match=r"a.png has more than 32,768 cells with data.height=728 and data.cell=4: choose"
    ):
        read_image(path, 728, 4)


def test_an_image_of_very_many_scans_is_not_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte of them can take a minute."""
    path = tmp_path / "a.jpg"
    Image.linear_gradient("L").save(path, progressive=True)
    found = read_image(path, 16, 8)
    content = path.read_bytes()
    last = content[content.rindex(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + last * 20 + content[-2:])
    assert read_image(path, 16, 8).equal(found)
    path.write_bytes(content[:-2] + last * 500 + content[-2:])
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("it is decoded"))
    with pytest.raises(LabError, match=r"a.jpg has more than 500 scans; save it as PNG$"):
        read_image(path, 16, 8)


def test_a_small_image_in_an_enormous_tile_is_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tile is decoded as a whole: two gigabytes for a file of two megabytes."""
    path = tmp_path / "a.tif"

    def write(side: int) -> None:
        content = zlib.compress(bytes(64 * 64))
        tags = {256: 8, 257: 8, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 325: len(content)}
        tags[324] = 8 + 2 + 12 * 10 + 4  # where the content begins
        entries = b"".join(pack("<HHII", tag, 4, 1, tags[tag]) for tag in sorted(tags))
        path.write_bytes(b"II*\0" + pack("<IH", 8, 10) + entries + bytes(4) + content)

    write(64)
    assert read_image(path, 8, 8).equal(torch.ones(8, 8))
    write(1 << 15)
    monkeypatch.setattr(Image.Image, "convert", lambda *_: pytest.fail("it is decoded"))
    with pytest.raises(LabError, match=r"a.tif has too many pixels; scale it down$"):
        read_image(path, 8, 8)


def test_an_image_that_many_lines_name_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Path] = []
    save(tmp_path / "a.png", (4, 4))
    (tmp_path / "b.png").symlink_to("a.png")
    for module in (images, image_codec):
        monkeypatch.setattr(module, "read_image", lambda path, **_: read.append(path) or torch.zeros(4, 4))
    (tmp_path / "x.tsv").write_text("a.png\tx\n./a.png\ty\nb.png\tz\nc\0.png\tz\n")
    data = ImageFiles(*[str(tmp_path / "x.tsv")] * 3, height=4, cell=4)
    assert [one.target for one in data.examples().train] == [("x",), ("y",), ("z",), ("z",)]
    assert len(read) == 2
    CODEC.encode([f"{tmp_path}/a.png", f"{tmp_path}/./a.png", f" {tmp_path}/b.png"])
    assert len(read) == 3


def test_a_path_is_an_input_as_well() -> None:
    assert CODEC.as_line(EXAMPLE) == CODEC.as_line(str(EXAMPLE)) == str(EXAMPLE)
    with pytest.raises(LabError, match="is of the type int, not the path of an image"):
        CODEC.as_line(3)


def test_own_images() -> None:
    data = ImageFiles(file=str(EXAMPLE), height=12, cell=4)
    data.setup()
    assert [len(part) for part in data.splits] == [10, 1, 1]
    texts = dict(line.split("\t") for line in EXAMPLE.read_text().splitlines())
    batch = whole(data.splits.train)
    assert {data.codec.decode(ids) for ids in batch.target} <= set(texts.values())
    assert batch.alignment.eq(-1).all()
    for path, text in texts.items():
        encoded = data.codec.encode([str(EXAMPLE.parent / path)])
        rows = [row for row in range(10) if data.codec.decode(batch.target[row]) == text]
        for row in rows:
            assert batch.source[row, :, : encoded.source.shape[2]].equal(encoded.source[0])


def test_the_codec_of_other_cells_is_refused() -> None:
    data, other = DigitStrips(**SMALL, cell=2), DigitStrips(**SMALL)
    data.codec = other.codec if other.splits else CODEC
    with pytest.raises(LabError, match=r"the model needs data\.cell=4, but this data has 2"):
        data.setup()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"cell": 3}, "data.cell=3: give a power of two, such as 4"),
        ({"cell": 16, "height": 16}, "data.cell=16: give 1, 2, 4 or 8, the side of a digit in pixels"),
        ({"height": 10}, "data.height=10: give a multiple of data.cell=4"),
        ({"height": 4}, "data.height=4: give a whole number of at least 8"),
        ({"min_digits": 4, "max_digits": 3}, "data.max_digits=3: give a whole number of at least 4"),
        ({"gap": -1}, "data.gap=-1: give a whole number of at least 0"),
    ],
)
def test_bad_options(options: dict[str, int], expected: str) -> None:
    with pytest.raises(LabError, match=re.escape(expected)):
        DigitStrips(**options)
