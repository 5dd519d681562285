"""What a checkpoint says of files: none outside of the run's own folder is touched."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

NW = ["model=nw", "data.train_size=10", "pictures=0", "logger=none", "callbacks.attention_maps.every=100"]
FIELDS = ("best_model_path", "kth_best_model_path", "last_model_path")


def _state(content: dict[str, Any]) -> dict[str, Any]:
    (state,) = (one for name, one in content["callbacks"].items() if name.startswith("ModelCheckpoint"))
    found: dict[str, Any] = state
    return found


def _scheme(state: dict[str, Any], canary: Path) -> None:
    for field in FIELDS:
        state[field] = f"local://{canary}"


def _parents(state: dict[str, Any], canary: Path) -> None:
    state["dirpath"] = "/QQ"
    for field in FIELDS:
        state[field] = f"/QQ/../../{canary.name}"


def _below(state: dict[str, Any], canary: Path) -> None:
    """Through a link in the folder of the checkpoints."""
    (Path(state["dirpath"]) / "x").symlink_to(canary)
    for field in FIELDS:
        state[field] = f"{state['dirpath']}/x/kept.ckpt"
    state["best_k_models"] = {f"{state['dirpath']}/x/kept.ckpt": torch.tensor(0.0)}


@pytest.mark.parametrize("alter", [_scheme, _parents, _below])
def test_nothing_outside_is_removed(
    alter: Callable[[dict[str, Any], Path], None], command, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    canary.mkdir()
    (canary / "kept.ckpt").write_text("precious")
    done = command(*NW, "trainer.max_epochs=2")
    assert done.status == 0, done.err
    last = done.folder / "checkpoints" / "last.ckpt"
    content = torch.load(last, weights_only=True)
    content["attention_lab_state"]["done"] = False
    altered = copy.deepcopy(content)
    alter(_state(altered), canary)
    torch.save(altered, last)
    begun = command(*NW, "trainer.max_epochs=6", f"ckpt_path={last}")
    assert begun.status == 0, begun.err
    assert (begun.folder / "checkpoints" / "best.ckpt").is_file()
    (done.folder / "metrics.json").unlink()
    resumed = command(f"resume={done.folder}")
    assert resumed.err.count("\n") <= 1, resumed.err
    assert (canary / "kept.ckpt").read_text() == "precious"
