"""What a run says and keeps at the end of training."""

from types import SimpleNamespace
from typing import Any

import pytest
from pytorch_lightning.callbacks import ModelCheckpoint

from attention_lab.experiment.fitting import no_best_checkpoint_warning


@pytest.mark.parametrize(
    ("monitor", "measured", "best", "warns"),
    [
        ("validation/loss", [], "", True),
        ("validation/loss", [], "best.ckpt", False),
        ("validation/loss", ["validation/loss"], "", False),
        (None, [], "", False),
    ],
)
def test_a_run_without_validation_says_what_it_tests(
    monitor: str | None, measured: list[str], best: str, warns: bool
) -> None:
    callback = ModelCheckpoint(monitor=monitor)
    callback.best_model_path = best
    metrics = dict.fromkeys(measured, 1.0)
    trainer: Any = SimpleNamespace(checkpoint_callback=callback, callback_metrics=metrics)
    warning = "no validation has measured validation/loss: there is no best.ckpt; the last weights are tested"
    assert no_best_checkpoint_warning(trainer) == (warning if warns else "")
    trainer.checkpoint_callback = None
    assert no_best_checkpoint_warning(trainer) == ""
