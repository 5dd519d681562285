"""Bad input ends in one clear line and a nonzero status, and runs nothing that it should not."""

import os
import pickle
import shutil
from pathlib import Path

import pytest
import torch

TOY = ["model=seq2seq", "data=reverse", "data.train_size=32", "data.validation_size=4", "data.test_size=4"]
SMALL = ["model.embedding_size=4", "model.hidden_size=4", "trainer.max_epochs=1"]
OTHER_PARTS = ("task", "scoring", "normalizer", "pooling", "data")


def _check_refused(done, *parts: str) -> None:
    assert done.status != 0
    assert "Traceback" not in done.err + done.out
    (line,) = done.err.splitlines()
    for part in parts:
        assert part in line


@pytest.mark.long
@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("options", "parts"),
    [
        (
            ["model=nw", "data=cmudict"],
            ["model=nw needs regression data", "choose data=csv_regression, diabetes, sine"],
        ),
        (["model=nw", "window=band"], ["does not take window=band", "no order", "choose window=global"]),
        (["model=nw", "normalizer=sigmoid"], ["sum to one", "entmax15, softmax, sparsemax"]),
        (["model=multihead", "pooling=hard"], ["pooling=hard", "choose pooling=gumbel, soft"]),
        (["model=graph", "scoring=location"], ["no order", "choose scoring=additive"]),
        ([*TOY, "pooling=exact", "model.wiring=bahdanau"], ["pooling=exact", "set model.wiring=luong"]),
        ([*TOY, "pooling=hard", "model.attention_dropout=0.1"], ["set model.attention_dropout=0"]),
        ([*TOY, "scoring=location", "scoring.length=3"], ["made for 3 positions", "set scoring.length="]),
        ([*TOY, "scoring.activation=tanh2"], ["scoring.activation=tanh2", "tanh, relu"]),
        ([*TOY, "window=local_p", "window.width=0"], ["window.width must be above 0"]),
        (
            ["model=multihead", "data=sine"],
            ["model=multihead needs classification", "digits, far_pairs, labelled"],
        ),
        (["scoring=adtive"], ["scoring=adtive is unknown", "did you mean additive?", "scaled_dot"]),
        (["model=transformr"], ["model=transformr is unknown", "multihead, nw"]),
        (["trainer.devices=0"], ["trainer.devices=0", "1 or more"]),
        (["trainer.devices=two"], ["trainer.devices=two", "choose 1 or more"]),
        (["model=multihead", "task=transduction"], ["no task to choose here", "model=seq2seq, transformer"]),
        (["mechanism=linear"], ["no mechanism to choose here", "choose experiment=efficiency"]),
        (["stage=fitt"], ["stage=fitt is unknown", "fit, test, predict"]),
        (["stage=test"], ["ckpt_path="]),
        (["stage=predict", "ckpt_path=none.ckpt"], ["ckpt_path=none.ckpt", "no such file"]),
        (["ckpt_path=none.ckpt", *TOY], ["ckpt_path=none.ckpt", "no such file"]),
        (["optimizer.lr=${oc.env:NOT_SET}"], ["optimizer.lr: ", "Environment variable 'NOT_SET' not found"]),
        (["optimizer.lr=${nosuch}"], ["optimizer.lr: Interpolation key 'nosuch' not found"]),
        (["data=pairs"], ["data.train_file", "give all three files, or a single data.file"]),
        ([*TOY, "model.hidden_size=7"], ["model.hidden_size", "even"]),
        (["model=multihead", "model.heads=5"], ["model.d_model=64 must be a multiple of model.heads=5"]),
        ([*TOY, "normalizer.temperature=0.0"], ["normalizer.temperature=0.0: choose a number above 0"]),
        ([*TOY, "task.beam_size=0"], ["task.beam_size=0: choose 1 or more"]),
        ([*TOY, "pictures_format=jpg"], ["pictures_format=jpg: choose png, svg, pdf"]),
        (["stage=leaderboard", "run=.", "pictures_format=eps"], ["pictures_format=eps: choose png, svg"]),
        ([*TOY, "trainer.precision=3"], ["trainer.precision=3 must be 64, 32, 16, ", " or null"]),
        (["model=multihead", "model.heads=0"], ["model.heads must be at least 1"]),
        (["model=nw", "callbacks=early_stopping"], ["callbacks=early_stopping needs a metric"]),
        (["model=nw", "callbacks.attention_maps.every=0"], ["callbacks.attention_maps", "at least 1"]),
        (["model=nw", "+callbacks.attention_maps.batch=1"], ["callbacks.attention_maps.batch", "leave it"]),
        (["model=nw", "logger=csv", "+logger.csv.flush_logs_every_n_steps=0"], ["logger.csv: ZeroDiv"]),
        (["schedule=null"], ["schedule=null is unknown", "constant, cosine"]),
        (["threads=0"], ["threads=0"]),
        ([*TOY, "trainer.max_epochs=-1"], ["trainer.max_epochs or trainer.max_steps"]),
        (["model=nw", "trainer.devices=2"], ["optimizer=lbfgs", "optimizer=adam"]),
        (["stage=export", "export=null"], ["export must be the name of a file that ends in .pt2, "]),
        (["stage=export", "export=[m.pt2]"], ["export must be the name of a file that ends in .pt2, "]),
        (["threads=abc"], ["threads=abc must be a whole number, or null"]),
        pytest.param(
            [*TOY, *SMALL, "task.ctc_rescoring=0.2"],
            ["set task.ctc_rescoring=0", "model.ctc_frames=3"],
            marks=pytest.mark.slow,
        ),
        (["schedule.warmup=5"], ["schedule.warmup=5: choose a fraction from 0 to 1"]),
        *(  # of the same tables as some of the others: test_option_values has them too
            pytest.param([*TOY, message.partition(":")[0]], [message], marks=pytest.mark.slow)
            for message in (
                "task.beam_size=1000000000: choose at most 1000",
                "pictures=1000000000: choose at most 1000",
                "optimizer.lr=0: choose a number above 0",
                "seed=4294967296: choose at most 4294967295",
                "model.dropout=1.5: choose a fraction from 0 to 1",
                "task.ctc_rescoring=2: choose a fraction from 0 to 1",
                "trainer.check_val_every_n_epoch=0: choose 1 or more",
                "trainer.gradient_clip_val=-1: choose 0 or more",
            )
        ),
        (["+trainer.val_check_interval=0"], ["trainer.val_check_interval=0: choose a number above 0"]),
        (
            ["model=nw", "data=csv_regression", "data.file=x.csv", "data.inputs=[x,z]", "data.target=x"],
            ["data.target=x is among data.inputs"],
        ),
        ([*TOY, "+data.sise=1"], ["data.sise is not an option of Reverse", "leave it out"]),
        (
            [*TOY, "+scoring.hiden_size=1"],
            ["scoring.hiden_size is not an option of Additive", "scoring.hidden_size?"],
        ),
        (
            [*TOY, "+model.input_feding=true"],
            ["not an option of Seq2Seq", "did you mean model.input_feeding?"],
        ),
        ([*TOY, "+scoring.heads=3"], ["scoring.heads=3 has no effect, as the program sets it: leave it out"]),
        ([*TOY, "pooling._target_=attention_lab.attention.Softmax"], ["Softmax is not in attention_lab."]),
        ([*TOY, "task.text_metrics=null"], ["task.text_metrics=null must be true or false"]),
        ([*TOY, *SMALL, "+optimizer.eps=-1"], ["optimizer.eps=-1: ValueError: Invalid epsilon value"]),
        (
            [*TOY, "model._target_=missing.Model"],
            ["missing.Model: there is no module missing beside train.py, in PYTHONPATH or installed"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) and "=" in value[0] else "",
)
def test_options(options: list[str], parts: list[str], command) -> None:
    _check_refused(command(*options), *parts)


@pytest.fixture
def checkpoint(command, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of a run, which is made once for all tests."""
    run = tmp_path_factory.getbasetemp() / "run_for_all"
    if not run.exists():
        done = command(*TOY, *SMALL)
        assert done.status == 0, done.err
        shutil.copytree(done.folder, run)
    return Path(shutil.copytree(run, tmp_path / "run")) / "checkpoints" / "best.ckpt"


@pytest.mark.long
def test_a_truncated_checkpoint(command, checkpoint: Path) -> None:
    whole = checkpoint.read_bytes()
    for size in (0, 1, 100, len(whole) // 2, len(whole) - 1):
        checkpoint.write_bytes(whole[:size])
        _check_refused(command("stage=predict", f"ckpt_path={checkpoint}", "inputs=[abc]"), str(checkpoint))


class _Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("save", ["torch", "pickle"])
def test_a_malicious_checkpoint_runs_nothing(save: str, command, tmp_path: Path) -> None:
    path, trace = tmp_path / "evil.ckpt", tmp_path / "trace"
    if save == "torch":
        torch.save({"state_dict": {}, "attention_lab": _Evil(trace)}, path)
    else:
        path.write_bytes(pickle.dumps(_Evil(trace)))
    _check_refused(command("stage=predict", f"ckpt_path={path}", "inputs=[abc]"), str(path))
    _check_refused(command(*TOY, *SMALL, f"ckpt_path={path}"), str(path))
    assert not trace.exists()


@pytest.mark.sampled(3, rest="long")
@pytest.mark.parametrize(
    "part",
    ["model", *(pytest.param(part, marks=pytest.mark.slow) for part in OTHER_PARTS)],
)
@pytest.mark.parametrize(
    "target",
    [
        "os.mkdir",
        "attention_lab.data.torch.Tensor",
        "attention_lab.data.reading.files.Path",
        "attention_lab.data.torch.save",
        "attention_lab.experiment.run",
        "attention_lab.load",
    ],
)
def test_a_checkpoint_can_name_nothing_but_our_parts(
    part: str, target: str, command, checkpoint: Path, tmp_path: Path
) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["attention_lab"]["config"][part] = {"_target_": target, "path": str(tmp_path / "trace")}
    torch.save(content, checkpoint)
    _check_refused(command("stage=predict", f"ckpt_path={checkpoint}", "inputs=[abc]"), target, "not loaded")
    assert not (tmp_path / "trace").exists()


def test_a_class_that_is_in_no_list_of_its_room_loads(command, checkpoint: Path) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["attention_lab"]["config"]["scoring"]["_target_"] = "attention_lab.attention.scores.Additive"
    torch.save(content, checkpoint)
    assert command("stage=predict", f"ckpt_path={checkpoint}", "inputs=[abc]").status == 0


@pytest.mark.sampled(3, rest="long")
@pytest.mark.parametrize(
    "value",
    [
        ({"_target_": "os.mkdir"},),
        "${oc.create:{_target_:os.mkdir,_args_:[trace]}}",
        "${oc.env:HOME}",
        {"_call_": "os.mkdir"},
        {1: "a"},
        torch.zeros(1),
    ],
    ids=["tuple", "create", "environment", "instruction", "key", "tensor"],
)
def test_a_checkpoint_holds_plain_values_only(
    value: object, command, checkpoint: Path, tmp_path: Path
) -> None:
    content = torch.load(checkpoint, weights_only=True)
    content["attention_lab"]["config"]["scoring"]["hidden_size"] = value
    torch.save(content, checkpoint)
    _check_refused(command("stage=predict", f"ckpt_path={checkpoint}", "inputs=[abc]"), "not loaded")
    assert not (tmp_path / "trace").exists()


@pytest.mark.long
def test_a_run_continues_only_with_the_options_it_was_trained_with(command, checkpoint: Path) -> None:
    resume = f"ckpt_path={checkpoint}"
    _check_refused(command(*TOY, *SMALL, "model.layers=2", resume), "model: it has model.layers=1, not 2;")
    _check_refused(command(*TOY, *SMALL, "scoring=dot", resume), "it has scoring._target_=")
    _check_refused(command(*TOY, *SMALL, "data.vocabulary=9", resume), "differs in its data")


def test_a_checkpoint_of_another_project(command, tmp_path: Path) -> None:
    path = tmp_path / "other.ckpt"
    torch.save({"state_dict": {}}, path)
    _check_refused(
        command("stage=predict", f"ckpt_path={path}", "inputs=[abc]"), "not a checkpoint of attention-lab"
    )


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        (b"ab\tx y\nno tab here\n", [":2:", "tab"]),
        (b"", ["empty"]),
        ("ab\té\n".encode("latin-1"), [":1:", "UTF-8"]),
    ],
    ids=["no tab", "empty", "not UTF-8"],
)
def test_files_of_pairs(content: bytes, parts: list[str], command, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    files = [f"data.{part}_file={path}" for part in ("train", "validation", "test")]
    _check_refused(command("model=seq2seq", "data=pairs", *files), str(path), *parts)


@pytest.mark.sampled(2, rest="long")
@pytest.mark.parametrize(
    ("cell", "shown"), [("two", "'two'"), ("nan", "'nan'"), ("", "''"), ("inf", "'inf'")]
)
def test_numbers_of_a_csv_file(cell: str, shown: str, command, tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text(f"x,y\n1,2\n3,{cell}\n")
    _check_refused(command("model=nw", "data=csv_regression", f"data.file={path}"), f"{path}:3", "y", shown)


@pytest.mark.long
def test_an_unknown_symbol_in_validation_is_no_error(command, tmp_path: Path) -> None:
    for part, text in (
        ("train", "ab\tx y\nba\ty x\nbb\ty y\n"),
        ("validation", "qé\tx z\n"),
        ("test", "ö\tw\n"),
    ):
        (tmp_path / f"{part}.tsv").write_text(text, encoding="utf-8")
    files = [f"data.{part}_file={tmp_path / part}.tsv" for part in ("train", "validation", "test")]
    done = command("model=seq2seq", "data=pairs", *files, *SMALL)
    assert done.status == 0, done.err
    assert [line.partition("/")[0] for line in done.err.splitlines()] == [
        "Warning: 2 source symbols in ",
        "Warning: 1 source symbol in ",
    ]


def test_predict_needs_inputs(command, checkpoint: Path, tmp_path: Path) -> None:
    predict = ["stage=predict", f"ckpt_path={checkpoint}"]
    _check_refused(command(*predict), "stage=predict needs inputs")
    _check_refused(command(*predict, "inputs=missing.txt"), "missing.txt", "No such file")


@pytest.mark.slow
def test_sizes_of_data_from_a_file_are_limited_but_not_those_that_are_typed(command) -> None:
    done = command(*TOY, *SMALL, "pictures=0")
    path = done.folder / "checkpoints" / "best.ckpt"
    content = torch.load(path, weights_only=True)
    content["attention_lab"]["config"]["data"].update(test_size=10**7, max_length=10**7)
    torch.save(content, path)
    test = ["stage=test", f"ckpt_path={path}", "pictures=0"]
    _check_refused(command(*test), f"{path}: data.test_size=10000000 and data.max_length=10000000 would")
    _check_refused(command(*test, "data.test_size=4"), f"{path}: data.max_length=10000000 would")
    assert command(*test, "data=reverse", "data.test_size=4", "data.max_length=10").status == 0
    (done.folder / "metrics.json").unlink()
    saved = done.folder / "config.yaml"
    saved.write_text(saved.read_text().replace("train_size: 32", "train_size: 10000000"))
    _check_refused(command(f"resume={done.folder}"), "config.yaml: data.train_size=10000000 would make")
