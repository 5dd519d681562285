"""Images of text: DigitStrips, composed of real handwritten digits, and ImageFiles, your own images."""

import random
from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from attention_lab.argument_checks import kind_of
from attention_lab.constructor_options import options_of
from attention_lab.data.classification import digit_splits
from attention_lab.data.file_warnings.format_hints import space_hint
from attention_lab.data.file_warnings.long_lines import check_length
from attention_lab.data.file_warnings.overlaps import Keyed, shared_examples
from attention_lab.data.file_warnings.unseen_symbols import Terms, unseen_in_files
from attention_lab.data.reading.batches import Unseen
from attention_lab.data.reading.codecs import ImageCodec
from attention_lab.data.reading.datamodule import DataModule
from attention_lab.data.reading.datasets import Split, TransductionSplit
from attention_lab.data.reading.files import read_once
from attention_lab.data.reading.image_files import Images, content_of, read_image, read_listed, whole_cells
from attention_lab.data.reading.returned_checks import require, require_lists
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.reading.vocabulary import Notation, Tokenizer, Vocabulary
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.images import ImageFilesSpec
from attention_lab.data.specs.option_checks import check_at_least, check_trained_with
from attention_lab.data.specs.sampled import DigitStripsSpec
from attention_lab.errors import LabError
from attention_lab.sizes import ImageSizes
from attention_lab.special_symbols import EOS

DIGIT = 8
"""Side of a digit in pixels."""


class ImageExample(NamedTuple):
    """An image [H, W] of ink, the symbols in it, the gold cells of each symbol, if known, and its name."""

    image: Tensor
    target: Sequence[str]
    gold: Sequence[Sequence[int]] = ()
    name: str = ""


class ImageTransductionData(DataModule):
    """Images and the text in them.

    Args:
        height: height of all images in pixels.
        cell: side in pixels of the square cells into which a model divides an image; a power of two.
        batch_size: see `DataModule`.
    """

    codec: ImageCodec
    sizes: ImageSizes
    files: FileSpec | None = None
    """The files, if the images are the user's."""

    def __init__(self, height: int, cell: int, batch_size: int | None) -> None:
        super().__init__(batch_size)
        check_at_least(1, height=height, cell=cell)
        if cell & (cell - 1):
            raise LabError(f"data.cell={cell}: give a power of two, such as 4")
        if height % cell:
            raise LabError(f"data.height={height}: give a multiple of data.cell={cell}")
        self.height, self.cell = height, cell

    @abstractmethod
    def examples(self) -> Splits[list[ImageExample]]:
        """Read or compose the images."""

    @abstractmethod
    def make_tokenizer(self, train: Sequence[ImageExample]) -> Tokenizer:
        """The tokenizer that fits the texts of the training images."""

    def build(self) -> Splits[Split]:
        """See `DataModule`."""
        wanted = "ImageExample(image, target)"
        examples = require_lists(self, "examples", self.examples(), ImageExample, wanted)
        for one in chain(*examples):
            if problem := self._problem(one.image, one.target, one.gold):
                raise LabError(f"{type(self).__name__}.examples: {problem}")
        made = self.make_tokenizer(examples.train)
        tokenizer = require(self, "make_tokenizer", made, Tokenizer, "a Tokenizer")
        own = ImageCodec(self.height, self.cell, tokenizer)
        self.codec = self.given(ImageCodec) or own
        for option in ("height", "cell"):
            check_trained_with(option, getattr(self.codec, option), getattr(own, option))
        self.sizes = self.codec.sizes
        if self.files is not None:
            terms = Terms("symbol", "texts", effect="never generated")
            texts = examples.map(lambda split: [one.target for one in split])
            self.unseen = unseen_in_files(texts, self.codec.target.vocabulary, self.files, terms)
        return examples.map(self._split)

    def _problem(self, image: object, target: object, gold: object) -> str:
        """What is wrong with an example of a user-defined class; empty if nothing is."""
        wanted = f"an image must be a tensor [{self.height}, W], W a multiple of {self.cell}"
        if not isinstance(image, Tensor):
            return f"{wanted}, not {kind_of(image)}"
        if (
            image.dim() != 2
            or image.shape[0] != self.height
            or not image.numel()
            or image.shape[1] % self.cell
        ):
            return f"{wanted}, not {list(image.shape)}"
        if image.is_complex() or not bool(((image >= 0) & (image <= 1)).all()):
            return "the ink of an image must be from 0, paper, to 1"
        if not isinstance(target, Sequence):
            return f"a target must be a sequence of symbols, not {kind_of(target)}"
        if isinstance(gold, str) or not isinstance(gold, Sequence):
            return f"gold must be the cells of each symbol, not {kind_of(gold)}"
        for cells in gold:
            if isinstance(cells, str) or not isinstance(cells, Sequence):
                return f"gold must be the cells of each symbol, not {kind_of(cells)}"
        if gold and (len(gold) != len(target) or len(set(map(len, gold))) > 1):
            return "gold must have equally many cells for each symbol of the target, or be empty"
        last, count = max(chain(*gold), default=0), image.numel() // self.cell**2
        return f"gold has the cell {last}, but the image has 0 to {count - 1}" if last >= count else ""

    def _split(self, examples: Sequence[ImageExample]) -> TransductionSplit:
        vocabulary = self.codec.target.vocabulary
        targets = [[*vocabulary.ids(example.target), EOS] for example in examples]
        return TransductionSplit(
            sources=Images([example.image.detach().float() for example in examples]),
            targets=targets,
            references=[[target] for target in targets],
            alignments=[[cell for cells in example.gold for cell in cells] for example in examples],
            places=max((len(cells) for example in examples for cells in example.gold), default=1),
            unseen=[Unseen((), (vocabulary.unseen(example.target),)) for example in examples],
            names=[example.name for example in examples] if all(one.name for one in examples) else (),
        )


