"""Checkpoint recipes with impossible values are rejected quickly, in one line."""

import json
from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest
import torch
from damage import harmless

import attention_lab
from attention_lab.errors import LabError
from attention_lab.experiment.build import make_data, make_task
from attention_lab.files.run_files import RECIPE
from attention_lab.untrusted.configuration import check_targets

PARTS = {"scoring": "Additive", "normalizer": "Softmax", "pooling": "Soft", "window": "Global"}
CONFIG: dict[str, Any] = {
    **{
        part: {"_target_": f"attention_lab.attention.{name}", "_partial_": True}
        for part, name in PARTS.items()
    },
    "model": {
        "_target_": "attention_lab.models.Seq2Seq",
        "needs": "transduction",
        "layers": 1,
        "dropout": 0.1,
        "embedding_size": 4,
        "hidden_size": 4,
    },
    "task": {"_target_": "attention_lab.tasks.Transduction", "beam_size": 1, "label_smoothing": 0.0},
    "data": {
        "_target_": "attention_lab.data.Reverse",
        "kind": "transduction",
        "train_size": 8,
        "validation_size": 2,
        "test_size": 2,
        "max_length": 4,
    },
}


@pytest.fixture(scope="module")
def content() -> dict[str, Any]:
    """The content of an untrained sequence model's checkpoint."""
    data = make_data(CONFIG)
    task = make_task(CONFIG, data.sizes, data.codec, trainable=False)
    return {"state_dict": task.state_dict(), RECIPE: task.recipe}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("model.layers", 10**9, "choose at most"),
        ("model.layers", 10**7, "far fewer"),
        ("model.layers", True, "model.layers=true: it must be a whole number"),
        ("model.layers", 1.5, "model.layers=1.5: it must be a whole number"),
        ("model.layers", -1, ""),
        ("model.layers", None, "it must be a whole number"),
        ("model.hidden_size", 10**7, "far fewer"),
        ("model.dropout", float("nan"), "it must be a finite number"),
        ("model.dropout", float("inf"), "it must be a finite number"),
        ("model.dropout", "x", "it must be a number"),
        ("model.dropout", 7.0, ""),
        ("model.input_feeding", 1, "it must be true or false"),
        ("model.cell", 3, "it must be text"),
        ("model.cell", "\x1b[31m\n", "model.cell=\N{REPLACEMENT CHARACTER}"),
        ("task.beam_size", 10**9, "choose at most"),
        ("task.beam_size", 10**6, "from 1 to 1000"),
        ("task.length_penalty", 1e30, "task.length_penalty must be from -10 to 10, got 1e+30"),
        ("task._target_", "attention_lab.tasks.Task", "names 'attention_lab.tasks.Task'"),
        ("task._target_", "attention_lab.models.Seq2Seq", "as its task"),
        (
            "data._target_",
            "attention_lab.data.synthetic.listops.Grammar",
            "as its data, which is not a DataM",
        ),
        ("model._target_", "attention_lab.data.Reverse", "as its model"),
        (
            "model._target_",
            "attention_lab.models.seq2seq.EncoderDecoder",
            "as its model, which is not made from a mechanism and sizes",
        ),
        (
            "model._target_",
            "attention_lab.models.parts.readouts.Mean",
            "as its model, which is not made from a mechanism and sizes",
        ),
        (
            "normalizer._target_",
            "attention_lab.attention.Hard",
            "as its normalizer, which is not in attention_lab",
        ),
        (
            "pooling._target_",
            "attention_lab.attention.Softmax",
            "as its pooling, which is not in attention_lab",
        ),
        (
            "task",
            {"_target_": "attention_lab.tasks.LanguageModeling"},
            "LanguageModeling, which does not fit transduction data",
        ),
        ("data._target_", "attention_lab.data.reading.datamodule.DataModule", "names"),
        ("data.train_size", 10**9, "choose at most"),
        ("scoring.size", 10**9, "choose at most"),
        ("model._target_", "attention_lab.models" + ".x" * 100_000 + ".Y", "is not part of attention-lab"),
        *(
            (option, [{"_target_": f"attention_lab.{target}"}], f"inside attention_lab.{holder}")
            for option, target, holder in (
                ("model.more", "data.Reverse", "models.Seq2Seq"),
                ("scoring.more", "models.Seq2Seq", "attention.Additive"),
                ("task.more", "attention.Additive", "tasks.Transduction"),
                ("data.more", "data.Reverse", "data.Reverse"),
            )
        ),
        ("model.cell", "x" * 5_000, f"model.cell={'x' * 88}… is unknown: choose lstm or gru"),
        ("task._target_", "x" * 5_000 + ".Y", "not part of attention-lab: it is not loaded"),
        ("model.many", ["x"] * 10_000, "the checkpoint has more than 10,000 values"),
        ("model.deep", json.loads("[" * 35 + "]" * 35), "the checkpoint has more than 30 levels of options"),
    ],
)
def test_refused_in_one_line(
    option: str, value: Any, message: str, content: dict[str, Any], tmp_path: Path
) -> None:
    part, _, key = option.partition(".")
    recipe = content[RECIPE]
    changed = {**recipe["config"][part], key: value} if key else value
    config = {**recipe["config"], part: changed}
    torch.save({**content, RECIPE: {**recipe, "config": config}}, tmp_path / "mine.ckpt")
    with harmless("mine.ckpt") as messages:
        attention_lab.load(tmp_path / "mine.ckpt")
    assert messages, "it was loaded"
    assert message in messages[0] and len(messages[0]) < 500


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("", "is incomplete"),
        ("config", "is incomplete"),
        ("version", "has version tensor(["),
    ],
)
@pytest.mark.parametrize("shape", [(1,), (3, 3)])
def test_tensors_in_place_of_a_recipe_or_its_parts(
    part: str, shape: tuple[int, ...], message: str, content: dict[str, Any], tmp_path: Path
) -> None:
    tensor = torch.zeros(shape)
    recipe = {**content[RECIPE], part: tensor} if part else tensor
    torch.save({**content, RECIPE: recipe}, tmp_path / "mine.ckpt")
    with harmless("mine.ckpt") as messages:
        attention_lab.load(tmp_path / "mine.ckpt")
    assert message in messages[0]


