"""Several classifiers used as one: the mean of their probabilities."""

from pathlib import Path

import pytest
import torch
from folders import metrics_of

import attention_lab
from attention_lab.errors import LabError
from attention_lab.models import ClassifierEnsemble

DIGITS = ("data=digits", "data.train_size=200", "trainer.max_epochs=3", "pictures=0", "logger=none")
WORDS = ("model=multihead", "data=labelled", "model.d_model=8", "trainer.max_epochs=1", "pictures=0")
BEST = "checkpoints/best.ckpt"


@pytest.fixture
def two(command, tmp_path: Path) -> list[Path]:
    """A classifier with a class token, and one of another kind."""
    first = command("model=multihead", "model.readout=cls", *DIGITS, folder=tmp_path / "runs" / "a")
    second = command("model=cnn", *DIGITS, folder=tmp_path / "runs" / "b")
    return [first.folder, second.folder]


@pytest.mark.slow
def test_classifiers_of_different_kinds_are_tested_as_one(command, two: list[Path], tmp_path: Path) -> None:
    done = command("stage=test", f"ckpt_path='{tmp_path}/runs/*'", "pictures=1")
    assert (done.status, done.err) == (0, "")
    assert "An ensemble of 2 checkpoints" in done.out
    together, *single = (attention_lab.load(one) for one in (two, *two))
    assert isinstance(together.model, ClassifierEnsemble)
    lines = [" ".join(str((7 * n + 3 * k) % 17) for k in range(64)) for n in range(5)]
    batch = together.codec.encode(lines)
    with torch.no_grad():
        expected = sum(one.model(batch.inputs, batch.lengths).double().softmax(-1) for one in single) / 2
    for probabilities, best in zip(expected, together.predict_n_best(lines, 10), strict=True):
        for label, score in best:
            assert score == pytest.approx(float(probabilities[int(label)].log()), abs=1e-5)
    names = sorted(path.name for path in (done.folder / "attention").iterdir())
    places = ["member-1-encoder-layer-1", "member-1-encoder-layer-2", "member-2-readout"]
    assert names == [f"01_{place}.png" for place in places]
    (observed,) = together.observe(lines[:1])
    with_token, _, without = observed.records
    assert len(with_token.queries) == len(with_token.keys) == 9 and with_token.keys[0] == "[CLS]"
    assert (list(without.queries), len(without.keys)) == (["[readout]"], 8)
    predicted = command("stage=predict", f"ckpt_path='{tmp_path}/runs/*'", f"inputs=['{lines[0]}']")
    assert predicted.out.splitlines()[0] == f"{lines[0]}\t{together.predict(lines[:1])[0]}"
    assert 0 < metrics_of(done.folder)["test/accuracy"] <= 1
    [graph, _] = together.export(tmp_path / "both.pt2")
    [logits] = torch.export.load(graph).module()(batch.inputs, batch.lengths)
    torch.testing.assert_close(logits.double().exp(), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.slow
def test_classifiers_of_nodes(command, tmp_path: Path) -> None:
    for seed in (1, 2):
        graph = ("model=graph", "data=karate", "trainer.max_epochs=5", "pictures=0", f"seed={seed}")
        command(*graph, folder=tmp_path / str(seed))
    paths = [tmp_path / str(seed) / "checkpoints" / "last.ckpt" for seed in (1, 2)]
    together, *single = (attention_lab.load(one) for one in (paths, *paths))
    batch = together.codec.encode(["1", "34", "9"])
    with torch.no_grad():
        each = [one.task.logits(batch).softmax(-1) for one in single]
        torch.testing.assert_close(together.task.logits(batch).exp(), sum(each) / 2)
    (observed,) = together.observe(["1", "34"])
    assert len(observed.records) == 4 and observed.records[0].module.startswith("member 1.")


@pytest.mark.slow
def test_checkpoints_that_cannot_be_combined_are_rejected(command, two: list[Path], tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(f"{'xy'[n % 2]}\tone {n}\n" for n in range(40)))
    words = command(*WORDS, f"data.file={tmp_path}/a.tsv").folder / BEST
    lines = command("model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none").folder / BEST
    for other, said in {
        words: "have different labels, symbols or scales of numbers: only models with the same labels",
        lines: f"{lines} has no classifier: several sequence-to-sequence models can be combined, or several",
    }.items():
        with pytest.raises(LabError, match=said):
            attention_lab.load([two[0], other])
