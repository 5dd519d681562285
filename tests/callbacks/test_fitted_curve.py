"""When the fitted curve is logged, and what for."""

from types import SimpleNamespace
from typing import Any

import pytest

from attention_lab.callbacks import FittedCurve, fitted_curve


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps at which a picture is written, for a regression without training."""
    steps: list[int] = []
    monkeypatch.setattr(fitted_curve, "Regression", SimpleNamespace)
    monkeypatch.setattr(fitted_curve, "draw_panels", lambda *_, **__: None)
    logger = SimpleNamespace(log_picture=lambda tag, picture, step: steps.append(step))
    monkeypatch.setattr(fitted_curve, "run_loggers", lambda trainer: [logger] if trainer.writer else [])
    return steps


def train(steps: int, *, writer: object = "writer", start: int = 0) -> None:
    """A validation after every step, one before the first, and the end."""
    callback, task = FittedCurve(), SimpleNamespace(curve_panel=lambda data: "panel", curve_note="")
    trainer: Any = SimpleNamespace(sanity_checking=True, writer=writer, global_step=start, datamodule=None)
    callback.on_validation_end(trainer, task)  # type: ignore[arg-type]
    trainer.sanity_checking = False
    for step in range(start + 1, steps + 1):
        trainer.global_step = step
        callback.on_validation_end(trainer, task)  # type: ignore[arg-type]
    callback.on_train_end(trainer, task)  # type: ignore[arg-type]


def test_it_is_logged_ever_more_rarely_and_at_the_end(logged: list[int]) -> None:
    train(30)
    assert logged == [1, 4, 16, 30]


def test_the_end_is_not_logged_twice(logged: list[int]) -> None:
    train(16)
    assert logged == [1, 4, 16]


def test_a_resumed_run_logs_where_it_starts(logged: list[int]) -> None:
    train(25, start=20)
    assert logged == [21, 25]


def test_only_the_writing_process_logs(logged: list[int]) -> None:
    train(5, writer=None)
    assert logged == []
