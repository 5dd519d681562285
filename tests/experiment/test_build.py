import os
import re
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from lightning_fabric.accelerators import MPSAccelerator
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.strategies import DDPStrategy

from attention_lab.callbacks.randomness import RankRandomness
from attention_lab.data import Reverse
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.datasets import RegressionSplit
from attention_lab.errors import LabError
from attention_lab.experiment.build import _check_optimizer, check_devices, make_data, make_task, make_trainer
from attention_lab.experiment.build_errors import blame_option

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
def test_what_optimiser_and_trainer_can_do_together(
    optimizer: dict[str, Any], options: dict[str, Any]
) -> None:
    _check_optimizer(optimizer, trainer(**options))


def test_what_they_cannot_is_refused() -> None:
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


@pytest.mark.parametrize("strategy", ["auto", "ddp", "ddp_spawn", "ddp_find_unused_parameters_true"])
def test_gradients_lie_where_processes_sum_them(strategy: str) -> None:
    options = {"accelerator": "cpu", "devices": 2, "strategy": strategy, "barebones": True}
    node = {"_target_": "pytorch_lightning.Trainer", **options}
    trainer = make_trainer({"trainer": node, "logger": {}, "callbacks": {}, "optimizer": None})
    assert isinstance(trainer.strategy, DDPStrategy)
    assert trainer.strategy._ddp_kwargs["gradient_as_bucket_view"]
    assert any(isinstance(one, RankRandomness) for one in trainer.callbacks)  # type: ignore[attr-defined]


@pytest.mark.parametrize("strategy", ["ddp_fork", "ddp_notebook_find_unused_parameters_true"])
def test_a_program_with_threads_is_not_forked(strategy: str) -> None:
    with pytest.raises(LabError, match=f"strategy={strategy} forks .*: choose trainer.strategy=ddp"):
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


ONE_GPU = "but this machine has 1 GPU: choose trainer.devices=1, or trainer.accelerator=cpu to use its cores"


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"devices": 2}, f"trainer.devices=2 needs 2 GPUs, {ONE_GPU}"),
        ({"devices": 2, "accelerator": "gpu"}, f"trainer.devices=2 needs 2 GPUs, {ONE_GPU}"),
        (
            {"devices": 2, "strategy": "fsdp", "accelerator": "cuda"},
            f"trainer.devices=2 needs 2 GPUs, {ONE_GPU}",
        ),
        ({"devices": [0, 1]}, f"trainer.devices=[0, 1] needs 2 GPUs, {ONE_GPU}"),
        ({"devices": 1}, ""),
        ({"devices": -1, "strategy": "fsdp"}, ""),
        ({"devices": "auto"}, ""),
        ({"devices": [0]}, ""),
        ({"devices": 2, "accelerator": "cpu"}, ""),
    ],
)
def test_each_process_has_a_gpu_of_its_own(
    options: dict[str, Any], line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(LabError, match=f"^{re.escape(line)}$") if line else nullcontext():
        check_devices(options)


def test_without_gpus_processes_share_the_cores() -> None:
    check_devices({"devices": 8, "accelerator": "auto"})


@pytest.mark.parametrize("apple", [True, False])
@pytest.mark.parametrize("accelerator", ["gpu", "cuda", "mps"])
def test_a_gpu_that_is_not_there_is_named(
    accelerator: str, apple: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: apple)
    with pytest.raises(LabError) if accelerator == "cuda" or not apple else nullcontext() as caught:
        check_devices({"accelerator": accelerator})
    if caught is not None:
        assert str(caught.value) == (
            f"trainer.accelerator={accelerator} needs a GPU, but PyTorch finds none: "
            "choose trainer.accelerator=cpu"
        )


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Mac with Apple's GPU, which PyTorch calls MPS."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(MPSAccelerator, "is_available", staticmethod(lambda: True))


@pytest.mark.filterwarnings("ignore:GPU available but not used")
@pytest.mark.parametrize("more", [{}, {"devices": 2}, {"devices": 2, "strategy": "ddp"}])
def test_a_mac_trains_on_its_cpu(more: dict[str, Any], mac: None) -> None:
    options = {"accelerator": "auto", "devices": 1, "barebones": True, **more}
    node = {"_target_": "pytorch_lightning.Trainer", **options}
    trainer = make_trainer({"trainer": node, "logger": {}, "callbacks": {}, "optimizer": None})
    assert isinstance(trainer.accelerator, CPUAccelerator)
    assert trainer.world_size == options["devices"]


@pytest.mark.parametrize("accelerator", ["mps", "gpu"])
def test_a_mac_trains_on_its_gpu_on_request(accelerator: str, mac: None) -> None:
    check_devices({"accelerator": accelerator, "devices": 1})
    with pytest.raises(LabError, match=f"^{re.escape(f'trainer.devices=2 needs 2 GPUs, {ONE_GPU}')}$"):
        check_devices({"accelerator": accelerator, "devices": 2})


@pytest.mark.parametrize("part", ["scoring", "window", "optimizer"])
def test_a_part_of_ones_own_is_made_later(part: str) -> None:
    """Without `_partial_`, Hydra would call the class at once, without what the program passes."""
    config: dict[str, Any] = {
        "scoring": {"_target_": "attention_lab.attention.Dot", "_partial_": True},
        "normalizer": {"_target_": "attention_lab.attention.Softmax", "_partial_": True},
        "pooling": {"_target_": "attention_lab.attention.Soft", "_partial_": True},
        "window": {"_target_": "attention_lab.attention.Global", "_partial_": True},
        "optimizer": {"_target_": "torch.optim.SGD", "_partial_": True},
        "schedule": {"_target_": "attention_lab.schedules.constant", "_partial_": True},
    }
    del config[part]["_partial_"]
    with pytest.raises(LabError, match=rf"^{part}._target_=\S+ needs _partial_: true beside it, in its file"):
        make_task(config, sizes=None, codec=None, trainable=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("empty", ["validation", "test"])
def test_data_to_train_on_has_three_splits(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Reverse.build

    def without_one(data: Reverse) -> Any:
        return build(data)._replace(**{empty: RegressionSplit(RegressionBatch(*torch.zeros(3, 0, 1)))})

    monkeypatch.setattr(Reverse, "build", without_one)
    with pytest.raises(LabError, match=rf"^the data has no examples for {empty}$"):
        make_data(
            {"data": {"_target_": "attention_lab.data.Reverse", "train_size": 9, "kind": "transduction"}}
        )


def test_data_and_model_of_ones_own_are_of_their_class() -> None:
    with pytest.raises(LabError, match=r"^data: Counter is not an attention_lab\.data\.DataModule$"):
        make_data({"data": {"_target_": "collections.Counter", "kind": "classification"}})
    parts = {
        "scoring": "Dot",
        "normalizer": "Softmax",
        "pooling": "Soft",
        "window": "Global",
    }
    config: dict[str, Any] = {
        part: {"_target_": f"attention_lab.attention.{name}", "_partial_": True}
        for part, name in parts.items()
    }
    config["model"] = {"_target_": "builtins.slice", "needs": "classification"}
    with pytest.raises(LabError, match=r"^model: slice is not a torch\.nn\.Module$"):
        make_task(config, sizes=None, codec=None, trainable=False)  # type: ignore[arg-type]


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
