"""What the first line of a training run says about it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra.core.hydra_config import HydraConfig

from attention_lab.experiment.fitting import Introduction


def test_a_resumed_run_has_the_names_of_its_own_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not in `conf/`, so that the choices with which Hydra composes are the defaults."""
    record = tmp_path / ".hydra" / "hydra.yaml"
    record.parent.mkdir()
    record.write_text("hydra: {runtime: {choices: {model: my_model, data: 'my\\ndata', scoring: dot}}}")
    composed = {"model": "seq2seq", "data": "cmudict", "scoring": "additive"}
    hydra = SimpleNamespace(runtime=SimpleNamespace(choices=composed))
    monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
    trainer: Any = SimpleNamespace(
        is_global_zero=True,
        datamodule=SimpleNamespace(splits=SimpleNamespace(train=[1, 2])),
        strategy=SimpleNamespace(root_device=torch.device("cpu")),
        world_size=1,
    )
    module: Any = torch.nn.Linear(1, 1)
    Introduction(tmp_path).on_train_start(trainer, module)
    line = capsys.readouterr().out.splitlines()[0]
    assert "model=my_model data=my" in line
    assert line.endswith("scoring=dot: 2 training examples, 2 parameters, on cpu")
    Introduction(tmp_path / "new").on_train_start(trainer, module)
    assert "model=seq2seq data=cmudict scoring=additive: 2 " in capsys.readouterr().out
