"""What each task leaves in a run's folder after a test."""

from pathlib import Path

import numpy as np
import pytest
import torch

from attention_lab.attention import Additive, Gaussian, Mechanism
from attention_lab.data import DataModule, ImageFiles, Pairs, Reverse, TransductionBatch
from attention_lab.data.regression import CSVRegression, Sine
from attention_lab.metrics import nearest
from attention_lab.models import KernelRegression, Transformer
from attention_lab.special_symbols import EOS, PAD, UNK
from attention_lab.tasks import Regression, Transduction
from attention_lab.tasks.errors.error_analysis import write_error_analysis
from attention_lab.tasks.errors.scored_examples import ScoredExample, comparable_ids, score_examples
from attention_lab.tasks.fitted_curve import TITLE
from attention_lab.viz import Format
from attention_lab.viz.plots import make_figure

SMALL = {"d_model": 8, "heads": 2, "layers": 1, "decoder_layers": 1, "feedforward": 8}


def _scored(
    task: Transduction, outputs: torch.Tensor, batch: TransductionBatch, data: DataModule
) -> list[ScoredExample]:
    found = nearest(*comparable_ids(outputs, batch, data.codec.target.vocabulary))
    return score_examples(task.source_texts(batch), outputs, batch, found)


@pytest.mark.parametrize("pictures", [0, 2])
def test_a_transduction_leaves_its_predictions_its_errors_and_heatmaps(pictures: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    data = Reverse(train_size=1, validation_size=3, test_size=4)
    data.setup()
    task = Transduction(Transformer(Mechanism(Additive), data.codec.sizes, **SMALL), data.codec).eval()
    split = data.splits.test
    batch = split[split.lengths.argsort(stable=True)]  # tested in the order of their lengths
    task.scored = _scored(task, task.decode(batch), batch, data)
    tables = task.write_artifacts(tmp_path, data, pictures)
    lines = (tmp_path / "predictions.tsv").read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert rows[0] == ["source", "output", "reference", "edits"]
    assert [row[0] for row in rows[1:]] == task.source_texts(split[torch.arange(4)])
    assert [table.title for table in tables] == [*["Samples"] * bool(pictures), "Most common errors"]
    assert f"{len(rows) - 1} outputs are wrong. They differ" in (tmp_path / "errors.md").read_text()
    drawn = [len(list((tmp_path / "attention" / part).glob("*.png"))) for part in ("", "worst")]
    assert drawn == [3 * pictures, 3 * pictures]  # encoder, self and cross attention


@pytest.mark.long
def test_wrong_outputs_stand_with_what_was_expected(tmp_path: Path) -> None:
    data = Reverse(train_size=1, validation_size=1, test_size=1)
    data.setup()
    task = Transduction(Transformer(Mechanism(Additive), data.codec.sizes, **SMALL), data.codec).eval()
    task.pictures_format, batch = "svg", data.splits.test[torch.arange(1)]
    task.scored = _scored(task, task.decode(batch), batch, data)
    task.write_artifacts(tmp_path, data, 1)
    shown = {"attention": task.observe_probe(data, 1), "attention/worst": task.observe(batch)}
    for place, (one,) in shown.items():
        drawings = [path.read_text(encoding="utf-8") for path in (tmp_path / place).glob("*.svg")]
        assert len(drawings) == 3 and all(f", expected {one.expected}" in drawing for drawing in drawings)


def test_errors_name_the_file_of_an_image(tmp_path: Path) -> None:
    """All of them were called "image of 20 x 12", so that nobody could tell which were wrong."""
    file = Path(__file__).parents[2] / "data" / "image_files_example.tsv"
    data = ImageFiles(file=str(file), fractions=[0.5, 0.2, 0.3], height=12, cell=4)
    data.setup()
    split, codec = data.splits.test, data.codec
    texts = [
        (codec.source_text(batch.source[0]), batch.target[0, :-1].tolist())
        for batch in (split[row.view(1)] for row in split.lengths.argsort(stable=True))
    ]
    scored = [ScoredExample(source, target[:1], target, len(target) - 1) for source, target in texts]
    write_error_analysis(scored, codec, split, tmp_path, "")
    rows = [line.split("\t") for line in (tmp_path / "predictions.tsv").read_text().splitlines()[1:]]
    assert [source for source, *_ in rows] == [f"image_files_example/{row:02}.png" for row in (1, 5, 7, 12)]
    assert [edits for *_, edits in rows] == ["1", "1", "3", "3"]
    assert all(source in (tmp_path / "errors.md").read_text() for source, *_ in rows)


def test_errors_show_the_examples_own_texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown symbols are shown as they are in the data, and change no number."""
    for name, text in {"train": "ab\tx y\n", "dev": "a\tx\n", "test": "né\tx é\nb\tñ\nc\ty ñ é\n"}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    data = Pairs("train", "dev", "test", target_split="spaces")
    data.setup()
    model = Transformer(Mechanism(Additive), data.codec.sizes, **SMALL)
    task, split = Transduction(model, data.codec).eval(), data.splits.test
    batch = split[split.lengths.argsort(stable=True)]
    one, two, three = (data.codec.target.vocabulary.ids(row) for row in ("xy", "y", "y?"))
    rows = {"b": two, "né": one, "c": three}  # by length; the last copies an unknown symbol
    outputs = torch.tensor([[*ids, *[EOS] * (3 - len(ids))] for ids in rows.values()])
    task.scored = _scored(task, outputs, batch, data)
    task.write_artifacts(tmp_path, data, 0)
    assert (tmp_path / "predictions.tsv").read_text(encoding="utf-8").splitlines() == [
        "source\toutput\treference\tedits",
        "né\tx y\tx é\t1",
        "b\ty\tñ\t1",
        "c\ty c\ty ñ é\t2",
    ]
    assert (tmp_path / "confusions.tsv").read_text(encoding="utf-8").splitlines()[1:] == [
        "é (not in training) → y\t1\tné: x y (x é)",
        "é (not in training) → c (not in training)\t1\tc: y c (y ñ é)",
        "ñ (not in training) → y\t1\tb: y (ñ)",
        "ñ (not in training) → (nothing)\t1\tc: y c (y ñ é)",
    ]
    page = (tmp_path / "errors.md").read_text(encoding="utf-8")
    assert (
        "3 of 3 outputs are wrong. They differ from their references by 4 edits: 3 substitutions, "
        "1 deletion, 0 insertions. The references have 6 symbols in total."
    ) in page
    assert (
        f"\n\n{data.unseen.test}.\n" in page
        and "are never generated unless copied: 'é', 'ñ' (in 3 of" in page
    )
    assert "| né | x y | x é | 1 |" in page and "| é (not in training) → y | 1 | né: x y (x é) |" in page
    assert task.observe(batch)[1].input == "né" and task.observe(batch)[1].expected == "x é"


def test_the_worst_outputs_have_the_most_edits_for_each_symbol_of_the_reference() -> None:
    few, many, nothing = (ScoredExample("", [5], [4] * size, 2) for size in (2, 8, 0))
    assert [one.rate for one in (few, many, nothing)] == [1, 0.25, 2]


@pytest.mark.long
@pytest.mark.parametrize("pictures", [0, 1])
def test_a_regression_leaves_its_fitted_curve(pictures: int, tmp_path: Path) -> None:
    data = Sine(train_size=6, validation_size=3, test_size=3)
    task = _fitted(data)
    tables = task.write_artifacts(tmp_path, data, pictures)
    assert [table.title for table in tables] == ["Samples"] * pictures
    assert sorted(path.name for path in tmp_path.rglob("fit.png")) == ["fit.png"] * pictures
    assert not list(tmp_path.rglob("loss.png")), "there is no log of a training"


def _fitted(data: Sine | CSVRegression) -> Regression:
    data.setup()
    task = Regression(KernelRegression(Mechanism(Gaussian), data.sizes), data.codec).eval()
    training = data.training_set()
    task.model.memorize(training.inputs, training.targets)
    return task


def test_the_small_picture_of_the_curve_names_all_that_it_shows() -> None:
    """TensorBoard's picture cut off the bandwidth, and did not say which points were test samples."""
    data = Sine(train_size=50, test_size=50, noise=0.5)
    task = _fitted(data)
    panel = task.curve_panel(data)
    assert panel is not None
    figure = make_figure([panel], title=TITLE, note=task.curve_note, thumbnail=True)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [one.name for one in panel.series]
    assert task.curve_note in [text.get_text() for text in figure.texts]
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_the_fitted_curve_stands_with_its_band_the_truth_and_the_test_samples() -> None:
    data = Sine(train_size=400, test_size=300, noise=0.3)
    task = _fitted(data)
    values = task.model.values.clone()
    panel = task.curve_panel(data)
    assert panel is not None and torch.equal(task.model.values, values)
    series = {one.style: one for one in panel.series}
    assert list(series) == ["band", "plain", "truth", "dashed", "samples", "gold"]
    assert series["dashed"].name == "training mean"
    x = np.asarray(series["truth"].x)
    assert np.allclose(series["truth"].y, 2 * np.sin(x) + x**0.8, atol=1e-5)
    held_out = data.table().rows.test.numpy()
    assert np.allclose(np.stack([series["gold"].x, series["gold"].y], 1), held_out, atol=1e-5)
    low, high = np.array(series["band"].intervals).T
    ends = [np.interp(held_out[:, 0], x, side) for side in (low, high)]
    inside = (ends[0] < held_out[:, 1]) & (held_out[:, 1] < ends[1])
    assert 0.9 < inside.mean() < 0.99  # about 95%
    assert abs((high - low).mean() / 4 - 0.3) < 0.05  # the noise


def test_data_that_does_not_know_its_curve_and_keeps_no_test_shows_neither(tmp_path: Path) -> None:
    rows = "".join(f"{n},{n * n}\n" for n in range(20))
    (tmp_path / "squares.csv").write_text(f"x,y\n{rows}")
    data = CSVRegression(file=str(tmp_path / "squares.csv"), fractions=(1, 0, 0))
    for given in (data, None):
        panel = _fitted(data).curve_panel(given)
        assert panel is not None
        assert [one.style for one in panel.series] == ["band", "plain", "dashed", "samples"]


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["svg", "pdf"])
def test_pictures_are_written_in_the_format_that_is_asked_for(kind: Format, tmp_path: Path) -> None:
    data = Sine(train_size=6, validation_size=3, test_size=3)
    task = _fitted(data)
    task.pictures_format = kind
    task.write_artifacts(tmp_path, data, 1)
    assert {path.suffix for path in (tmp_path / "attention").iterdir()} == {f".{kind}"}
    assert (tmp_path / "attention" / f"fit.{kind}").exists()


