"""How the agreement of weights with a gold alignment is logged."""

import pytest
import torch
from torch import nn

from attention_lab.data import Copy
from attention_lab.tasks import Transduction


@pytest.mark.parametrize("part", ["validation", "test"])
def test_every_head_is_logged_once_an_epoch(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Copy(train_size=1, validation_size=1, test_size=1)
    data.setup()
    task = Transduction(nn.Identity(), data.codec)  # type: ignore[arg-type]
    logged: list[dict[str, torch.Tensor]] = []
    monkeypatch.setattr(task, "log_dict", lambda values, **_: logged.append(values))
    weights = torch.stack([torch.eye(3), torch.eye(3).flip(0)])[None]
    task.alignments[part].update(weights, torch.tensor([[0, 1, 2]]))  # type: ignore[operator]
    for _ in range(2):
        getattr(task, f"on_{part}_epoch_end")()
    assert set(logged[0]) == {
        f"{part}/{measure}{head}"
        for measure in ("alignment_accuracy", "alignment_error_rate", "alignment_mass", "monotonicity")
        for head in ("", "/head_1", "/head_2")
    }
    assert logged[0][f"{part}/alignment_accuracy/head_1"] == 1
    assert logged[0][f"{part}/monotonicity/head_2"] == 0
    assert logged[1] == {}
