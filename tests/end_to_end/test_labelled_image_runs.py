"""Labelled images from the command line: training, test, prediction and pictures."""

import random
from pathlib import Path

import pytest
import torch
from folders import metrics_of
from PIL import Image

import attention_lab

OPTIONS = (
    *("model=multihead", "data=labelled_images", "data.image_size=12", "data.patch_size=3"),
    *("model.d_model=16", "model.feedforward=32", "model.dropout=0", "model.readout=cls"),
    *("model.positions=learned", "optimizer.lr=0.01", "trainer.max_epochs=25", "pictures=1"),
)


def photos(folder: Path, count: int, seed: int) -> str:
    """Photos of a square; the label says its colour, and whether it is on the left or on the right."""
    generator, lines = random.Random(seed), []
    folder.mkdir()
    for number in range(count):
        colour, side = generator.choice(["red", "blue"]), generator.choice(["left", "right"])
        left, top = generator.randrange(7) + 11 * (side == "right"), generator.randrange(18)
        image = Image.new("RGB", (24, 24), "white")
        image.paste(colour, (left, top, left + 6, top + 6))
        image.save(folder / f"{number}.png")
        lines.append(f"{colour} {side}\t{folder.name}/{number}.png")
    file = folder.with_suffix(".tsv")
    file.write_text("\n".join(lines))
    return str(file)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
def test_a_vision_transformer_learns_where_things_are(command, tmp_path: Path) -> None:
    fitted = command(*OPTIONS, f"data.file={photos(tmp_path / 'train', 400, seed=1)}")
    assert metrics_of(fitted.folder)["test/accuracy"] >= 0.9
    new = photos(tmp_path / "new", 60, seed=2)
    tested = command("stage=test", f"ckpt_path={fitted.folder}", f"data.test_file={new}")
    accuracy = metrics_of(tested.folder)["test/accuracy"]
    assert accuracy >= 0.9
    labels = [line.split("\t")[0] for line in Path(new).read_text().splitlines()]
    paths = [tmp_path / "new" / f"{number}.png" for number in range(60)]
    model = attention_lab.load(fitted.folder)
    outputs = model.predict(paths)
    assert sum(map(str.__eq__, outputs, labels)) / len(labels) == pytest.approx(accuracy)
    rows = [line.split("\t") for line in (tested.folder / "predictions.tsv").read_text().splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        [f"{number}.png", *pair] for number, pair in enumerate(zip(outputs, labels, strict=True))
    ]
    best = command("stage=predict", f"ckpt_path={fitted.folder}", f"inputs=['{paths[3]}']", "task.n_best=2")
    ((first, one), (second, two)) = model.predict_n_best(paths[3:4], 2)[0]
    assert best.out.splitlines()[:2] == [
        f"{paths[3]}\t1\t{one:.4f}\t{first}",
        f"{paths[3]}\t2\t{two:.4f}\t{second}",
    ]
    names = sorted(path.name for path in (fitted.folder / "attention").iterdir())
    assert [name.partition("_encoder")[2] for name in names] == ["-layer-1.png", "-layer-2.png"]
    for record in model.observe(paths[:1])[0].records:
        assert record.picture is not None and record.picture.cell == 3
        assert (record.queries[0], record.queries[1], record.keys[1]) == ("[CLS]", "r0c0", "r0c1")
        assert record.weights.shape == (4, 17, 16)


@pytest.mark.slow
@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("model", ["multihead", "cnn", "rnn"])
def test_classifiers_of_images_are_exported(command, model: str, tmp_path: Path) -> None:
    file = photos(tmp_path / "x", 60, seed=1)
    run = command(f"model={model}", *OPTIONS[1:4], f"data.file={file}", "trainer.max_epochs=1", "pictures=0")
    trained = attention_lab.load(run.folder)
    [graph, _] = trained.export(tmp_path / "model.pt2")
    batch = trained.codec.encode([str(tmp_path / "x" / "0.png"), str(tmp_path / "x" / "1.png")])
    [logits] = torch.export.load(graph).module()(batch.inputs, batch.lengths)
    with torch.no_grad():
        torch.testing.assert_close(logits, trained.model(batch.inputs, batch.lengths))