@pytest.mark.parametrize(
    ("data", "model", "task", "changed", "message"),
    [
        ("Sine", "KernelRegression", "Regression", {"inputs": ["x", "y"]}, "its sizes do not match"),
        ("Digits", "RecurrentClassifier", "Classification", {"features": None}, "either symbols or vectors"),
    ],
)
def test_a_codec_that_does_not_fit_its_sizes_is_rejected(
    data: str, model: str, task: str, changed: dict[str, Any], message: str, tmp_path: Path
) -> None:
    options = {"d_model": 4, "layers": 1, "dropout": 0.0} if data == "Digits" else {}
    config = CONFIG | {
        "data": {"_target_": f"attention_lab.data.{data}", "kind": "any"},
        "model": {"_target_": f"attention_lab.models.{model}", **options},
        "task": {"_target_": f"attention_lab.tasks.{task}"},
    }
    made = make_data(config)
    trained = make_task(config, made.sizes, made.codec, trainable=False)
    recipe, state = trained.recipe, trained.state_dict()
    codec = recipe["codec"] | changed
    if data == "Sine":  # one mean for each input, and for the target
        codec |= {name: [*codec[name], 1.0] for name in ("mean", "deviation")}
    torch.save({"state_dict": state, RECIPE: recipe}, tmp_path / "mine.ckpt")
    attention_lab.load(tmp_path / "mine.ckpt")
    torch.save({"state_dict": state, RECIPE: recipe | {"codec": codec}}, tmp_path / "mine.ckpt")
    with pytest.raises(LabError, match=message):
        attention_lab.load(tmp_path / "mine.ckpt")


