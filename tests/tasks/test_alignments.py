"""How the agreement of weights with a gold alignment is logged."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.multiprocessing
from small_data import whole
from torch import nn
from toys import toy

from attention_lab.attention import Dot, LocalP, Mechanism
from attention_lab.data import Copy, TransductionBatch
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


def _validate(rank: int, folder: str) -> None:
    """Validate one example, in the second process without an alignment, and write what was logged."""
    torch.distributed.init_process_group("gloo", f"file://{folder}/meeting", rank=rank, world_size=2)
    data = Copy(train_size=1, validation_size=2, test_size=1)
    data.setup()
    batch = data.splits.validation[torch.tensor([0])]
    assert isinstance(batch, TransductionBatch)
    batch = batch._replace(alignment=batch.alignment.where(torch.tensor(rank == 0), -1))
    task = Transduction(toy(Seq2Seq, Mechanism(Dot, window=LocalP), data.codec.sizes), data.codec).eval()
    logged: dict[str, Any] = {}
    task.log = lambda name, value, **options: logged.update(  # type: ignore[method-assign]
        {name: (value, options.get("batch_size"))}
    )
    task.log_dict = lambda values, **_: logged.update(values)  # type: ignore[method-assign]
    task.validation_step(batch, 0)
    task.on_validation_epoch_end()
    error, steps = logged["validation/window_error"]
    assert (steps > 0) == (rank == 0) and bool(error.isfinite())
    Path(folder, str(rank)).write_text(str(float(logged["validation/alignment_mass"])))
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_a_process_without_alignments_waits_for_no_other(tmp_path: Path) -> None:
    """All processes take part in the sums of an epoch; one without aligned examples left the others alone."""
    torch.multiprocessing.spawn(_validate, args=(str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    masses = [(tmp_path / str(rank)).read_text() for rank in (0, 1)]
    assert masses[0] == masses[1] and 0 < float(masses[0]) < 1
