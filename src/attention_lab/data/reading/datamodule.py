"""The base class of all data modules."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar

import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from attention_lab.argument_checks import kind_of
from attention_lab.data.reading.batches import Batch
from attention_lab.data.reading.bucketing import SameBatches, loader
from attention_lab.data.reading.codecs import BaseCodec, Codec, check_codec
from attention_lab.data.reading.datasets import Split
from attention_lab.data.reading.splitting import Splits
from attention_lab.data.specs.base import FileSpec
from attention_lab.data.specs.option_checks import check_batch_size
from attention_lab.errors import LabError
from attention_lab.sizes import Sizes

C = TypeVar("C", bound=Codec)


class _AfterSetup:
    """An attribute that exists only after `setup`; until then, reading it is an error that says so."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, module: object, owner: type) -> Any:
        """Raise AttributeError; not called once the data module has set the attribute."""
        text = f"{owner.__name__!r} object has no attribute {self._name!r}"
        raise AttributeError(f"{text}: call setup() first, which reads the data", name=self._name, obj=module)


class DataModule(pl.LightningDataModule, ABC):
    """Three splits in memory, a codec, and the sizes that a model needs, all available after `setup`.

    Set `codec` before `setup` to use a given one, for example from a checkpoint; otherwise it is made from
    the training split.

    Args:
        batch_size: number of examples in a batch; None for all examples of a split in one batch.

    Attributes:
        shared: after `setup`, a line about examples of the user's files that occur in several splits; empty
            if there are none.
        unseen: after `setup`, for each split of the user's files, a line about symbols that the model does
            not know; empty if there are none.
        hints: after `setup`, lines about settings that the user's files probably need, by option, and about
            lines of the files that are probably mistakes, by their place.
    """

    if TYPE_CHECKING:
        codec: Codec
        sizes: Sizes
    else:
        codec, sizes = _AfterSetup(), _AfterSetup()
    short_epochs = 0
    """Number of initial epochs on shorter sequences; measurements of speed and memory ignore these epochs."""

    def __init__(self, batch_size: int | None) -> None:
        super().__init__()
        check_batch_size(batch_size)
        self.batch_size = batch_size
        self.shared, self.unseen = "", Splits("", "", "")
        self.hints: dict[str, str] = {}
        self._splits: Splits[Split] | None = None

    @abstractmethod
    def build(self) -> Splits[Split]:
        """Read the data, set `codec` (unless it is given) and `sizes`, and return the splits."""

    def given(self, kind: type[C]) -> C | None:
        """The codec set before `setup`, if any. Raises LabError if it is not of this `kind`."""
        codec = self.__dict__.get("codec")
        if codec is not None and not isinstance(codec, kind):
            raise LabError(f"the model has a {type(codec).__name__}, but this data needs a {kind.__name__}")
        return codec

    @property
    def splits(self) -> Splits[Split]:
        """The three splits; reads the data on first use."""
        if "_splits" not in vars(self):
            raise LabError(f"{type(self).__name__}.__init__ must call super().__init__(batch_size)")
        if self._splits is None:
            files = getattr(self, "files", None)
            if isinstance(files, FileSpec) and "codec" not in self.__dict__:
                files.check_training_files()
            self._splits = self.checked(self.build())
        return self._splits

    def checked(self, splits: object) -> Splits[Split]:
        """The splits from `build`, which may be user-defined. Raises LabError if it breaks its contract."""
        build = f"{type(self).__name__}.build must"
        if not isinstance(splits, Splits):
            raise LabError(f"{build} return Splits(train, validation, test), not {kind_of(splits)}")
        for name, split in splits._asdict().items():
            if not isinstance(split, Split):
                raise LabError(
                    f"{build} return a Split, such as ClassificationSplit, for {name}, not {kind_of(split)}"
                )
        if {"codec", "sizes"} - vars(self).keys() or not isinstance(self.codec, BaseCodec):
            raise LabError(f"{build} set self.codec and self.sizes")
        check_codec(self.codec, f"{type(self).__name__}.build: the codec")  # or no checkpoint could be loaded
        return splits

    def setup(self, stage: str | None = None) -> None:
        """Read the data, unless already done.

        Raises:
            LabError: the data or the options are wrong.
        """
        _ = self.splits

    def train_dataloader(self) -> DataLoader[Any]:
        """Batches of the training split, shuffled."""
        return self.in_trainers_order(self._loader(self.splits.train, shuffle=True))

    def val_dataloader(self) -> DataLoader[Any]:
        """Batches of the validation split."""
        return self.in_trainers_order(self._loader(self.splits.validation, shuffle=False))

    def test_dataloader(self) -> DataLoader[Any]:
        """Batches of the test split."""
        return self._loader(self.splits.test, shuffle=False)

    def probe(self, size: int) -> Batch:
        """The same `size` examples every time, evenly spaced from shortest to longest.

        They are validation examples, or test examples if only the test split is given.
        """
        split = self.splits.validation if len(self.splits.validation) else self.splits.test
        picks = torch.linspace(0, len(split) - 1, min(size, len(split))).round().long()
        return split[split.lengths.argsort(stable=True)[picks]]

    def in_trainers_order(self, batches: DataLoader[Any]) -> DataLoader[Any]:
        """The batches, which are the same in every epoch if `trainer.overfit_batches` is set."""
        if not getattr(self.trainer, "overfit_batches", 0):
            return batches
        sampler: Any = batches.sampler
        return DataLoader(batches.dataset, sampler=SameBatches(sampler), batch_size=None)

    def _loader(self, split: Split, shuffle: bool) -> DataLoader[Any]:
        return loader(split, self.batch_size, shuffle, *self.rank_and_world_size)

    @property
    def rank_and_world_size(self) -> tuple[int, int]:
        """The number of this process among those of the training run, and how many there are."""
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)
