"""Options on the command line that change the task or the data of a checkpoint."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from saved_models import SEQ2SEQ, transduction

from attention_lab.errors import LabError
from attention_lab.experiment import given_checkpoint
from attention_lab.experiment.given_checkpoint import load_trained_model
from attention_lab.files.run_files import RECIPE

KEPT = {
    "model": {"_target_": "attention_lab.models.SelfAttentionClassifier"},
    "task": {"_target_": "attention_lab.tasks.Classification", "label_smoothing": 0.0},
    "data": {"_target_": "attention_lab.data.Labelled", "kind": "classification", "file": "a.tsv"},
}


def _given(monkeypatch: pytest.MonkeyPatch, *options: str, kept: Any = KEPT) -> Any:
    hydra = SimpleNamespace(overrides=SimpleNamespace(task=list(options)))
    monkeypatch.setattr(given_checkpoint, "HydraConfig", SimpleNamespace(get=lambda: hydra))
    return given_checkpoint.with_overrides(kept, {"stage": "test", **kept})


@pytest.mark.parametrize("option", ["task.beam_size=5", "+task.beam_size=5", "++task.beam_size=null"])
def test_an_option_of_another_task_is_named(option: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=r"^task\.beam_size is not an option of Classification: leave it out$"):
        _given(monkeypatch, option)
    with pytest.raises(LabError, match=r"is not .*: did you mean task\.label_smoothing\? Or leave"):
        _given(monkeypatch, "+task.label_smoth=0.1")


def test_options_of_the_task_and_of_the_checkpoint_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _given(monkeypatch, "task.label_smoothing=0.1")["task"]["label_smoothing"] == 0.1
    assert _given(monkeypatch, "data.file=b.tsv")["data"]["file"] == "b.tsv"
    own = {**KEPT, "task": {**KEPT["task"], "odd": 1}}  # rebuilding the task blames the checkpoint for it
    assert _given(monkeypatch, "task.label_smoothing=0.1", kept=own)["task"]["odd"] == 1
    assert _given(monkeypatch, "task.odd=2", kept=own)["task"]["odd"] == 2


@pytest.mark.parametrize("stage", ["test", "predict", "export"])
def test_weights_that_are_not_finite_are_named(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hydra = SimpleNamespace(overrides=SimpleNamespace(task=[]))
    monkeypatch.setattr(given_checkpoint, "HydraConfig", SimpleNamespace(get=lambda: hydra))
    for value, message in (
        (1.0, ""),
        (torch.nan, "Warning: ckpt_path={path}: {name} has weights that are NaN or infinite\n"),
    ):
        task = transduction(SEQ2SEQ)
        name, weight = next(task.model.named_parameters())
        torch.nn.init.constant_(weight, value)
        path = tmp_path / "mine.ckpt"
        torch.save({"state_dict": task.state_dict(), RECIPE: task.recipe}, path)
        load_trained_model({"ckpt_path": str(path), "stage": stage, "allow": []})
        assert capsys.readouterr().err == message.format(path=path, name=name)
