"""Runs on images of text, from the command line: fit, predict, and hard attention."""

import json
import re
from pathlib import Path

import pytest
from PIL import Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

DATA = Path(__file__).parents[2] / "data"
SMALL = [
    "model=image2seq",
    "model.channels=2",
    "model.hidden_size=8",
    "model.embedding_size=4",
    "data.train_size=32",
    "data.validation_size=8",
    "data.test_size=8",
    "data.batch_size=16",
    "trainer.max_epochs=1",
    "trainer.log_every_n_steps=1",
]


@pytest.mark.slow
def test_a_run_draws_attention_over_its_images_and_reads_files(command) -> None:
    fitted = command(*SMALL)
    assert fitted.status == 0, fitted.err
    metrics = json.loads((fitted.folder / "metrics.json").read_text())
    assert 0 <= metrics["test/alignment_accuracy"] <= 1
    assert {"test/sequence_error_rate", "test/token_error_rate", "test/alignment_mass"} <= metrics.keys()
    pictures = sorted((fitted.folder / "attention").glob("*.png"))
    assert len(pictures) == 4
    for number, path in enumerate(pictures, start=1):
        assert re.fullmatch(rf"0{number}_image-of-\d+-x-12_decoder\.png", path.name)
        with Image.open(path) as picture:
            assert picture.mode == "RGB"
    events = EventAccumulator(str(next(fitted.folder.glob("events*"))))
    events.Reload()
    assert "weights/example 1/decoder" in events.Tags()["images"]

    checkpoint = f"ckpt_path={fitted.folder / 'checkpoints' / 'best.ckpt'}"
    paths = [str(DATA / "image_files_example" / name) for name in ("01.png", "04.png")]
    predicted = command("stage=predict", checkpoint, f"inputs=[{','.join(paths)}]")
    assert predicted.status == 0, predicted.err
    rows = [line.split("\t") for line in predicted.out.splitlines()]
    assert [path for path, _ in rows] == paths
    assert all(re.fullmatch(r"(\d|<unk>)*", text) for _, text in rows)
    assert len(list((predicted.folder / "attention").glob("*.png"))) == 2

    missing = command("stage=predict", checkpoint, "inputs=[none.png]")
    assert missing.status == 1
    assert missing.err.splitlines()[-1].startswith("Error: input 1: none.png: No such file or directory")


@pytest.mark.slow
@pytest.mark.parametrize("pooling", ["hard", "gumbel"])
def test_hard_attention_to_cells(command, pooling: str) -> None:
    fitted = command(*SMALL, f"pooling={pooling}")
    assert fitted.status == 0, fitted.err


@pytest.mark.slow
def test_own_images_are_learnt_from(command) -> None:
    fitted = command(
        *(option for option in SMALL if "_size=" not in option or "model" in option),
        "data=image_files",
        f"data.file={DATA / 'image_files_example.tsv'}",
        "data.height=16",
        "data.cell=8",
    )
    assert fitted.status == 0, fitted.err
    assert "test/alignment_accuracy" not in json.loads((fitted.folder / "metrics.json").read_text())


@pytest.mark.long
def test_images_and_other_models_do_not_mix(command) -> None:
    refused = command("model=seq2seq", "data=digit_strips")
    assert refused.status == 1
    assert "seq2seq needs transduction data, but data=digit_strips is image_transduction data" in refused.err
    refused = command("model=image2seq", "data=copy")
    choices = "choose model=seq2seq, transformer; for this model choose data=digit_strips, image_files"
    assert choices in refused.err
