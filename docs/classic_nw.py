"""The textbook experiment and its baselines: losses and predictions, docs/classic_nw.png.

python docs/classic_nw.py     trains all three models (seconds) and redraws the picture
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import attention_lab
from attention_lab.tasks import Regression
from attention_lab.tensorboard_plugin.event_files import event_folder, read_log
from attention_lab.viz import to_png
from attention_lab.viz.plots import draw_panels
from attention_lab.viz.plots.panels import Lines, Series

ROOT = Path(__file__).parents[1]
NAMES = {
    "gaussian": "Gaussian kernel",
    "constant": "mean pooling",
    "query_free": "fully connected layer, no query",
}


def main() -> None:
    """Train, and draw the losses beside the fitted curves."""
    losses: list[Series] = []
    curves: list[Series] = []
    with tempfile.TemporaryDirectory() as folder:
        for scoring, name in NAMES.items():
            run = Path(folder, scoring)
            command = [sys.executable, str(ROOT / "train.py"), "experiment=classic_nw", f"scoring={scoring}"]
            subprocess.run([*command, f"hydra.run.dir={run}"], check=True, stdout=subprocess.DEVNULL)
            logged = read_log(event_folder(run)).curves["train/loss"]
            steps, values = [step + 1 for step, _ in logged], [loss for _, loss in logged]
            on_top = scoring == "query_free"  # its line lies on that of mean pooling
            losses.append(Series(name, steps, values, style="truth" if on_top else "plain"))
            task = attention_lab.load(run / "checkpoints" / "best.ckpt").task
            assert isinstance(task, Regression)
            curve = task.curve()
            assert curve is not None
            samples = Series("training samples", curve.inputs.numpy(), curve.targets.numpy(), style="samples")
            curves.append(
                Series(name, curve.x.numpy(), curve.y.numpy(), style="truth" if on_top else "plain")
            )
    curves.append(samples)
    picture = draw_panels(
        [
            Lines(losses, "Sum of squared errors before each step", "step", "loss", names="above"),
            Lines(curves, "What was learned in five steps", "x", "y", names="above"),
        ]
    )
    path = ROOT / "docs" / "classic_nw.png"
    path.write_bytes(to_png(picture))
    print(path)


if __name__ == "__main__":
    main()
