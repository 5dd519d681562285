"""Paths in a checkpoint cannot affect files outside the run's own folder."""

import copy
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

NW = ["model=nw", "data.train_size=10", "pictures=0", "logger=none", "callbacks.attention_maps.every=100"]
FIELDS = ("best_model_path", "kth_best_model_path", "last_model_path")


def _state(content: dict[str, Any]) -> dict[str, Any]:
    (state,) = (one for name, one in content["callbacks"].items() if name.startswith("BestCheckpoint"))
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
    """Through a link in the checkpoint folder."""
    (Path(state["dirpath"]) / "x").symlink_to(canary)
    for field in FIELDS:
        state[field] = f"{state['dirpath']}/x/kept.ckpt"
    state["best_k_models"] = {f"{state['dirpath']}/x/kept.ckpt": torch.tensor(0.0)}


@pytest.mark.parametrize(
    "alter",
    [_scheme, pytest.param(_parents, marks=pytest.mark.slow), pytest.param(_below, marks=pytest.mark.long)],
)
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
    continued = command(*NW, "trainer.max_epochs=6", f"ckpt_path={last}")
    assert continued.status == 0, continued.err
    assert (continued.folder / "checkpoints" / "best.ckpt").is_file()
    (done.folder / "metrics.json").unlink()
    resumed = command(f"resume={done.folder}")
    assert resumed.err.count("\n") <= 1, resumed.err
    assert (canary / "kept.ckpt").read_text() == "precious"


@pytest.mark.long
def test_one_flipped_bit_is_detected_by_every_stage(command) -> None:
    done = command(*NW, "trainer.max_epochs=1")
    best = done.folder / "checkpoints" / "best.ckpt"
    content = bytearray(best.read_bytes())
    with zipfile.ZipFile(best) as archive:
        weights = next(one for one in archive.namelist() if one.endswith("/data/0"))
        content[content.index(archive.read(weights))] ^= 1
    best.write_bytes(content)
    torch.load(best, weights_only=True)  # PyTorch does not notice
    for stage in (["stage=test"], ["stage=predict", "inputs=['1']"], NW):
        refused = command(*stage, f"ckpt_path={best}")
        assert refused.status == 1
        assert refused.err == f"Error: ckpt_path={best}: the file is damaged or truncated\n"
    (done.folder / "metrics.json").unlink()
    resumed = command(f"resume={done.folder}")  # its last checkpoint is intact, but the best one is tested
    assert resumed.status == 1
    assert resumed.err == f"Error: {best}: the file is damaged or truncated\n"


@pytest.mark.long
def test_the_best_checkpoint_of_a_resumed_run_is_blamed_in_one_line(command) -> None:
    done = command(*NW, "trainer.max_epochs=1")
    best = done.folder / "checkpoints" / "best.ckpt"
    content = torch.load(best, weights_only=True)
    for change, said in [
        (
            {"state_dict": {"\x1b[2J": torch.zeros(1)}},
            'Unexpected key(s) in state_dict: "\N{REPLACEMENT CHARACTER}[2J".',
        ),
        ({"state_dict": [1]}, "TypeError"),
        ({"pytorch-lightning_version": 5}, "Invalid version: 5"),
    ]:
        torch.save({**content, **change}, best)
        (done.folder / "metrics.json").unlink(missing_ok=True)
        refused = command(f"resume={done.folder}")
        assert refused.status == 1
        assert refused.err.startswith(f"Error: ckpt_path={best}: it cannot be tested: ")
        assert said in refused.err and refused.err.count("\n") == 1
