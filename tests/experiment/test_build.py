from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn

from attention_lab.data import Reverse
from attention_lab.data.reading.batches import RegressionBatch
from attention_lab.data.reading.codecs import ClassificationCodec
from attention_lab.data.reading.datasets import RegressionSplit
from attention_lab.errors import LabError
from attention_lab.experiment.build import make_data, make_task
from attention_lab.tasks import Classification


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
    with pytest.raises(LabError, match=rf"^{part}._target_=\S+ needs _partial_: true next to it in its file"):
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


PARTS: dict[str, Any] = {
    part: {"_target_": f"attention_lab.attention.{name}", "_partial_": True}
    for part, name in {
        "scoring": "Dot",
        "normalizer": "Softmax",
        "pooling": "Soft",
        "window": "Global",
    }.items()
}


def test_data_and_model_of_ones_own_are_of_their_class() -> None:
    with pytest.raises(LabError, match=r"^data: Counter is not an attention_lab\.data\.DataModule$"):
        make_data({"data": {"_target_": "collections.Counter", "kind": "classification"}})
    config = {**PARTS}
    config["model"] = {"_target_": "builtins.slice", "needs": "classification"}
    with pytest.raises(LabError, match=r"^model: slice is not a torch\.nn\.Module$"):
        make_task(config, sizes=None, codec=None, trainable=False)  # type: ignore[arg-type]


class Model(nn.Linear):
    def __init__(self, mechanism: Any, sizes: Any) -> None:
        super().__init__(2, 2)


class WithoutSuper(Classification):
    def __init__(self, model: nn.Module, codec: Any, **options: Any) -> None:
        self.weight = 1.0


class WithoutOptions(Classification):
    """Without an optimiser, training would change nothing, and its checkpoints would have no recipe."""

    def __init__(self, model: nn.Module, codec: Any, **options: Any) -> None:
        super().__init__(model, codec)


class NoTask(pl.LightningModule):
    def __init__(self, model: nn.Module, codec: Any, **options: Any) -> None:
        super().__init__()


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (
            WithoutSuper,
            r"^task: WithoutSuper.__init__ must call super\(\).__init__\(model, codec, \*\*options\)",
        ),
        (WithoutOptions, r"^task: WithoutOptions.__init__ must call super\(\).__init__\(.*with all options"),
        (NoTask, r"^task: NoTask is not an attention_lab\.tasks\.Task$"),
    ],
)
def test_a_task_of_ones_own_keeps_all_that_it_is_given(task: type, told: str) -> None:
    codec = ClassificationCodec(["a", "b"], length=3, features=2)
    config = {**PARTS, "data": {}, "model": {"_target_": f"{__name__}.Model"}}
    config["task"] = {"_target_": f"{__name__}.{task.__name__}"}
    with pytest.raises(LabError, match=told):
        make_task(config, codec.sizes, codec, trainable=False)
