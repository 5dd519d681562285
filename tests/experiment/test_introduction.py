"""What the first line of a training run says about it."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hydra.core.hydra_config import HydraConfig

from attention_lab.experiment.fitting import Introduction

CHOICES = {"model": "seq2seq", "data": "cmudict", "scoring": "additive"}


@pytest.fixture
def introduce(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """The first line of a run in a folder, composed with these choices."""

    def introduce(folder: Path, **choices: str) -> str:
        hydra = SimpleNamespace(runtime=SimpleNamespace(choices=CHOICES | choices))
        monkeypatch.setattr(HydraConfig, "get", lambda: hydra)
        trainer: Any = SimpleNamespace(
            is_global_zero=True,
            datamodule=SimpleNamespace(splits=SimpleNamespace(train=[1, 2])),
            strategy=SimpleNamespace(root_device=torch.device("cpu")),
            world_size=1,
        )
        module: Any = torch.nn.Linear(1, 1)
        Introduction(folder).on_train_start(trainer, module)
        return capsys.readouterr().out.splitlines()[0]

    return introduce


def test_a_resumed_run_has_the_names_of_its_own_groups(tmp_path: Path, introduce) -> None:
    """They are not in `conf/`, so that the choices with which Hydra composes are the defaults."""
    record = tmp_path / ".hydra" / "hydra.yaml"
    record.parent.mkdir()
    record.write_text("hydra: {runtime: {choices: {model: my_model, data: 'my\\ndata', scoring: dot}}}")
    line = introduce(tmp_path)
    assert "model=my_model data=my" in line
    assert line.endswith("scoring=dot: 2 training examples, 2 parameters, on cpu")
    assert "model=seq2seq data=cmudict scoring=additive: 2 " in introduce(tmp_path / "new")


def test_parts_other_than_the_plain_ones_are_named(tmp_path: Path, introduce) -> None:
    line = introduce(tmp_path, normalizer="softmax", pooling="hard", window="local_p")
    assert " scoring=additive pooling=hard window=local_p: 2 " in line
    line = introduce(tmp_path, normalizer="sparsemax", pooling="soft", window="global")
    assert " scoring=additive normalizer=sparsemax: 2 " in line
