"""Mistakes that need no torch are found before it is imported."""

import subprocess
import sys
from inspect import isabstract
from pathlib import Path

import pytest

from attention_lab import data, models
from attention_lab.data.reading.files import read_ahead, read_once
from attention_lab.data.specs import SPECS as DATA_SPECS
from attention_lab.data.specs import check_data
from attention_lab.data.specs.files import PairsSpec
from attention_lab.errors import LabError
from attention_lab.models.specs import SPECS as MODEL_SPECS
from attention_lab.models.specs import check_model

REPOSITORY = Path(__file__).parents[2]
ALL_AT_ONCE = """
import runpy, sys
from pathlib import Path

program, folder = sys.argv[1:]
for number, line in enumerate(sys.stdin.read().splitlines()):
    sys.argv = [program, *line.split(" "), f"hydra.run.dir={folder}/{number}"]
    try:
        runpy.run_path(program, run_name="__main__")
        print("no error")
    except SystemExit as end:
        print(end.code, "torch" in sys.modules, Path(folder, str(number)).exists(), flush=True)
"""
"""Runs each line of standard input as a command line, all in one process."""

MISTAKES = [
    ("data.batch_size=0", "data.batch_size=0: give a whole number of at least 1"),
    ("stage=test ckpt_path=no.ckpt", "ckpt_path=no.ckpt: no such file; a run's checkpoints are in"),
    ("ckpt_path=empty", "ckpt_path=empty has no checkpoints/best.ckpt: give the folder of a trained run"),
    ("stage=predict ckpt_path=a.ckpt inputs=no.txt", "no.txt: No such file or directory (looked for it from"),
    ("data=pairs data.file=bad.tsv", "bad.tsv:2: no tabs, but one is needed: source<TAB>target"),
    ("model.cell=rnn", "model.cell=rnn is unknown: choose lstm or gru"),
    ("seed=-1", "seed=-1: choose 0 or more"),
    (
        "stage=test ckpt_path=a.ckpt data=pairs data.test_file=bad.tsv",
        "bad.tsv:2: no tabs, but one is needed",
    ),
    ("stage=test ckpt_path=a.ckpt scoring=dot", "stage=test takes scoring from the checkpoint: leave out"),
    ("inputs=[hello]", "inputs is for stage=predict, not stage=fit"),
    ("stage=theorem", "stage=theorem needs a theorem: choose experiment="),
]
"""Command lines and how their messages begin."""
MORE_MISTAKES = [
    ("model=multihead model.heads=7", "model.d_model=64 must be a multiple of model.heads=7"),
    ("resume=auto model.cell=rnn", "model.cell=rnn is unknown: choose lstm or gru"),
    ("window=band window.falloff=linear", "window.falloff=linear is unknown: choose none, gaussian"),
    ("stage=theorem theorem=scaling", "stage=theorem needs a theorem: choose experiment="),
    ("theorem=scaling", "theorem is for stage=theorem, not stage=fit: choose experiment=conv_equivalence, "),
    ("export=model.onnx", "export is for stage=export, not stage=fit"),
    ("run=logs", "run is for stage=report or stage=leaderboard, not stage=fit"),
    ("stage=test ckpt_path=a.ckpt inputs=[hello]", "inputs is for stage=predict, not stage=test"),
    (
        "stage=report ckpt_path=a.ckpt",
        "ckpt_path is for stage=fit or stage=test or stage=predict or stage=export, not stage=report",
    ),
    ("stage=leaderboard run=a monitor.metric=test/loss", "monitor.metric is for stage=fit or stage=test"),
    (
        "stage=export ckpt_path=a.ckpt pictures=0",
        "pictures is for stage=fit or stage=test or stage=predict, ",
    ),
    ("experiment=scaling pictures_format=svg", "pictures_format is for stage=fit or stage=test"),
    ("stage=report run=logs tags=[a]", "tags is for stage=fit or stage=test or "),
    ("experiment=scaling run=logs", "run is for stage=report or stage=leaderboard, not stage=theorem"),
    ("trainer.accelerator=gpuu", "trainer.accelerator=gpuu is unknown: choose auto, cpu, gpu"),
    ("trainer.precision=bf17", "trainer.precision=bf17 is unknown: choose 32-true, bf16-mixed"),
]
"""Found in the same places as some of the others, each of which takes half a second."""


@pytest.mark.long
@pytest.mark.parametrize("mistakes", [MISTAKES, pytest.param(MORE_MISTAKES, marks=pytest.mark.slow)])
def test_mistakes_are_found_without_torch(mistakes: list[tuple[str, str]], tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text("a\tb\nno tab\n")
    (tmp_path / "a.ckpt").write_text("no checkpoint\n")
    (tmp_path / "empty").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE, str(REPOSITORY / "train.py"), str(tmp_path / "logs")],
        input="\n".join(line for line, _ in mistakes),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    for (line, message), found in zip(mistakes, done.stdout.splitlines(), strict=True):
        assert found.startswith(f"Error: {message}"), line
        assert found.endswith(" False False"), f"{line}: imported torch, or left a folder"


