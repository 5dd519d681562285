"""A picture of the losses logged by a run."""

from pathlib import Path

from attention_lab.files.writing import write_atomically
from attention_lab.viz import Format
from attention_lab.viz.plots import plot_file
from attention_lab.viz.plots.panels import Lines, Series

TAG = "train/loss"


def save_losses(log: Path, folder: Path, label: str, kind: Format = "png") -> Path | None:
    """Draw the training loss of each logged step into `folder`; None if there are fewer than two.

    It reads the log instead of losses in memory, so that a resumed run shows all its steps.
    """
    if not log.is_dir():
        return None
    # slow to import, and not needed to predict
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(log), size_guidance={"scalars": 0, "tensors": 1, "images": 1}).Reload()
    if TAG not in events.Tags()["scalars"]:
        return None
    losses = events.Scalars(TAG)
    if len(losses) < 2:
        return None
    steps, values = [event.step + 1 for event in losses], [event.value for event in losses]
    panel = Lines([Series("", steps, values, style="plain")], x_label="step", y_label=label)
    path = folder / f"loss.{kind}"
    write_atomically(path, plot_file([panel], kind, title="Training loss"))
    return path
