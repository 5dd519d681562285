from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.strategies import DDPStrategy

from attention_lab.callbacks.randomness import RankRandomness
from attention_lab.errors import LabError
from attention_lab.experiment.build import _check_optimizer, make_trainer

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
    with pytest.raises(LabError, match=f"strategy={strategy} forks a program with threads: choose ddp"):
        make_trainer({"trainer": {"strategy": strategy}})
