"""Runs on time series of any lengths: training, tests, predictions from files and export."""

import math
import random
from pathlib import Path

import pytest
import torch
from folders import metrics_of

import attention_lab

OPTIONS = ["model=multihead", "data=time_series", "model.d_model=32", "trainer.max_epochs=12"]


def waves(path: Path, count: int, seed: int) -> str:
    """Series of x = cos, y = sin at a random speed and of random lengths, clockwise or anticlockwise."""
    draw, lines = random.Random(seed), []
    for number in range(count):
        turn, start, speed = (-1) ** number, draw.uniform(0, 7), draw.uniform(0.4, 0.8)
        angles = [start + turn * speed * step for step in range(draw.randint(4, 9))]
        steps = "; ".join(f"{math.cos(angle):.3f} {math.sin(angle):.3f}" for angle in angles)
        lines.append(f"{'clockwise' if turn < 0 else 'anticlockwise'}\t{steps}\n")
    path.write_text("".join(lines))
    return str(path)


@pytest.mark.long
def test_a_model_learns_which_way_a_point_turns(command, tmp_path: Path) -> None:
    """Neither the values nor the lengths say so, only the order of the steps."""
    train = waves(tmp_path / "train.tsv", 600, seed=1)
    fitted = command(*OPTIONS, f"data.file={train}", "data.max_length=9", "model.positions=learned")
    assert metrics_of(fitted.folder)["test/accuracy"] >= 0.9
    new = waves(tmp_path / "new.tsv", 60, seed=2)
    tested = command("stage=test", f"ckpt_path={fitted.folder}", f"data.test_file={new}")
    accuracy = metrics_of(tested.folder)["test/accuracy"]
    assert accuracy >= 0.9
    labels, series = zip(*(line.split("\t") for line in Path(new).read_text().splitlines()), strict=True)
    model = attention_lab.load(fitted.folder / "checkpoints" / "best.ckpt")
    outputs = model.predict(series)
    assert sum(map(str.__eq__, outputs, labels)) / len(labels) == pytest.approx(accuracy)
    rows = [line.split("\t") for line in (tested.folder / "predictions.tsv").read_text().splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        [f"new.tsv:{number}", *pair] for number, pair in enumerate(zip(outputs, labels, strict=True), start=1)
    ]
    (tmp_path / "inputs.txt").write_text("\n".join(series))
    predicted = command("stage=predict", f"ckpt_path={fitted.folder}", f"inputs={tmp_path}/inputs.txt")
    assert [line.split("\t")[-1] for line in predicted.out.splitlines()[:60]] == outputs
    best = command("stage=predict", f"ckpt_path={fitted.folder}", f"inputs=['{series[0]}']", "task.n_best=2")
    [(first, one), (second, two)] = model.predict_n_best(series[:1], 2)[0]
    expected = [f"1\t{one:.4f}\t{first}", f"2\t{two:.4f}\t{second}"]
    assert best.out.splitlines()[:2] == [f"{series[0]}\t{row}" for row in expected]
    observed = model.observe(series[:2])
    steps = [text.count(";") + 1 for text in series[:2]]
    for one, count in zip(observed, steps, strict=True):
        assert one.input == f"{count} steps of 2 numbers"
        assert {weights.shape for weights in one.weights.values()} == {(4, count, count)}


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("model", ["multihead", "cnn", "rnn"])
def test_classifiers_of_series_are_exported_for_any_length(command, model: str, tmp_path: Path) -> None:
    file = waves(tmp_path / "x.tsv", 60, seed=1)
    run = command(f"model={model}", *OPTIONS[1:-1], f"data.file={file}", "trainer.max_epochs=1")
    trained = attention_lab.load(run.folder / "checkpoints" / "best.ckpt")
    [graph, _] = trained.export(tmp_path / "model.pt2")
    exported = torch.export.load(graph).module()
    for text in ("1 0; 0 1; -1 0", "0.5 0.5; 0 0; 1 1; 0 1; 1 0"):
        batch = trained.codec.encode([text, "0.1 0.2; 0 1"])
        [logits] = exported(batch.inputs, batch.lengths)
        with torch.no_grad():
            torch.testing.assert_close(logits, trained.model(batch.inputs, batch.lengths))
