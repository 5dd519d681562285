"""The textbook experiment beside its baselines: losses and predictions, docs/classic_nw.png.

python docs/classic_nw.py     trains the three (seconds) and draws the picture again
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

import attention_lab
from attention_lab.tasks import Regression
from attention_lab.tensorboard_plugin.report import read_log
from attention_lab.viz import Series, draw_curve, to_png

ROOT = Path(__file__).parents[1]
NAMES = {
    "gaussian": "Gaussian kernel",
    "constant": "mean pooling",
    "query_free": "fully connected layer, no query",
}


def main() -> None:
    """Train, and draw the losses beside the fitted curves."""
    losses: dict[str, Series] = {}
    curves: dict[str, Series] = {}
    with tempfile.TemporaryDirectory() as folder:
        for scoring, name in NAMES.items():
            run = Path(folder, scoring)
            command = [sys.executable, str(ROOT / "train.py"), "experiment=classic_nw", f"scoring={scoring}"]
            subprocess.run([*command, f"hydra.run.dir={run}"], check=True, stdout=subprocess.DEVNULL)
            logged = read_log(run / "tensorboard")[0]["train/loss"]
            losses[name] = ([step + 1 for step, _ in logged], [loss for _, loss in logged])
            task = attention_lab.load(run / "checkpoints" / "best.ckpt").task
            assert isinstance(task, Regression)
            curve = task.curve()
            assert curve is not None
            curves[name] = (curve.x.numpy(), curve.y.numpy())
    samples = {"training samples": (curve.inputs.numpy(), curve.targets.numpy())}
    left = draw_curve(
        losses, title="Sum of squared errors before each step", x_label="step", y_label="train/loss"
    )
    right = draw_curve(
        curves, points=samples, title="What was learned in five steps", x_label="x", y_label="y"
    )
    both = Image.fromarray(np.hstack([np.asarray(left), np.asarray(right)]))
    (ROOT / "docs" / "classic_nw.png").write_bytes(to_png(both))


if __name__ == "__main__":
    main()
