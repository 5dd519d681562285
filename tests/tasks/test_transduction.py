"""What a transduction counts, against numbers worked out by hand."""

from typing import Any

import pytest
import torch
from torch import nn

from attention_lab.attention import Dot, LocalP, Mechanism, Recording
from attention_lab.data import Copy
from attention_lab.errors import LabError
from attention_lab.models import Seq2Seq
from attention_lab.special_symbols import EOS
from attention_lab.tasks import Transduction


@pytest.fixture
def task() -> Transduction:
    data = Copy(train_size=1, validation_size=1, test_size=1)
    data.setup()
    model = nn.Identity()
    model.alignment, model.longest = "decoder", 18  # type: ignore[assignment]
    return Transduction(model, data.codec, label_smoothing=0.1)  # type: ignore[arg-type]


def test_the_window_error_is_the_distance_to_the_gold_positions(
    task: Transduction, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mean over the heads and the aligned steps."""
    logged = {}
    monkeypatch.setattr(task, "log", lambda name, value, **options: logged.update({name: (value, options)}))
    recorded, centre = Recording(), torch.tensor([[[1.0, 4, 9], [2, 2, 9]]])  # of two heads
    recorded.add("decoder", torch.ones(1, 2, 3, 5), None, centre.unsqueeze(-1))
    task._log_window_error(recorded, torch.tensor([[0, 2, -1]]), "test")
    value, options = logged["test/window_error"]
    assert value == (1 + 2 + 2 + 0) / 4 and options["batch_size"] == 2


def test_the_window_error_is_logged_after_loss_and_error_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a run's results are in this order."""
    data = Copy(train_size=1, validation_size=1, test_size=2)
    data.setup()
    task = Transduction(Seq2Seq(Mechanism(Dot, window=LocalP), data.codec.sizes), data.codec).eval()
    logged: list[str] = []
    monkeypatch.setattr(task, "log", lambda name, value, **options: logged.append(name))
    task.test_step(data.splits.test[torch.arange(2)], 0)
    names = ("loss", "sequence_error_rate", "token_error_rate", "window_error")
    assert logged == [f"test/{name}" for name in names]


def test_each_symbol_counts_the_same_in_the_loss_whatever_the_batches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = Copy(train_size=1, validation_size=4, test_size=1)
    data.setup()
    task = Transduction(Seq2Seq(Mechanism(Dot), data.codec.sizes), data.codec).eval()
    logged: list[tuple[float, int]] = []

    def log(name: str, value: Any, **options: int) -> None:
        if name == "validation/loss":
            logged.append((value.item(), options["batch_size"]))

    monkeypatch.setattr(task, "log", log)
    for rows in (torch.arange(4), torch.arange(1), torch.arange(1, 4)):
        task.validation_step(data.splits.validation[rows], 0)
    (together, symbols), *parts = logged
    assert sum(size for _, size in parts) == symbols == int(data.splits.validation._target.lengths.sum())
    assert sum(loss * size for loss, size in parts) == pytest.approx(together * symbols)


def test_an_output_has_at_most_three_symbols_for_each_of_the_source_and_ten(task: Transduction) -> None:
    batch = task.codec.encode(["abc", "a"])
    assert batch.source_lengths.tolist() == [4, 2]
    assert task._limits(batch).tolist() == [18, 16]  # 22 is more than the model can write


def test_very_many_beams_need_a_smaller_batch(task: Transduction) -> None:
    """Both may come from a checkpoint of others: they took 7 GB and more for the smallest of models."""
    batch = task.codec.encode(["a"] * 263)
    message = r"task\.beam_size=1000 makes 263,000 sequences of a batch of 263, .*data\.batch_size"
    with pytest.raises(LabError, match=message):
        task.decode(batch, 1000)


def test_the_likelihood_of_a_symbol_is_smoothed(task: Transduction) -> None:
    logits = torch.tensor([[[0.1, 0.2, 0.3, 0.4]]]).log()
    target = torch.tensor([[EOS]])
    found = task._log_likelihood(logits, target)
    logs = torch.tensor([0.1, 0.2, 0.3, 0.4]).log()
    assert found.item() == pytest.approx(float(0.9 * logs[EOS] + 0.1 * logs.mean()))
