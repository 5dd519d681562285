"""Tests of written sequences from the command line: several checkpoints as one, intervals, errors by name."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from saved_models import SEQ2SEQ as SMALL
from saved_models import transduction

import attention_lab
from attention_lab.errors import LabError
from attention_lab.experiment.checkpoints import load
from attention_lab.files.run_files import RECIPE
from attention_lab.leaderboard.settings import Job, headlines
from attention_lab.metrics import edit_distance
from attention_lab.models import Ensemble
from attention_lab.runs.checkpoint_paths import find_checkpoints
from attention_lab.text_tables import with_interval

REPOSITORY = Path(__file__).parents[2]
TOY = [
    "data=reverse",
    "data.train_size=48",
    "data.validation_size=12",
    "data.test_size=12",
    "data.max_length=5",
    "data.batch_size=5",
    "trainer.max_epochs=1",
    "logger=none",
]
SEQ2SEQ = ["model=seq2seq", "model.embedding_size=6", "model.hidden_size=8", *TOY]
IMAGES = [
    "model=image2seq",
    "model.channels=2",
    "model.hidden_size=8",
    "model.embedding_size=4",
    *(option for option in TOY if not option.startswith(("data=", "data.max_length"))),
]
TRANSFORMER = ["model=transformer", "model.d_model=8", "model.heads=2", "model.feedforward=8", *TOY]
BEST = "checkpoints/best.ckpt"


def _metrics(folder: Path) -> dict[str, float]:
    found: dict[str, float] = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in found.items() if name.startswith("test/")}


def _rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "predictions.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def _distance(first: str, second: str) -> int:
    ids = [torch.tensor([[*map(ord, text)]], dtype=torch.int64) for text in (first, second)]
    return int(edit_distance(ids[0], torch.tensor([len(first)]), ids[1], torch.tensor([len(second)])))


@pytest.mark.slow
def test_several_checkpoints_are_tested_as_one(command, tmp_path: Path) -> None:
    """Of different mechanisms and kinds; named in a list or by a pattern."""
    runs = tmp_path / "runs"
    a = command(*SEQ2SEQ, "pictures=0", folder=runs / "a").folder / BEST
    b = command(*SEQ2SEQ, "seed=2", "scoring=general", "window=local_p", folder=runs / "b").folder / BEST
    c = command(*TRANSFORMER, folder=runs / "c").folder / BEST
    done = command("stage=test", f"ckpt_path=[{a},{b},{c}]", "task.beam_size=2", "pictures=2")
    assert done.status == 0, done.err
    assert done.err == ""
    assert f"An ensemble of 3 checkpoints, listed in {done.folder.name}/config.yaml\n" in done.out
    assert OmegaConf.load(done.folder / "config.yaml").ckpt_path == [str(path) for path in (a, b, c)]
    names = {path.stem.split("_", 2)[2] for path in (done.folder / "attention").glob("*.png")}
    assert {"member-1-decoder", "member-2-decoder", "member-3-decoder-layer-1-cross"} <= names

    by_pattern = command("stage=test", f'ckpt_path="{runs}/*/{BEST}"', "task.beam_size=2", "pictures=0")
    assert by_pattern.status == 0, by_pattern.err
    assert _metrics(by_pattern.folder) == _metrics(done.folder)
    assert _metrics(done.folder).keys() == _metrics(a.parents[1]).keys()

    together = attention_lab.load([a, b, c])
    assert isinstance(together.model, Ensemble)
    assert len(together.model.members) == 3
    lines = [row["source"] for row in _rows(done.folder)]
    predicted = command("stage=predict", f"ckpt_path=[{a},{b},{c}]", f"inputs=[{','.join(lines)}]")
    assert predicted.status == 0, predicted.err
    outputs = together.predict(lines)
    assert predicted.out.splitlines() == [f"{x}\t{y}" for x, y in zip(lines, outputs, strict=True)]
    (seen,) = together.observe(lines[:1])
    assert {name.split(".")[0] for name in seen.weights} == {"member 1", "member 2", "member 3"}
    for name, weights in seen.weights.items():
        rows, columns = seen.labels(name)
        assert weights.shape[1:] == (len(rows), len(columns))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["image2seq", "seq2seq"])
def test_hard_attention_can_be_a_member(model: str, command) -> None:
    small = SEQ2SEQ if model == "seq2seq" else IMAGES
    a, b = (command(*small, f"pooling={name}", "pictures=0").folder / BEST for name in ("soft", "hard"))
    done = command("stage=test", f"ckpt_path=[{a},{b}]", "pictures=1")
    assert done.status == 0, done.err
    assert {name for name in _metrics(done.folder) if "alignment" in name} >= {"test/alignment_accuracy"}
    assert len(list((done.folder / "attention").glob("01_*_member-?-decoder.png"))) == 2
    assert len(_rows(done.folder)) == 12


@pytest.mark.long
def test_one_member_with_ctc_is_enough_for_rescoring(tmp_path: Path) -> None:
    """In either order, whether the option is that of a checkpoint or given."""
    paths = []
    for name, frames in (("with", 3), ("without", 0)):
        options = {"ctc": 0.3, "ctc_rescoring": 0.25} if frames else {}
        task = transduction({**SMALL, "ctc_frames": frames}, beam_size=3, **options)
        paths.append(tmp_path / f"{name}.ckpt")
        torch.save({RECIPE: task.recipe, "state_dict": task.state_dict()}, paths[-1])
    for order in (paths, paths[::-1]):
        together = attention_lab.load(order)
        assert together.task.ctc_rescoring == 0.25
        plain = load(order, lambda kept: {**kept, "task": {**kept["task"], "ctc_rescoring": 0.0}})
        assert together.predict_n_best(["hello"], 3) != plain.predict_n_best(["hello"], 3)
        changed = load(order, lambda kept: {**kept, "task": {**kept["task"], "ctc_rescoring": 0.5}})
        assert changed.task.ctc_rescoring == 0.5


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_member_with_weights_that_are_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    """Every output would be empty, without a word."""
    for name in ("good", "bad"):
        task = transduction(SMALL)
        if name == "bad":
            next(task.model.parameters()).data[0] = value
        torch.save({"state_dict": task.state_dict(), RECIPE: task.recipe}, tmp_path / f"{name}.ckpt")
    with pytest.warns(UserWarning, match=r"bad\.ckpt: \S+ has weights that are NaN or infinite$"):
        load(tmp_path / "bad.ckpt")
    with pytest.raises(LabError, match=r"bad\.ckpt has weights that are NaN or infinite; leave it out$"):
        load([tmp_path / "good.ckpt", tmp_path / "bad.ckpt"])


def test_checkpoints_that_do_not_fit_in_memory_together_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = transduction(SMALL)
    content = {"state_dict": task.state_dict(), RECIPE: task.recipe}
    paths = [tmp_path / f"{name}.ckpt" for name in "abc"]
    for path in paths:
        torch.save(content, path)
    weights = sum(one.nbytes for one in task.parameters())
    monkeypatch.setattr("attention_lab.machine.usable_memory", lambda: paths[0].stat().st_size + weights)
    assert isinstance(load(paths[:2]).model, Ensemble)
    with pytest.raises(LabError, match=r"^ckpt_path=\S+/c\.ckpt: loading it, too, takes about .*fewer check"):
        load(paths)


@pytest.mark.slow
def test_a_list_or_pattern_of_one_checkpoint_is_no_ensemble(command) -> None:
    fitted = command(*SEQ2SEQ)
    for given in (f"[{fitted.folder}/{BEST}]", f'"{fitted.folder}/checkpoints/b*.ckpt"'):
        tested = command("stage=test", f"ckpt_path={given}")
        assert tested.status == 0, tested.err
        assert "ensemble" not in tested.out
        assert _metrics(tested.folder) == _metrics(fitted.folder)
        assert OmegaConf.load(tested.folder / "config.yaml").ckpt_path == f"{fitted.folder}/{BEST}"


@pytest.mark.slow
def test_checkpoints_that_cannot_be_combined_are_rejected(command, tmp_path: Path) -> None:
    a = command(*SEQ2SEQ, "pictures=0").folder / BEST
    other = command(*SEQ2SEQ, "data.vocabulary=7", "pictures=0").folder / BEST
    digits = command("model=nw", "trainer.max_epochs=1", "pictures=0", "logger=none").folder / BEST
    refused = command("stage=test", f"ckpt_path=[{a},{other}]")
    assert refused.status == 1
    assert refused.err == (
        f"Error: ckpt_path: {a} and {other} have different vocabularies: "
        "only models with the same symbols can be combined\n"
    )
    refused = command("stage=test", f"ckpt_path=[{a},{digits}]")
    assert refused.err == (
        f"Error: ckpt_path: {digits} has no sequence-to-sequence model: several sequence-to-sequence models "
        "can be combined, or several classifiers\n"
    )
    refused = command(*SEQ2SEQ, f"ckpt_path=[{a},{other}]")
    assert refused.err == "Error: stage=fit continues from one checkpoint, but ckpt_path names 2\n"
    refused = command("stage=predict", f'ckpt_path="{tmp_path}/none/*.ckpt"', "inputs=[a]")
    assert refused.err == f"Error: ckpt_path={tmp_path}/none/*.ckpt: no file matches\n"
    with pytest.raises(LabError, match="names no checkpoint"):
        find_checkpoints([])


def test_checkpoints_are_found_once_each_and_sorted(tmp_path: Path) -> None:
    for name in ("b.ckpt", "a.ckpt", "[1]*.ckpt"):
        (tmp_path / name).touch()
    assert find_checkpoints(tmp_path / "?.ckpt") == [tmp_path / "a.ckpt", tmp_path / "b.ckpt"]
    assert find_checkpoints([tmp_path / "b.ckpt", tmp_path / "?.ckpt"]) == [
        tmp_path / "b.ckpt",
        tmp_path / "a.ckpt",
    ]
    assert find_checkpoints(str(tmp_path / "[1]*.ckpt")) == [tmp_path / "[1]*.ckpt"]  # a name, no pattern
    with pytest.raises(LabError, match=r"ckpt_path=missing\.ckpt: no such file"):
        find_checkpoints("missing.ckpt")


@pytest.mark.long
def test_every_example_is_written_down_with_its_edits(command) -> None:
    done = command(*SEQ2SEQ, "pictures=3")
    assert done.status == 0, done.err
    rows, metrics = _rows(done.folder), _metrics(done.folder)
    assert len(rows) == 12
    assert [row["reference"] for row in rows] == [row["source"][::-1] for row in rows]
    edits = [_distance(row["output"].replace("<unk>", "?"), row["reference"]) for row in rows]
    assert [int(row["edits"]) for row in rows] == edits
    lengths = [len(row["reference"]) for row in rows]
    assert lengths != sorted(lengths)  # the order of the data, not that of the test
    assert metrics["test/token_error_rate"] == pytest.approx(sum(edits) / sum(lengths))
    assert metrics["test/sequence_error_rate"] == pytest.approx(sum(map(bool, edits)) / 12)
    outputs = attention_lab.load(done.folder / BEST).predict([row["source"] for row in rows])
    assert outputs == [row["output"] for row in rows]

    for name in ("test/token_error_rate", "test/sequence_error_rate"):
        assert metrics[f"{name}_low"] <= metrics[name] <= metrics[f"{name}_high"]
        low, high = (metrics[f"{name}{end}"] for end in ("_low", "_high"))
        assert with_interval(metrics[name], low, high) in done.out
        assert f"{name}_low" not in done.out

    text = (done.folder / "errors.md").read_text()
    assert f"{sum(map(bool, edits))} of 12 outputs are wrong" in text
    assert f"differ from their references by {sum(edits)} edits" in text
    assert "Most common errors" in done.out
    ranked = sorted(range(12), key=lambda row: (-edits[row] / lengths[row], row))
    worst = sorted(path.name.split("_")[:2] for path in (done.folder / "attention" / "worst").iterdir())
    assert worst == [[f"{n:02d}", rows[row]["source"]] for n, row in enumerate(ranked[:3], start=1)]


@pytest.mark.slow  # test_artifacts has what a test writes without pictures
def test_no_pictures_are_drawn_where_none_are_wanted(command) -> None:
    done = command(*SEQ2SEQ, "pictures=0")
    assert not (done.folder / "attention").exists()
    assert (done.folder / "errors.md").exists()


def test_the_ends_of_an_interval_are_no_headlines() -> None:
    metrics = {f"test/error{end}": 0.5 for end in ("", "_low", "_high")} | {"test/other_low": 1.0}
    config = OmegaConf.create({"monitor": {"metric": None}})
    assert headlines([Job(Path(), {}, {}, config, metrics, None)]) == ["test/error", "test/other_low"]


@pytest.mark.slow
def test_two_processes_leave_what_one_does(tmp_path: Path) -> None:
    """The examples of both are gathered before intervals and tables are made."""

    def train(name: str, *arguments: str) -> Path:
        command = [
            sys.executable,
            str(REPOSITORY / "train.py"),
            *arguments,
            f"hydra.run.dir={tmp_path / name}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    fitted = train("fit", *SEQ2SEQ, "data.test_size=33", "trainer.accelerator=cpu")
    options = ("stage=test", f"ckpt_path={fitted / BEST}", "trainer.accelerator=cpu", "pictures=1")
    alone, both = train("one", *options), train("two", *options, "trainer.devices=2")
    assert _metrics(both) == pytest.approx(_metrics(alone))
    for file in ("predictions.tsv", "errors.md"):
        assert (both / file).read_text() == (alone / file).read_text()
