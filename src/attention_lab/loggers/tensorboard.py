"""The run's single TensorBoard file, which includes pictures and hyperparameters."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

import pytorch_lightning as pl
from PIL.Image import Image
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.utilities import rank_zero_only
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData
from torch.utils.tensorboard import SummaryWriter
from torch.utils.tensorboard.summary import hparams

from attention_lab.files.paths import short_path
from attention_lab.loggers.base import Charts, RunLogger, run_loggers
from attention_lab.tensorboard_plugin.event_files import event_folder
from attention_lab.text_tables import is_interval_end
from attention_lab.viz import to_png

TICKED = 5
"""Number of columns that the HPARAMS tab shows by default."""
_LEARNING_RATE = re.compile(r"^lr-[A-Za-z]\w*")


class TensorBoardRunLogger(TensorBoardLogger, RunLogger):
    """A TensorBoard logger that writes one event file to the run's folder, whose name TensorBoard shows.

    Losses and metrics come first among the scalars; see `scalar_tags`.

    Lightning finalizes a logger after fitting and again after testing; the default logger would start a new
    file each time.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: str) -> None:
        place = event_folder(Path(folder))  # for a resumed run, the folder it wrote to before
        super().__init__(save_dir=str(place), name="", version="", default_hp_metric=False)

    @property
    def log_dir(self) -> str:
        """The folder, as it is; Lightning would replace a variable, such as `$HOME`, in its name."""
        return str(self.save_dir)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Log the scalars under their tags."""
        super().log_metrics(scalar_tags(metrics), step)

    @rank_zero_only
    def log_settings(self, settings: Mapping[str, Any], metrics: Sequence[str], first: Sequence[str]) -> None:
        """Fill the HPARAMS tab with settings; its metrics are scalars that the run logs later.

        The tab sorts columns by name and shows five of them, first those marked as different between runs.
        The first five in `first` are marked.
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

    @rank_zero_only
    def log_charts(self, charts: Charts) -> None:
        """Set up the CUSTOM SCALARS tab."""
        layout = {
            category: {title: ["Multiline", list(map(re.escape, tags))] for title, tags in group.items()}
            for category, group in charts.items()
        }
        self.experiment.add_custom_scalars(layout)

    def log_results(self, metrics: Mapping[str, float], step: int) -> None:
        """Do nothing: the HPARAMS tab reads the metrics that Lightning logs."""

    def how_to_view(self) -> tuple[str, str]:
        """The command that starts TensorBoard."""
        return "TensorBoard", f"tensorboard --logdir {quote(short_path(Path(self.save_dir)))}"

    def continue_run(self) -> None:
        """Do nothing: a resumed run adds another event file to the same folder."""

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


def scalar_tags(metrics: Mapping[str, float]) -> dict[str, float]:
    """Metrics by the tags under which TensorBoard shows and sorts them.

    The epoch number and the ends of intervals, which are in `metrics.json`, are left out so that they do
    not crowd out losses and headline metrics. The learning rate comes after the training loss.
    """
    return {
        _LEARNING_RATE.sub("train/lr", name): value
        for name, value in metrics.items()
        if name != "epoch" and not is_interval_end(name, metrics)
    }


def add_picture(writer: SummaryWriter, tag: str, picture: Image, step: int) -> None:
    """Write a picture; `add_image` would encode it a second time."""
    image = Summary.Image(
        height=picture.height, width=picture.width, colorspace=3, encoded_image_string=to_png(picture)
    )
    writer._get_file_writer().add_summary(Summary(value=[Summary.Value(tag=tag, image=image)]), step)  # type: ignore[no-untyped-call]


def run_writer(trainer: pl.Trainer) -> SummaryWriter | None:
    """The writer of the run's TensorBoard file; None without one, or on a process that does not write."""
    logger = run_logger(trainer)
    writer: SummaryWriter | None = logger.experiment if logger is not None else None
    return writer


def run_logger(trainer: pl.Trainer) -> TensorBoardRunLogger | None:
    """The run's TensorBoard logger; None without one, or on a process that does not write."""
    return next((one for one in run_loggers(trainer) if isinstance(one, TensorBoardRunLogger)), None)
