"""Runs of kernel regression: the width that is learned or given, and tests on other rows."""

import math
from pathlib import Path

import pytest
import torch
from folders import metrics_of

import attention_lab


@pytest.mark.long
def test_the_width_reaches_the_leave_one_out_optimum(command, tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(50, generator=generator, dtype=torch.float64) * 5
    y = 2 * torch.sin(x) + x**0.8 + 0.5 * torch.randn(50, generator=generator, dtype=torch.float64)
    file = tmp_path / "points.csv"
    file.write_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x.tolist(), y.tolist(), strict=True)))

    def error(width: float) -> float:
        kernel = torch.exp(-(((x[:, None] - x) * width) ** 2) / 2).fill_diagonal_(0)
        return float((kernel @ y / kernel.sum(1) - y).square().mean())

    widths = torch.linspace(0.5, 15, 3000).tolist()
    best = min(widths, key=error)
    options = ["model=nw", "data=csv_regression", f"data.file={file}", "data.fractions=[1,0,0]"]
    metrics = metrics_of(command(*options).folder)
    assert metrics["test/mse"] == pytest.approx(error(best), rel=1e-3)
    assert metrics["train/loo_mse"] == metrics["test/mse"]
    assert metrics["train/width"] == pytest.approx(best, rel=0.05)


@pytest.mark.slow
def test_leaving_out_is_for_the_samples_of_the_fit(command, tmp_path: Path) -> None:
    """Tested on other rows of the same shape, a model must not hide its samples from them."""
    rows = [(0.1 * i, math.sin(0.1 * i)) for i in range(40)]
    for name, shift in (("fit", 0.0), ("other", 0.05)):
        text = "x,y\n" + "".join(f"{x + shift},{y}\n" for x, y in rows)
        (tmp_path / f"{name}.csv").write_text(text)
    options = ["model=nw", "data=csv_regression", "data.fractions=[1,0,0]", f"data.file={tmp_path}/fit.csv"]
    fitted = command(*options)
    checkpoint = f"ckpt_path={fitted.folder}/checkpoints/best.ckpt"
    same = command("stage=test", checkpoint)
    other = command("stage=test", checkpoint, "data=csv_regression", f"data.file={tmp_path}/other.csv")
    assert metrics_of(same.folder)["test/mse"] == metrics_of(fitted.folder)["test/mse"]
    model = attention_lab.load(fitted.folder / "checkpoints" / "best.ckpt")
    predicted = model.predict([str(x + 0.05) for x, _ in rows])
    errors = [(float(a) - y) ** 2 for a, (_, y) in zip(predicted, rows, strict=True)]
    assert metrics_of(other.folder)["test/mse"] == pytest.approx(sum(errors) / len(errors), rel=1e-3)
    assert other.err == ""
    (tmp_path / "fit.csv").unlink()
    alone = command("stage=test", checkpoint, f"data.test_file={tmp_path}/other.csv")
    assert (alone.status, alone.err) == (0, "")
    assert metrics_of(alone.folder)["test/mse"] == metrics_of(other.folder)["test/mse"]
    chance = command(
        "stage=test", checkpoint, f"data.file={tmp_path}/other.csv", "++data.fractions=[0.8,0.1,0.1]"
    )
    assert "only its test split (4 examples) is tested; to test on the whole file" in chance.err


@pytest.mark.slow
def test_a_given_width_is_kept(command) -> None:
    done = command("model=nw", "scoring.width=1.5", "scoring.learnable=false")
    assert metrics_of(done.folder)["train/width"] == 1.5
