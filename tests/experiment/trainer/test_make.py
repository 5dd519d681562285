import os
import re
from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.strategies import DDPStrategy

from attention_lab.callbacks.randomness import RankRandomness
from attention_lab.errors import LabError
from attention_lab.experiment.build_errors import blame_option
from attention_lab.experiment.trainer.make import _check_optimizer, make_trainer

ADAM = {"_target_": "torch.optim.Adam", "fused": True}


def trainer(**options: Any) -> Any:
    return SimpleNamespace(**{"world_size": 1, "gradient_clip_val": 1.0, "precision": "32-true"} | options)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (ADAM, {}),
        (ADAM, {"precision": "bf16-mixed", "world_size": 2}),
        (ADAM, {"precision": "16-mixed", "gradient_clip_val": None}),
        (ADAM | {"fused": False}, {"precision": "16-mixed"}),
        (ADAM | {"eps": 1e-4}, {"precision": "16-true"}),
        (ADAM, {"precision": "bf16-true"}),
        ({"_target_": "torch.optim.SGD"}, {"precision": "16-true"}),
        ({"_target_": "torch.optim.LBFGS"}, {}),
        ({}, {}),
    ],
)
def test_optimisers_that_work_with_the_trainer_pass(
    optimizer: dict[str, Any], options: dict[str, Any]
) -> None:
    _check_optimizer(optimizer, trainer(**options))


def test_optimisers_that_do_not_work_with_the_trainer_are_rejected() -> None:
    with pytest.raises(LabError, match=r"optimizer\.fused=false"):
        _check_optimizer(ADAM, trainer(precision="16-mixed"))
    with pytest.raises(LabError, match=r"\+optimizer\.eps=1e-4"):
        _check_optimizer(ADAM, trainer(precision="16-true"))
    with pytest.raises(LabError, match="optimizer=adam"):
        _check_optimizer({"_target_": "torch.optim.LBFGS"}, trainer(world_size=2))


@pytest.mark.parametrize(("given", "then"), [(None, "1"), ("0", "0")])
def test_attention_on_a_gpu_prepares_nothing_for_each_shape_unless_told_to(
    given: str | None, then: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "TORCH_CUDNN_SDPA_DEPRIORITIZED"
    monkeypatch.setenv(name, given or "")  # to be restored afterwards
    if given is None:
        monkeypatch.delenv(name)
    node = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu", "barebones": True}
    make_trainer({"trainer": node, "logger": {}, "callbacks": {}, "optimizer": None})
    assert os.environ[name] == then


@pytest.mark.parametrize("strategy", ["auto", "ddp", "ddp_find_unused_parameters_true"])
def test_gradients_lie_where_processes_sum_them(strategy: str) -> None:
    options = {"accelerator": "cpu", "devices": 2, "strategy": strategy, "barebones": True}
    node = {"_target_": "pytorch_lightning.Trainer", **options}
    trainer = make_trainer({"trainer": node, "logger": {}, "callbacks": {}, "optimizer": None})
    assert isinstance(trainer.strategy, DDPStrategy)
    assert trainer.strategy._ddp_kwargs["gradient_as_bucket_view"]
    assert any(isinstance(one, RankRandomness) for one in trainer.callbacks)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("strategy", "why"),
    [
        ("ddp_fork", "forks this process"),
        ("ddp_notebook_find_unused_parameters_true", "forks this process"),
        ("ddp_spawn", "sends a copy"),
        ("ddp_spawn_find_unused_parameters_false", "sends a copy"),
    ],
)
def test_processes_are_not_copies_of_this_one(strategy: str, why: str) -> None:
    with pytest.raises(LabError, match=f"strategy={strategy} {why} .*: choose trainer.strategy=ddp"):
        make_trainer({"trainer": {"strategy": strategy}})


@pytest.mark.parametrize(
    ("callbacks", "trainer", "line"),
    [
        ({}, {"foo": 1}, "trainer.foo is not an option of Trainer: leave it out"),
        (
            {"checkpoint": {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint", "monitr": "a"}},
            {},
            "callbacks.checkpoint.monitr is not an option of ModelCheckpoint: did you mean callback",
        ),
    ],
)
def test_an_unknown_option_is_named(callbacks: dict[str, Any], trainer: dict[str, Any], line: str) -> None:
    trainer = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu", **trainer}
    config = {"trainer": trainer, "callbacks": callbacks, "logger": {}, "optimizer": None}
    with pytest.raises(LabError, match=f"^{re.escape(line)}"), blame_option(config):
        make_trainer(config)


@pytest.mark.parametrize(
    ("group", "name", "node", "line"),
    [
        (
            "callbacks",
            "mine",
            1,
            "callbacks.mine=1: write callbacks.mine._target_=..., with the path of a class",
        ),
        (
            "logger",
            "mine",
            "bar",
            "logger.mine=bar: write logger.mine._target_=..., with the path of a class",
        ),
        (
            "callbacks",
            "mine",
            {"x": 1},
            "callbacks.mine={'x': 1}: write callbacks.mine._target_=..., with the path of a class",
        ),
        (
            "callbacks",
            "mine",
            {"_target_": "collections.Counter"},
            "callbacks.mine: Counter is not a pytorch_lightning.Callback",
        ),
        (
            "callbacks",
            "mine",
            {"_target_": "attention_lab.tasks.Transduction"},  # which cannot be made without a model
            "callbacks.mine: Transduction is not a pytorch_lightning.Callback",
        ),
        (
            "logger",
            "mine",
            {"_target_": "torch.nn.Identity"},
            "logger.mine: Identity is not a pytorch_lightning.loggers.Logger",
        ),
        (
            "callbacks",
            "checkpoint",
            {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint", "mode": "foo"},
            "callbacks.checkpoint: `mode` can be min, max but got foo",
        ),
        (
            "callbacks",
            "checkpoint",
            {"_target_": "pytorch_lightning.callbacks.ModelCheckpoint", "mode": ["min"]},
            "callbacks.checkpoint.mode=['min'] must be text",
        ),
        (
            "callbacks",
            "attention_maps",
            {"_target_": "attention_lab.callbacks.AttentionMaps", "every": None},
            "callbacks.attention_maps.every must be a whole number, not None",
        ),
        (
            "callbacks",
            "averaging",
            {"_target_": "attention_lab.callbacks.AveragedWeights", "decay": None},
            "callbacks.averaging.decay=null must be a number",
        ),
    ],
)
def test_a_callback_or_logger_that_cannot_be_made_is_named(
    group: str, name: str, node: object, line: str
) -> None:
    trainer = {"_target_": "pytorch_lightning.Trainer", "accelerator": "cpu"}
    config = {"trainer": trainer, "callbacks": {}, "logger": {}, "optimizer": None, group: {name: node}}
    with pytest.raises(LabError) as raised, blame_option(config):
        make_trainer(config)
    assert str(raised.value) == line
