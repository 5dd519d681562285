"""A run that is interrupted anywhere and resumed ends exactly like one that is not."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from attention_lab.interruption.resume import find_last_checkpoint
from attention_lab.interruption.training_guard import TrainingGuard

TOY = [
    "data.train_size=60",
    "data.validation_size=10",
    "data.test_size=10",
    "data.max_length=5",
    "data.batch_size=8",
]
QUICK = ["pictures=0", "callbacks.resumable.every_seconds=0", "callbacks.attention_maps.examples=1"]
RUNS = {
    "nw": ["model=nw", "data.train_size=10", "trainer.max_epochs=4"],
    "seq2seq": [
        *("model=seq2seq", "data=reverse", *TOY, "model.embedding_size=4", "model.hidden_size=4"),
        *("trainer.max_epochs=2", "model.dropout=0.2", "trainer.log_every_n_steps=3"),
    ],
    "multihead": [
        *("model=multihead", "model.d_model=8", "model.heads=2", "model.feedforward=8"),
        *("trainer.max_epochs=2", "data.batch_size=400"),
    ],
}


class Killed(BaseException):
    """Ends training in this process as SIGKILL would: nothing is saved."""


def _kill_at(monkeypatch, *steps: int) -> None:
    """Kill training after each of these numbers of steps, before the next batch."""
    original, left = TrainingGuard.on_train_batch_start, list(steps)

    def start(guard: TrainingGuard, trainer: Any, module: Any, batch: Any, number: int) -> None:
        original(guard, trainer, module, batch, number)
        if left and trainer.global_step == left[0]:
            left.pop(0)
            raise Killed

    monkeypatch.setattr(TrainingGuard, "on_train_batch_start", start)


def _resumed(command, monkeypatch, options: list[str], *steps: int) -> Any:
    with monkeypatch.context() as patch:
        _kill_at(patch, *steps)
        with pytest.raises(Killed):
            command(*options)
        (folder,) = (path for path in Path.cwd().glob("run*") if not (path / "metrics.json").exists())
        for _ in steps[1:]:
            with pytest.raises(Killed):
                command(f"resume={folder}")
        return command(f"resume={folder}")._replace(folder=folder)


def _state(folder: Path, name: str = "last") -> dict[str, Any]:
    content: dict[str, Any] = torch.load(folder / "checkpoints" / f"{name}.ckpt", weights_only=True)
    return content


def _scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0}).Reload()
    found = {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    found |= {tag: [(one.step, 0.0) for one in events.Tensors(tag)] for tag in events.Tags()["tensors"]}
    return found


def _results(folder: Path) -> dict[str, float]:
    found = json.loads((folder / "metrics.json").read_text())
    return {name: value for name, value in found.items() if name not in TIMES}


TIMES = ("fit/seconds", "fit/steps_per_second", "fit/peak_memory_mb")


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def _assert_same(unbroken: Path, resumed: Path) -> None:
    for name in ("best", "last"):
        before, after = _state(unbroken, name), _state(resumed, name)
        for part in ("state_dict", "optimizer_states", "lr_schedulers", "loops", "epoch", "global_step"):
            assert _same(before[part], after[part]), (name, part)
    assert _results(unbroken) == _results(resumed)
    assert _scalars(unbroken) == _scalars(resumed)


MORE = {
    "hard": ["pooling=hard", "callbacks=ema", "trainer.accumulate_grad_batches=2"],
    "gumbel": ["pooling=gumbel", "+trainer.val_check_interval=3", "logger=csv", "callbacks=early_stopping"],
}


@pytest.mark.parametrize(
    ("model", "more", "steps"),
    [
        ("seq2seq", "hard", [3]),
        pytest.param("seq2seq", "", [3, 8, 13], marks=pytest.mark.slow),
        pytest.param("seq2seq", "gumbel", [1, 7], marks=pytest.mark.slow),
        pytest.param("nw", "", [2], marks=pytest.mark.slow),
        pytest.param("multihead", "", [4], marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_resumes_bit_for_bit(
    model: str, more: str, steps: list[int], command, monkeypatch
) -> None:
    options = [*RUNS[model], *MORE.get(more, []), *QUICK]
    unbroken = command(*options)
    assert unbroken.status == 0, unbroken.err
    done = _resumed(command, monkeypatch, options, *steps)
    assert done.status == 0, done.err
    _assert_same(unbroken.folder, done.folder)
    if "logger=csv" in options:
        tables = [(one / "csv" / "metrics.csv").read_text() for one in (unbroken.folder, done.folder)]
        assert tables[0] == tables[1]


def test_a_best_checkpoint_alone_cannot_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was killed before its first `last.ckpt`."""
    (tmp_path / "checkpoints").mkdir()
    for found in ("no checkpoint yet", "no last.ckpt yet, and best.ckpt lacks a part of the state"):
        assert find_last_checkpoint(tmp_path) is None
        assert capsys.readouterr().err == f"Resume: {found}; starting from the first step\n"
        (tmp_path / "checkpoints" / "best.ckpt").touch()