OWN_FILES = [
    (
        "scoring",
        "_partial_: true",
        "scoring=mine has no scoring._target_, the class: set it in its file, as in",
    ),
    (
        "data",
        "data:\n  kind: transduction\n  _target_: my_package.MyData",
        "data=mine has no data.kind: its file must begin with the line '# @package _global_'",
    ),
    (
        "data",
        "# @package _global_\ndata:\n  _target_: my_package.MyData",
        "data=mine has no data.kind, the kind of data: set it in its file, such as classification, ",
    ),
]
"""Files of the user's, each called `mine`, and how the messages about them begin."""
MORE_OWN_FILES = [
    ("schedule", "_partial_: true", "schedule=mine has no schedule._target_, the class: set it in its file"),
    ("normalizer", "_partial_: true", "normalizer=mine has no normalizer._target_, the class: set it"),
    (
        "data",
        "# @package _global_\ndata:\n  kind: audio\n  _target_: my_package.MyData",
        "model=seq2seq needs transduction data, but data=mine is audio data: no model needs audio data; for "
        "this model choose data=cmudict, ",
    ),
    (
        "model",
        "_target_: my_package.MyModel",
        "model=mine has no model.needs, the kind of data: set it in its file, such as classification, ",
    ),
    (
        "model",
        "# @package _global_\nmodel:\n  _target_: my_package.MyModel\n  needs: transduction",
        "model=mine has no task._target_, the class: set it in its file, as in _target_: my_package.MyClass",
    ),
]


@pytest.mark.long
@pytest.mark.parametrize("files", [OWN_FILES, pytest.param(MORE_OWN_FILES, marks=pytest.mark.slow)])
def test_files_of_the_user_lack_a_line(files: list[tuple[str, str, str]], tmp_path: Path) -> None:
    for number, (group, text, _) in enumerate(files):
        file = tmp_path / str(number) / group / "mine.yaml"
        file.parent.mkdir(parents=True)
        file.write_text(f"{text}\n")
    lines = [f"--config-dir {tmp_path}/{number} {group}=mine" for number, (group, _, _) in enumerate(files)]
    done = subprocess.run(
        [sys.executable, "-c", ALL_AT_ONCE, str(REPOSITORY / "train.py"), str(tmp_path / "logs")],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    for (_, _, message), found in zip(files, done.stdout.splitlines(), strict=True):
        assert found.startswith(f"Error: {message}") and found.endswith(" False False")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("CMUDict", {"size": 0}, "data.size=0: give a whole number of at least 1"),
        ("CMUDict", {"references": "some"}, "data.references=some: choose one of all, first"),
        ("Digits", {"unit": "lines"}, "data.unit=lines: choose one of pixels, rows"),
        ("Diabetes", {"fractions": [1, 1, 1]}, "data.fractions=[1, 1, 1]: give the shares"),
        ("Karate", {"train_size": 1}, "data.train_size=1: give a whole number of at least 2"),
        ("Sine", {"noise": -1.0}, "data.noise=-1.0: give a number of at least 0.0"),
        ("Reverse", {"train_size": 0}, "data.train_size=0: give a whole number of at least 1"),
        (
            "Pairs",
            {"file": "two.tsv"},
            "two.tsv: data.fractions=[0.8, 0.1, 0.1] leave none of 2 distinct examples for training",
        ),
        (
            "Inflection",
            {"file": "two.tsv"},
            "two.tsv:1: 1 tab, but two are needed: lemma<TAB>form",
        ),
        ("ImageFiles", {"file": "bad.tsv"}, "bad.tsv:1: no tabs, but one is needed: image<TAB>text"),
        ("Labelled", {"file": "bad.tsv"}, "bad.tsv:1: no tabs, but one is needed: label<TAB>text"),
        ("Text", {"file": "no.txt"}, "no.txt: No such file or directory"),
        ("CSVRegression", {"file": "bad.tsv"}, "bad.tsv:1: column 'x' is not in the header: no tab"),
        (
            "GraphFiles",
            {"nodes": "bad.tsv", "edges": "two.tsv"},
            "bad.tsv:1: no tab; a line is node<TAB>",
        ),
        ("GraphFiles", {"nodes": "two.tsv", "edges": "two.tsv"}, "two.tsv:1: the node 'b' is not in two.tsv"),
    ],
)
def test_options_and_files_are_checked_early(
    name: str, options: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.tsv").write_text("no tab\n")
    Path("two.tsv").write_text("a\tb\nc\td\n")
    with pytest.raises(LabError) as found:
        check_data({"_target_": f"attention_lab.data.{name}", **options})
    assert str(found.value).startswith(message)


def test_a_class_without_a_spec_is_left_to_itself(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.tsv")
    check_data({"_target_": "my_package.Pairs", "file": missing})
    check_data({"_target_": "attention_lab.data.Graph8"})
    check_model({"_target_": "attention_lab.models.Transformer", "heads": "four"})
    for file in (3, ["a"], {"a": 1}):
        check_data({"_target_": "attention_lab.data.Pairs", "file": file})
        check_data({"_target_": "attention_lab.data.CSVRegression", "file": file})


@pytest.mark.parametrize(("package", "specs"), [(data, DATA_SPECS), (models, MODEL_SPECS)])
def test_every_spec_can_be_checked_early(package, specs) -> None:
    """Every class that takes the fields of a spec is in the table, with that spec."""
    classes = {name: getattr(package, name) for name in package.__all__}
    taken = {
        name: found.__init__.spec
        for name, found in classes.items()
        if hasattr(found, "__init__") and hasattr(found.__init__, "spec") and not isabstract(found)
    }
    taken.pop("Encoder", None)  # a part of a model
    assert taken == dict(specs)


def test_files_are_read_once(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{letter}\t{letter}\n" for letter in "abcdefghij"))
    spec = PairsSpec(file=str(file))
    read_ahead(spec)
    file.write_text("changed\n")
    assert len(read_once(PairsSpec(file=str(file))).train) == 8
    file.write_text("a\tb\n" * 2 + "c\td\ne\tf\n")
    assert len(read_once(spec).train) == 2, "the content is handed on only once"


def test_files_of_other_options_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"{letter}\t{letter}\n" for letter in "abcdefghij"))
    read_ahead(PairsSpec(file=str(file)))
    parts = read_once(PairsSpec(file=str(file), fractions=[0.5, 0.2, 0.3]))
    assert len(parts.train) == 5
