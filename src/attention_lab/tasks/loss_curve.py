"""A picture of the losses logged by a run."""

from pathlib import Path

from attention_lab.files.writing import write_atomically
from attention_lab.tensorboard_plugin.event_files import read_curves
from attention_lab.viz import Format
from attention_lab.viz.plots import plot_file
from attention_lab.viz.plots.panels import Lines, Series

TAG = "train/loss"


def save_losses(log: Path, folder: Path, label: str, kind: Format = "png") -> Path | None:
    """Draw the training loss of each logged step into `folder`; None if there are fewer than two.

    It reads the log instead of losses in memory, so that a resumed run shows all its steps. That run's folder
    may come from others.

    Raises:
        LabError: the log cannot be read; see `check_logs`.
    """
    losses = read_curves(log).get(TAG, [])
    if len(losses) < 2:
        return None
    steps, values = [step + 1 for step, _ in losses], [value for _, value in losses]
    panel = Lines([Series("", steps, values, style="plain")], x_label="step", y_label=label)
    path = folder / f"loss.{kind}"
    write_atomically(path, plot_file([panel], kind, title="Training loss"))
    return path