def test_unknown_symbols_of_the_source_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the reference's own symbol is right."""
    tests = "éa\té\nñé\té\nnñ\téñ\n"
    for name, text in {"train": "ab\tab\n", "dev": "a\ta\n", "test": tests}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    data = Pairs("train", "dev", "test")
    data.setup()
    task = Transduction(Transformer(Mechanism(Additive), data.codec.sizes, **SMALL), data.codec).eval()
    batch = data.splits.test[torch.arange(3)]
    outputs = torch.tensor([[UNK, EOS, PAD, PAD], [UNK, EOS, PAD, PAD], [UNK, UNK, UNK, EOS]])
    monkeypatch.setattr(task, "decode", lambda batch, beam_size=None: outputs)
    assert task.answer(batch) == ["é", "ñ", "nñ<unk>"]
    assert [one.edits for one in _scored(task, outputs, batch, data)] == [0, 1, 2]
    monkeypatch.setattr(task, "log", lambda *values, **options: None)
    task.test_step(batch, 0)
    assert task.errors["test_sequence_error_rate"].compute() == pytest.approx(2 / 3)
    task.scored = _scored(task, outputs, batch, data)
    task.write_artifacts(tmp_path, data, 0)
    assert "\n2 of 3 outputs are wrong. They" in (tmp_path / "errors.md").read_text(encoding="utf-8")
    scored, task.scored = task.scored, task.scored[1:2]
    task.write_artifacts(tmp_path, data, 0)
    text = (tmp_path / "errors.md").read_text(encoding="utf-8")
    assert "\n1 of 1 outputs is wrong. It differs from its reference by 1 edit: 1 substitution, " in text
    task.scored = [one for one in scored if not one.edits]
    task.write_artifacts(tmp_path, data, 0)
    text = (tmp_path / "errors.md").read_text(encoding="utf-8")
    assert "\n0 of 1 outputs are wrong. The references have" in text and "differ" not in text
    # A letter that can be written, but not read.
    (tmp_path / "train").write_text("ab\taé\n", encoding="utf-8")
    data = Pairs("train", "dev", "test")
    data.setup()
    batch = data.splits.test[torch.arange(3)]
    assert [one.edits for one in _scored(task, outputs, batch, data)] == [0, 1, 2]
