"""The run's single TensorBoard file, with pictures and hyperparameters."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytorch_lightning as pl
from PIL.Image import Image
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from attention_lab.callbacks.trackers.base import RunTracker, run_trackers
from attention_lab.viz import to_png

TICKED = 5
"""Number of columns that the HPARAMS tab shows by default."""


class RunLogger(TensorBoardLogger, RunTracker):
    """A TensorBoard logger that writes one event file for a run: `folder/tensorboard`.

    Lightning finalizes a logger after fitting and again after testing, and each time would start a new file.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: str) -> None:
        super().__init__(save_dir=folder, name="", version="tensorboard", default_hp_metric=False)

    @rank_zero_only
    def log_settings(
        self, settings: Mapping[str, Any], metrics: Sequence[str], first: Sequence[str] = ()
    ) -> None:
        """Fill the HPARAMS tab with settings; its metrics are scalars that the run logs later.

        The tab sorts columns by name and shows five, those marked as different between runs first. The first
        five of `first` are marked.
        """
        writer = self.experiment._get_file_writer()
        experiment, *session = hparams(dict(settings), dict.fromkeys(metrics, 0.0))  # type: ignore[no-untyped-call]
        content = HParamsPluginData.FromString(experiment.value[0].metadata.plugin_data.content)
        ticked = [name for name in dict.fromkeys(first) if name in settings][:TICKED]
        for column in content.experiment.hparam_infos:
            column.differs = column.name in ticked
        experiment.value[0].metadata.plugin_data.content = content.SerializeToString()
        for summary in (experiment, *session):
            writer.add_summary(summary)

    @rank_zero_only
    def log_picture(self, tag: str, picture: Image, step: int) -> None:
        """Write a picture for the Images tab."""
        add_picture(self.experiment, tag, picture, step)

    def log_results(self, metrics: Mapping[str, float], step: int) -> None:
        """Nothing: the HPARAMS tab reads the metrics that Lightning logs."""

    def continue_run(self) -> None:
        """Nothing: a resumed run adds another event file to the same folder."""

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Flush the file, but leave it open for the next stage."""
        if self._experiment is not None:
            self.experiment.flush()

    def save(self) -> None:
        """Do nothing: the run's folder already has its configuration."""

    @rank_zero_only
    def close(self) -> None:
        """Close the file."""
        if self._experiment is not None:
            self.experiment.close()


def add_picture(writer: SummaryWriter, tag: str, picture: Image, step: int) -> None:
    """Write a picture as it is: `add_image` would encode it anew."""
    image = Summary.Image(
        height=picture.height, width=picture.width, colorspace=3, encoded_image_string=to_png(picture)
    )
    writer._get_file_writer().add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)  # type: ignore[no-untyped-call]


def run_writer(trainer: pl.Trainer) -> SummaryWriter | None:
    """The writer of the run's TensorBoard file; None without one, or on a process that does not write."""
    for logger in run_trackers(trainer):
        if isinstance(logger, RunLogger):
            writer: SummaryWriter = logger.experiment
            return writer
    return None