class DigitStrips(ImageTransductionData):
    """Strips of handwritten digits side by side (scikit-learn's, 8 x 8 pixels), and the digits as text.

    Gaps are 0 to `gap` pixels wide, and each digit has its own vertical position. The strips of a split use
    only digits from the same split of `data=digits`, so no training digit is in a test strip. They do not
    change with the sizes of the other splits.

    The gold cells of an output digit are those whose centre lies in its 8 x 8 square; every digit has the
    same number of gold cells.

    Args:
        options: see `DigitStripsSpec`.
    """

    @options_of(DigitStripsSpec)
    def __init__(self, spec: DigitStripsSpec) -> None:
        super().__init__(spec.height, spec.cell, spec.batch_size)
        check_at_least(DIGIT, height=spec.height)
        if spec.cell > DIGIT:
            raise LabError(f"data.cell={spec.cell}: give 1, 2, 4 or {DIGIT}, the side of a digit in pixels")
        self.spec = spec
        self.digits = range(spec.min_digits, spec.max_digits + 1)

    def examples(self) -> Splits[list[ImageExample]]:
        """Compose the strips of each split from its own digits."""
        from sklearn.datasets import load_digits  # slow to import

        source = load_digits()
        ink = torch.from_numpy(source.images).float() / 16
        train, validation, test = digit_splits(len(ink))

        def draw(name: str, rows: list[int], count: int) -> list[ImageExample]:
            """Sample strips of the digits in `rows`."""
            generator = random.Random(f"{self.spec.seed} {name}")
            drawn = (generator.choices(rows, k=generator.choice(self.digits)) for _ in range(count))
            return [
                self._strip(ink[chosen], [str(source.target[row]) for row in chosen], generator)
                for chosen in drawn
            ]

        return Splits(
            draw("train", train, self.spec.train_size),
            draw("validation", validation, self.spec.validation_size),
            draw("test", test, self.spec.test_size),
        )

    def make_tokenizer(self, train: Sequence[ImageExample]) -> Tokenizer:
        """The ten digits."""
        return Tokenizer(Notation("characters"), Vocabulary([str(digit) for digit in range(10)]))

    def _strip(self, digits: Tensor, target: list[str], generator: random.Random) -> ImageExample:
        """Digits [n, 8, 8] side by side."""
        tops = [generator.randint(0, self.height - DIGIT) for _ in target]
        gaps = [generator.randint(0, self.spec.gap) for _ in range(len(target) + 1)]
        lefts = [sum(gaps[: index + 1]) + DIGIT * index for index in range(len(target))]
        image = torch.zeros(self.height, sum(gaps) + DIGIT * len(target))
        for digit, top, left in zip(digits, tops, lefts, strict=True):
            image[top : top + DIGIT, left : left + DIGIT] = digit
        gold = [self._cells(top, left) for top, left in zip(tops, lefts, strict=True)]
        return ImageExample(whole_cells(image, self.cell), target, gold)

    def _cells(self, top: int, left: int) -> list[int]:
        """The cells whose centre is inside the digit at this position."""
        rows = self.height // self.cell
        across, down = (_centres(start, self.cell) for start in (left, top))
        return [rows * column + row for column in across for row in down]


def _centres(start: int, cell: int) -> range:
    """The cells, along one side, whose centre lies within a digit that starts at pixel `start`."""
    first = -(-(2 * start - cell) // (2 * cell))  # the least c with cell * (c + 1/2) >= start
    return range(first, first + DIGIT // cell)


class ImageFiles(ImageTransductionData):
    """Files of `image<TAB>text` lines (UTF-8), or one file that is split at random by its images.

    An image is given as the path of a PNG, JPEG or other image file, relative to the folder of the file that
    names it. It has dark ink on light paper, and is scaled to `height`. Symbols that do not occur in training
    are read as unknown.

    Args:
        options: see `ImageFilesSpec`.
    """

    files: ImageFilesSpec

    @options_of(ImageFilesSpec)
    def __init__(self, spec: ImageFilesSpec) -> None:
        super().__init__(spec.height, spec.cell, spec.batch_size)
        self.files = spec
        self.notation = spec.target

    def examples(self) -> Splits[list[ImageExample]]:
        """Read the files and the images that they name."""
        rows = read_once(self.files)
        hint = space_hint([row.second for row in rows.train], "target")
        if hint and self.notation.split == "characters" and self.given(ImageCodec) is None:
            self.hints["data.target_split"] = hint
        texts = rows.map(lambda split: [self.notation.tokens(row.second) for row in split])
        places, lengths = [row.place for row in chain(*rows)], [len(text) for text in chain(*texts)]
        check_length(places, lengths, "symbols", "split it if it is several lines of text")
        read = partial(read_image, height=self.height, cell=self.cell)
        images = read_listed(((row.place, row.first) for row in chain(*rows)), read, "data.height")
        found = zip(images, chain(*texts), strict=True)
        splits = rows.map(lambda split: [ImageExample(*next(found), name=row.first.strip()) for row in split])
        keyed = splits.map(lambda split: [Keyed(content_of(one.image), tuple(one.target)) for one in split])
        self.shared = shared_examples(keyed, self.files.names, "text")
        return splits

    def make_tokenizer(self, train: Sequence[ImageExample]) -> Tokenizer:
        """The symbols of the training split."""
        return Tokenizer.of(self.notation, (example.target for example in train))
