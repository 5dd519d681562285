"""The options of data sets of the user's images; without torch."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

from attention_lab.data.reading.files import LONGEST_SIDE, MOST_PATCHES, Row
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Normalization, Notation, TextSplit
from attention_lab.data.specs.base import ColumnsSpec
from attention_lab.data.specs.option_checks import check_at_least, check_choice
from attention_lab.errors import LabError


@dataclass(frozen=True, kw_only=True)
class ImageFilesSpec(ColumnsSpec):
    """The options of `ImageFiles`.

    Attributes:
        target_split: how to split a text into symbols, "characters" or "spaces".
        target_normalization: Unicode form "none", "NFC", "NFD" or "NFKD".
        height: see `ImageTransductionData`.
        cell: see `ImageTransductionData`.
    """

    COLUMNS = ("image", "text")

    target_split: TextSplit = "characters"
    target_normalization: Normalization = "none"
    height: int = 32
    cell: int = 8
    batch_size: int | None = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice(get_args(TextSplit), target_split=self.target_split)
        check_choice(get_args(Normalization), target_normalization=self.target_normalization)

    def load(self) -> Splits[list[Row]]:
        """Read the files, but not the images that they name."""
        return self.read(key=lambda row: row.first.strip())

    def symbols(self, row: Row) -> Iterable[str]:
        """See `ColumnsSpec`."""
        return self.target.tokens(row.second)

    @property
    def target(self) -> Notation:
        """How texts are split into symbols."""
        return Notation(self.target_split, self.target_normalization)


@dataclass(frozen=True, kw_only=True)
class LabelledImagesSpec(ColumnsSpec):
    """The options of `LabelledImages`.

    Attributes:
        image_size: side in pixels of the square to which each image is scaled.
        patch_size: side in pixels of the square patches; it divides `image_size`.
        colour: whether images are read in colour, or in shades of grey.
    """

    COLUMNS = ("label", "image")

    image_size: int = 32
    patch_size: int = 4
    colour: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(1, image_size=self.image_size, patch_size=self.patch_size)
        if self.image_size > LONGEST_SIDE:
            raise LabError(f"data.image_size={self.image_size}: choose at most {LONGEST_SIDE}")
        if self.image_size % self.patch_size:
            raise LabError(
                f"data.image_size={self.image_size}: give a multiple of data.patch_size={self.patch_size}"
            )
        if (self.image_size // self.patch_size) ** 2 > MOST_PATCHES:
            raise LabError(
                f"data.image_size={self.image_size}: an image has more than {MOST_PATCHES:,} patches with "
                f"data.patch_size={self.patch_size}: choose larger patches or smaller images"
            )

    def load(self) -> Splits[list[Row]]:
        """Read the files, but not the images that they name."""
        return self.read(key=lambda row: row.second.strip())

    def symbols(self, row: Row) -> Iterable[str]:
        """See `ColumnsSpec`."""
        return (row.first.strip(),)
