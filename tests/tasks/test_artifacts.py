"""What each task leaves in a run's folder after a test."""

from pathlib import Path

import pytest
import torch

from attention_lab.attention import Additive, Gaussian, Mechanism
from attention_lab.data import Reverse
from attention_lab.data.regression import Sine
from attention_lab.models import KernelRegression, Transformer
from attention_lab.tasks import Regression, Transduction
from attention_lab.tasks.scored_examples import score_examples

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "feedforward": 8}


@pytest.mark.parametrize("pictures", [0, 2])
def test_a_transduction_leaves_its_predictions_its_errors_and_heatmaps(pictures: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = Reverse(train_size=1, validation_size=3, test_size=4)
    data.setup()
    task = Transduction(Transformer(Mechanism(Additive), data.codec.sizes, **SMALL), data.codec).eval()
    split = data.parts.test
    batch = split[split.lengths.argsort(stable=True)]  # tested in the order of their lengths
    task.judged = score_examples(task._source_texts(batch), task.decode(batch), batch.references)
    tables = task.write_artifacts(tmp_path, data, pictures)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["source", "output", "reference", "edits"]
    assert [row[0] for row in rows[1:]] == task._source_texts(split[torch.arange(4)])
    assert [table.title for table in tables] == [*["Samples"] * bool(pictures), "Commonest errors"]
    assert f"{len(rows) - 1} outputs equal none of their references" in (tmp_path / "errors.md").read_text()
    drawn = [len(list((tmp_path / "attention" / part).glob("*.png"))) for part in ("", "worst")]
    assert drawn == [3 * pictures, 3 * pictures]  # encoder, self and cross attention


@pytest.mark.parametrize("pictures", [0, 1])
def test_a_regression_leaves_its_fitted_curve(pictures: int, tmp_path: Path) -> None:
    data = Sine(train_size=6, validation_size=3, test_size=3)
    data.setup()
    task = Regression(KernelRegression(Mechanism(Gaussian), data.sizes), data.codec).eval()
    training = data.training_set()
    task.model.memorize(training.inputs, training.targets)
    tables = task.write_artifacts(tmp_path, data, pictures)
    assert [table.title for table in tables] == ["Samples"] * pictures
    assert sorted(path.name for path in tmp_path.rglob("fit.png")) == ["fit.png"] * pictures
    assert not list(tmp_path.rglob("loss.png")), "there is no log of a training"
