"""How the agreement of weights with a gold alignment is logged."""

import pytest
import torch
from small_data import whole
from torch import nn
from toys import toy

from attention_lab.data import Copy
from attention_lab.models import Seq2Seq
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


def test_a_word_of_one_symbol_is_aligned_with_the_first_position(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Copy(train_size=1, validation_size=1, test_size=1, min_length=1, max_length=1)
    data.setup()
    batch = whole(data.splits.test)
    assert batch.alignment.max() == 0
    task = Transduction(toy(Seq2Seq, sizes=data.codec.sizes), data.codec).eval()
    monkeypatch.setattr(task, "log", lambda *_, **__: None)
    monkeypatch.setattr(task, "decode", lambda *_: batch.target)
    task.validation_step(batch, 0)
    assert "alignment_accuracy" in task.alignments["validation"].take()  # type: ignore[operator]
    (record,) = task.observe(batch)[0].records
    assert record.gold is not None and record.gold.tolist() == batch.alignment[0].tolist()
