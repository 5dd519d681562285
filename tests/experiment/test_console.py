"""Messages about data on the console."""

import logging
import warnings
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from hydra.utils import get_object
from lightning_fabric.plugins.environments import SLURMEnvironment
from pytorch_lightning.callbacks import ModelSummary
from pytorch_lightning.profilers import SimpleProfiler

from attention_lab.data.reading.splitting import Splits
from attention_lab.experiment import console

DATA = SimpleNamespace(
    shared="shared examples",
    unseen=Splits("", "in dev", "in test"),
    hints={"data.target_split": "split targets", "data.source_split": "split sources"},
)


@pytest.mark.parametrize(
    ("stage", "given", "said"),
    [
        ("fit", [], ["in dev", "in test", "split targets", "split sources"]),
        ("test", ["data.target_split=characters"], ["in test", "split sources"]),
    ],
)
def test_warnings_and_hints_are_one_line_each(
    stage: str,
    given: list[str],
    said: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    hydra = SimpleNamespace(overrides=SimpleNamespace(task=given))
    monkeypatch.setattr(console, "HydraConfig", SimpleNamespace(get=lambda: hydra))
    monkeypatch.setattr(console, "in_sweep", lambda: False)
    console.warn_about_data(DATA, stage)  # type: ignore[arg-type]
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Warning: shared examples"
    assert [line.partition(": ")[2] for line in lines[1:]] == said
    assert [line for line in lines if "split" in line] == [
        line for line in lines if line.startswith("Hint: ")
    ]


def test_a_first_experiment_is_no_warning() -> None:
    console.silence_libraries()
    assert not logging.getLogger("pytorch_lightning.loggers.mlflow").isEnabledFor(logging.WARNING)


def test_a_requested_model_summary_and_profile_are_shown(caplog: pytest.LogCaptureFixture) -> None:
    console.silence_libraries()
    module = pl.LightningModule()
    module.layer = torch.nn.Linear(2, 3)
    ModelSummary().on_fit_start(pl.Trainer(accelerator="cpu", logger=False), module)
    SimpleProfiler().describe()
    text = caplog.text
    assert "layer | Linear" in text and "Profiler Report" in text and "TPU" not in text


def test_a_class_that_does_not_exist_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    console.silence_libraries()
    with pytest.raises(ImportError):
        get_object("attention_lab.tasks.Foo")
    assert not caplog.messages  # of Hydra's; the error names the class


def test_a_computer_with_slurm_is_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lightning warns wherever there is an `srun`, although most runs there have one process."""
    (tmp_path / "srun").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        console.silence_libraries()
        SLURMEnvironment.detect()
    assert not found


def test_warnings_of_libraries_cannot_control_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """They repeat the names of folders and metrics, which may come from others."""
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        console.silence_libraries()
        warnings.warn("Checkpoint directory a\nb exists and is not empty.", stacklevel=1)
        warnings.warn("stopping on \x1b]0;x\x07\nError: no", stacklevel=1)
    (one,) = found
    line = warnings.formatwarning(one.message, one.category, "x.py", 3)
    shown = "stopping on \x1b]0;x\x07 Error: no".translate(
        dict.fromkeys((7, 27), "\N{REPLACEMENT CHARACTER}")
    )
    assert line == f"x.py:3: UserWarning: {shown}\n"