def test_the_unchanged_recipe_is_loaded(content: dict[str, Any], tmp_path: Path) -> None:
    torch.save(content, tmp_path / "mine.ckpt")
    assert len(attention_lab.load(tmp_path / "mine.ckpt").predict(["abc"])) == 1


@pytest.mark.parametrize(
    ("path", "missing"),
    [
        ("codec", "codec.kind"),
        ("codec.kind", "codec.kind"),
        ("sizes", "sizes.kind"),
        ("config", "config"),
        ("config.model", "model._target_"),
        ("config.scoring._target_", "scoring._target_"),
        ("config.data.kind", "data.kind"),
    ],
)
def test_what_is_missing_is_named(path: str, missing: str, content: dict[str, Any], tmp_path: Path) -> None:
    changed = deepcopy(content)
    *parents, last = path.split(".")
    del reduce(getitem, parents, changed[RECIPE])[last]
    torch.save(changed, tmp_path / "mine.ckpt")
    with pytest.raises(LabError, match=rf": the checkpoint's recipe is incomplete: it has no {missing}$"):
        attention_lab.load(tmp_path / "mine.ckpt")


def test_weights_that_do_not_fit_are_named(content: dict[str, Any], tmp_path: Path) -> None:
    """Such as those of a class that has been changed since; only the class of the task was named."""
    name, *_ = content["state_dict"]
    weights = dict(content["state_dict"])
    del weights[name]
    torch.save({**content, "state_dict": weights}, tmp_path / "mine.ckpt")
    with pytest.raises(LabError) as error:
        attention_lab.load(tmp_path / "mine.ckpt")
    told = f'the weights do not fit the model: Missing key(s) in state_dict: "{name}".'
    assert str(error.value) == f"ckpt_path={tmp_path / 'mine.ckpt'}: {told}"


def test_objects_inside_an_object_only_with_an_allowed_package() -> None:
    inner = {"_target_": "attention_lab.attention.Dot"}
    parts = {"model": {"_target_": "attention_lab.models.Seq2Seq", "more": [{"a": inner}]}}
    check_targets(parts, "x", allow=["attention_lab.models"])  # as if the outer class were the user's
    check_targets(parts, "x", allow=["attention_lab.attention"])  # or the inner one
    with pytest.raises(LabError, match=r"names 'attention_lab\.attention\.Dot' inside attention_lab\."):
        check_targets(parts, "x", allow=["torch"])
    inner["_target_"] = "attention_lab.loggers.MLFlowRunLogger"
    with pytest.raises(LabError, match="inside"):
        check_targets(parts, "x", allow=["attention_lab.models"], listed=lambda _: True)


def test_numbers_are_keys_only_in_what_an_allowed_class_is_given() -> None:
    name = "pytorch_lightning.callbacks.GradientAccumulationScheduler"
    scheduler = {"_target_": name, "scheduling": {0: 4, 3: 2}}  # by epoch
    allow = ["pytorch_lightning.callbacks"]
    check_targets({"callbacks": {"mine": scheduler}}, "x", allow=allow)
    for wrong in ({**scheduler, 0: 4}, {**scheduler, "scheduling": {True: 4}}, {"callbacks": {0: scheduler}}):
        with pytest.raises(LabError, match=r"has the option (0|True), which is not allowed"):
            check_targets(wrong, "x", allow=allow)
    own = {"_target_": "attention_lab.models.Seq2Seq", "scheduling": {0: 4}}
    with pytest.raises(LabError, match="has the option 0, which is not allowed"):
        check_targets(own, "x", allow=allow)


def test_names_that_are_not_classes_of_an_allowed_package_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "allowed_package.py").write_text("import os\n\ndef make(): ...\n\nclass Mine: ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("allowed_package.make", "allowed_package.os.system", "allowed_package.None_"):
        with pytest.raises(
            LabError, match=r"; allowed_package is allowed, but it does not define this class"
        ):
            check_targets({"_target_": name}, "x", allow=["allowed_package"])
    check_targets({"_target_": "allowed_package.Mine"}, "x", allow=["allowed_package"])
