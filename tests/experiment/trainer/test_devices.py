import re
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from lightning_fabric.accelerators import MPSAccelerator
from pytorch_lightning.accelerators import CPUAccelerator

from attention_lab.errors import LabError
from attention_lab.experiment.trainer.devices import check_devices
from attention_lab.experiment.trainer.make import make_trainer

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
